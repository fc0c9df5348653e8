#!/bin/bash
# Runs the tests under sanitizers: accesses outside of memory and leaks (AddressSanitizer), races (ThreadSanitizer).
#
#   scripts/sanitize.sh [address|thread|all] [unit|mount|all]     all and all, if not said
#
# Leaks are looked for in the unit tests.
#
# Of the mount tests it runs those whose daemon works hard with many threads, and those that make it fail. Left out are
# those that measure (memory, requests, time), and those that load a library before libc into the daemon, where a
# sanitizer must be first itself.
# Every process writes its reports to files: the daemons', which end where no test looks, are found too. Builds are in
# .build/sanitize-address and .build/sanitize-thread. What is suppressed, and why, is in Tests/Sanitizers.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

[[ $# -le 2 && ${1:-all} =~ ^(address|thread|all)$ && ${2:-all} =~ ^(unit|mount|all)$ ]] || show_head
tests=${2:-all}

prepare_build

mount_tests='MountTests\.MountTests/(LockUnderFire|Daemon|Directory|Content|PasscodeChange|SeveralMounts|Namespace|DamagedFile|BadStore|Fsck|SlowRequest)Tests'
reports=$(mktemp -d /tmp/protectfs-sanitize.XXXXXX)
trap 'rm -rf "$reports"' EXIT
suppressions=$PWD/Tests/Sanitizers
export SWIFT_BACKTRACE=enable=no
# A daemon in its sandbox cannot start the program that finds the names of functions, by which reports are suppressed.
export PROTECTFS_TEST_MOUNT_OPTIONS=sandbox=off

sanitize() {
  local sanitizer=$1 status=0
  # gold, the default linker, fails on what the sanitizers need.
  local flags=(--sanitize "$sanitizer" --scratch-path ".build/sanitize-$sanitizer" -Xswiftc -use-ld=lld)
  printf '\n== %s: build\n' "$sanitizer"
  swift build --build-tests "${flags[@]}" || return 1
  mkdir "$reports/$sanitizer"
  export ASAN_OPTIONS="log_path=$reports/$sanitizer/report:detect_stack_use_after_return=1"
  export LSAN_OPTIONS="suppressions=$suppressions/leaks-without-callers.txt:print_suppressions=0"
  export TSAN_OPTIONS="log_path=$reports/$sanitizer/report:suppressions=$suppressions/races.txt"
  if [[ $tests != mount ]]; then
    printf '\n== %s: unit tests\n' "$sanitizer"
    # Residue searches all memory of the process, of which a sanitizer maps terabytes; noNameGoesMissing needs a thread to
    # get to run in time, which it does not here.
    swift test --skip-build "${flags[@]}" --skip MountTests --skip ResidueTests --skip noNameGoesMissing --parallel ||
      status=1
  fi
  if [[ $tests != mount && $sanitizer == address ]]; then
    printf '\n== %s: leaks of libcrypto'"'"'s contexts\n' "$sanitizer"
    ASAN_OPTIONS="$ASAN_OPTIONS:fast_unwind_on_malloc=0" \
      LSAN_OPTIONS="suppressions=$suppressions/leaks.txt:print_suppressions=0" \
      swift test --skip-build "${flags[@]}" --filter CryptographyTests --parallel || status=1
  fi
  if [[ $tests != unit ]] && [[ -r /dev/fuse && -w /dev/fuse ]]; then
    printf '\n== %s: mount tests\n' "$sanitizer"
    # Leaks are found by tracing oneself, and no daemon lets itself be traced.
    ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" \
      swift test --skip-build "${flags[@]}" --filter "$mount_tests" --no-parallel || status=1
  fi
  if compgen -G "$reports/$sanitizer/report.*" >/dev/null; then
    printf '\n== %s: reports\n' "$sanitizer"
    cat "$reports/$sanitizer"/report.*
    status=1
  fi
  return "$status"
}

failed=0
for sanitizer in address thread; do
  [[ ${1:-all} == all || ${1:-all} == "$sanitizer" ]] || continue
  sanitize "$sanitizer" || failed=1
done
((failed == 0)) || { echo "A sanitizer found something, or a test failed." >&2; exit 1; }
