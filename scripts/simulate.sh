#!/bin/bash
# Makes sequences of changes of keys and of calls on a simulated disk, whose power is cut at each moment, and looks at what
# the next start finds. Prints a line for each length: sequences, states, problems. Ends with 1 if there is one.
#
#   scripts/simulate.sh [--length N] [--only keys|calls]    sequences of up to N (2)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

export PROTECTFS_SIMULATED_LENGTH=2
suites='KeybagCrashTests|FileCrashTests'
while (($#)); do
  case "$1 ${2-}" in
  '--length '[1-9]) PROTECTFS_SIMULATED_LENGTH=$2 ;;
  '--only keys') suites=KeybagCrashTests ;;
  '--only calls') suites=FileCrashTests ;;
  *) show_head ;;
  esac
  shift 2
done

prepare_build
swift build --build-tests 2>&1 | tail -n 1
swift test --skip-build --no-parallel --filter "$suites" 2>&1 | grep -E '^(keys|calls):|✘|✔ Test run'
