#!/bin/bash
# Kills the daemon under a load at random moments, and checks that nothing acknowledged is lost. See kill-test.py.
#
#   scripts/kill-test.sh [--rounds N] [--seed N] [--workers N] [--longest SECONDS] [--keep]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

prepare_build python3 util-linux
export PROTECTFS_STRICT=1
swift build --product protectfs 2>&1 | tail -n 1
exec python3 scripts/kill-test.py --protectfs "$(swift build --show-bin-path)/protectfs" "$@"
