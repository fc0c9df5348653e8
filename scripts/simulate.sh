#!/bin/bash
# Makes sequences of changes of keys on a simulated disk, whose power is cut at each moment, and looks at what the next
# start finds. Prints a line for each length: sequences, states, problems. Ends with 1 if there is one.
#
#   scripts/simulate.sh [--length N]    sequences of up to N changes (3)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

export PROTECTFS_SIMULATED_LENGTH=3
if (($#)); then
  [[ $# -eq 2 && $1 == --length && $2 =~ ^[1-9]$ ]] || show_head
  PROTECTFS_SIMULATED_LENGTH=$2
fi

prepare_build
swift build --build-tests 2>&1 | tail -n 1
swift test --skip-build --filter KeybagCrashTests 2>&1 | grep -E '^keys:|✘|✔ Test run'
