#!/bin/bash
# Runs the mount tests that say how fast something is, which a busy machine may fail: what others do beside a request that
# hangs or is slow, what a thread that waits costs, how much gets done while locks come and go. Alone on the machine, on
# each transport.
#
#   scripts/timing-tests.sh             runs them, and the other tests of their suites
#   scripts/timing-tests.sh --pattern   a regular expression of their names, which scripts/test.sh leaves out
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
[[ $# -eq 0 || ($# -eq 1 && $1 == --pattern) ]] || show_head

if (($#)); then
  suites='(RingWidth|SlowRequest)Tests/'
  suites+='|RingTransportTests/(anIdleMount|moreHang|withoutRings|itAnswers)'
  suites+='|LockUnderFireTests/(losesNothing|keepsWhat)'
  # A lock there gives the store half a second.
  suites+='|StuckStoreTests/(locksAndNames|aLazy|everyone|recordsAre|aRekey|aRotation|aSlow)'
  echo "MountTests\.MountTests/($suites)"
  exit
fi

prepare_build attr
swift build --build-tests
scripts/transports.sh 'SlowRequest|StuckStore|LockUnderFire'
# These choose their transport themselves.
swift test --skip-build --ignore-lock --no-parallel --filter "MountTests\.MountTests/(RingWidth|RingTransport)Tests/"
