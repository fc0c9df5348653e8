#!/bin/bash
# Tests what needs a service manager, each part in a container of its own (scripts/container.sh): units, automounts, lines
# of fstab, logins, what is locked with a session and before sleep, and packages, which scripts/package.sh builds. Needs root.
#
#   scripts/container-test.sh [--protectfs PROTECTFS] [NAME...]       (by default each program in scripts/container)
#
# Prints a line for each check. Ends with 1 if one failed, with 77 if no container can be run here.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

protectfs=
if [[ ${1-} == --protectfs ]]; then
  protectfs=$2
  shift 2
elif [[ ${1-} == -* ]]; then
  show_head
fi
if (($# == 0)); then
  for test in scripts/container/*.sh; do
    [[ ! -x $test ]] || set -- "$@" "$(basename "$test" .sh)"
  done
fi
if [[ -z $protectfs && $* != packages ]]; then
  prepare_build
  swift build --product protectfs 2>&1 | tail -n 1
  protectfs=$(swift build --show-bin-path)/protectfs
fi

failed=()
for name in "$@"; do
  printf '\n-- %s (at %d s)\n' "$name" "$SECONDS"
  status=0
  if [[ $name == packages ]]; then
    scripts/package.sh
    scripts/container.sh --copy scripts/container --copy .build/packages none container/packages.sh packages || status=$?
  else
    scripts/container.sh --copy scripts/container "$protectfs" "container/$name.sh" || status=$?
  fi
  ((status != 77)) || exit 77
  ((status == 0)) || failed+=("$name")
done
printf '\nTook %d s.\n' "$SECONDS"
((${#failed[@]} == 0)) || {
  echo "Failed: ${failed[*]}" >&2
  exit 1
}
