#!/bin/bash
# Cuts the power under a load at random moments, and checks that nothing synchronised is lost. See powercut-test.py.
# Needs root, for loop devices.
#
#   scripts/powercut-test.sh [--rounds N] [--seed N] [--workers N] [--longest SECONDS] [--file-system ext4|xfs] [--keep]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

if ((EUID != 0)); then
  echo "powercut-test: must be root, for loop devices" >&2
  exit 1
fi
prepare_build python3 util-linux e2fsprogs
if [[ $* == *xfs* ]]; then install_packages xfsprogs; fi
export PROTECTFS_STRICT=1
swift build --product protectfs 2>&1 | tail -n 1
exec python3 scripts/powercut-test.py --protectfs "$(swift build --show-bin-path)/protectfs" "$@"
