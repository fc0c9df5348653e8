#!/bin/bash
# The fault tests of mounts and commands, with each of their calls failing or being the last one: minutes instead of the
# seconds that one in four of the calls takes in scripts/test.sh. Needs root and /dev/fuse.
set -euo pipefail
cd "$(dirname "$0")/.."

PROTECTFS_STRICT=1 swift build --build-tests
PROTECTFS_ALL_FAULTS=1 swift test --skip-build --no-parallel \
  --filter 'MountTests\.MountTests/(.*Fault.*|Restore|Rotation|Erasure|KeybagImport|KeybagCommand)Tests/'
