#!/bin/bash
# Makes sequences of changes of keys and of calls on a simulated disk, whose power is cut at each moment, and looks at what
# the next start finds: all sequences of up to N changes, then longer ones for as long as is said, which are the same for
# the same seed; these also on a disk without a journal, and single calls on one whose pages are torn. The last line says
# how much that was. Ends with 1 if something is wrong.
#
#   scripts/simulate.sh [--length N] [--seconds N] [--seed S] [--only keys|contents|names|pages]    (2, 0, random, all)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

export PROTECTFS_SIMULATED_LENGTH=2
# What depends on the order of a set repeats too.
export SWIFT_DETERMINISTIC_HASHING=1
seconds=0 kinds=9
suites='KeybagCrashTests|FileCrashTests|PageCrashTests'
while (($#)); do
  case "$1 ${2-}" in
  '--length '[1-9]) PROTECTFS_SIMULATED_LENGTH=$2 ;;
  '--seconds '[0-9]*) seconds=$2 ;;
  '--seed '[0-9]*) export PROTECTFS_SIMULATED_SEED=$2 ;;
  '--only keys') suites=KeybagCrashTests kinds=1 ;;
  '--only pages') suites=PageCrashTests kinds=4 ;;
  '--only contents' | '--only names')
    suites=FileCrashTests kinds=4
    if [[ $2 == names ]]; then kinds=2; fi
    export PROTECTFS_SIMULATED_ONLY=$2
    ;;
  *) show_head ;;
  esac
  shift 2
done

# Keys; calls, and erasures between them, both without a journal as well; pages, from four beginnings.
export PROTECTFS_SIMULATED_SECONDS=$((seconds / kinds))

prepare_build
# Optimised, with the checks of debug builds: several times as fast, and the order of locks is held in optimised code too.
flags=(--scratch-path .build/optimized -Xswiftc -O -Xcc -O2)
swift build --build-tests "${flags[@]}" 2>&1 | tail -n 1
swift test --skip-build "${flags[@]}" --no-parallel --filter "$suites" 2>&1 | awk '
  /^planted: /
  /^(keys|calls|edges|erasures|pages)[^:]*: / { states += $(NF - 3); problems += $(NF - 1); print }
  /✘/
  END { print states + 0 " states, " problems + 0 " problems"; exit problems > 0 || !states }'
