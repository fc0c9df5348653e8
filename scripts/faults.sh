#!/bin/bash
# Every operation of the fault tests, with every call of the daemon or the command failing or being its last: minutes
# instead of the seconds that a part of them takes in scripts/test.sh. Needs root and /dev/fuse.
set -euo pipefail
cd "$(dirname "$0")/.."

PROTECTFS_STRICT=1 swift build --build-tests
PROTECTFS_ALL_FAULTS=1 swift test --skip-build --no-parallel \
  --filter 'MountTests\.MountTests/(.*Fault.*|Interruption|Restore|Rotation|Erasure|KeybagImport|KeybagCommand)Tests/'
