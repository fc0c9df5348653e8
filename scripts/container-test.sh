#!/bin/bash
# Tests what needs a service manager, each part in a container of its own (scripts/container.sh): units, automounts, lines
# of fstab, logins, what is locked with a session and before sleep, and packages, which scripts/package.sh builds. Needs root.
#
#   scripts/container-test.sh [--release RELEASE] [--protectfs PROTECTFS] [NAME...]
#
# RELEASE is bookworm (Debian 12, the default) or trixie (13). By default each program in scripts/container is run.
# Prints a line for each check. Ends with 1 if one failed, with 77 if no container can be run here.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

protectfs='' release=bookworm
while [[ ${1-} == --* ]]; do
  case $1 in
  --protectfs) protectfs=$2 ;;
  --release) release=$2 ;;
  *) show_head ;;
  esac
  shift 2
done
packages=.build/packages
if (($# == 0)); then
  for test in scripts/container/*.sh; do
    [[ ! -x $test ]] || set -- "$@" "$(basename "$test" .sh)"
  done
fi
if [[ $release != "$(machine_release)" ]]; then
  packages+=-$release
  scripts/package.sh "$release"
  protectfs=.build/$release/release/protectfs
elif [[ -z $protectfs && $* != packages ]]; then
  prepare_build
  swift build --product protectfs 2>&1 | tail -n 1
  protectfs=$(swift build --show-bin-path)/protectfs
fi

failed=()
for name in "$@"; do
  printf '\n-- %s (at %d s)\n' "$name" "$SECONDS"
  status=0
  if [[ $name == packages ]]; then
    [[ $release != "$(machine_release)" ]] || scripts/package.sh
    scripts/container.sh --release "$release" --copy scripts/container --copy "$packages" none \
      container/packages.sh "$(basename "$packages")" || status=$?
  else
    scripts/container.sh --release "$release" --copy scripts/container "$protectfs" "container/$name.sh" || status=$?
  fi
  ((status != 77)) || exit 77
  ((status == 0)) || failed+=("$name")
done
printf '\nTook %d s.\n' "$SECONDS"
((${#failed[@]} == 0)) || {
  echo "Failed: ${failed[*]}" >&2
  exit 1
}
