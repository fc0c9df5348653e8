#!/bin/bash
# Holds the rules of the simulated disk (Tests/SimulatedDisk) against real file systems: sequences of calls, the power
# cut before each flush, and what is found then. The last line says how much that was. Ends with 1 if something is found
# that the simulated disk does not allow. Needs root, for loop devices; XFS needs xfsprogs.
#
#   scripts/disk-rules.sh [--file-system ext4|xfs] [--cuts N] [--seed S]    (ext4, 8, random)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

file_system=ext4
options=()
while (($#)); do
  case "$1 ${2-}" in
  '--file-system ext4' | '--file-system xfs') file_system=$2 ;;
  '--cuts '[1-9]* | '--seed '[0-9]*) options+=("$1" "$2") ;;
  *) show_head ;;
  esac
  shift 2
done
if ((EUID != 0)); then
  echo "disk-rules: must be root, for loop devices" >&2
  exit 1
fi
if ! command -v "mkfs.$file_system" >/dev/null; then
  echo "Skipped: there is no mkfs.$file_system on this machine." >&2
  exit 0
fi

prepare_build python3 util-linux
states=$(mktemp /tmp/protectfs-disk-rules.XXXXXX)
trap 'rm -f "$states"' EXIT
swift build --build-tests 2>&1 | tail -n 1
PROTECTFS_DISK_RULES=$states swift test --skip-build --filter DiskRulesTests >/dev/null
python3 scripts/disk-rules.py --states "$states" --file-system "$file_system" "${options[@]}"
