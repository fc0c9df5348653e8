#!/bin/bash
# Runs mount tests on each way in which requests can reach the daemon: through /dev/fuse and, where the kernel has it, over
# io_uring. As root it turns that on meanwhile.
#
#   scripts/transports.sh [SUITES]
#
# SUITES is a regular expression of names of suites without "Tests"; all if it is not given. With TRANSPORTS, a list of
# names (device, io_uring), only those.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

suites=${1:-'.*'}
parameter=/sys/module/fuse/parameters/enable_uring
transports=${TRANSPORTS:-device io_uring}
if [[ $transports == *io_uring* ]]; then
  if [[ ! -e $parameter ]]; then
    echo "Skipped: io_uring. The kernel does not have it." >&2
    transports=${transports//io_uring/}
  elif [[ $(<"$parameter") != Y ]]; then
    if ! [[ -w $parameter ]]; then
      echo "Skipped: io_uring. It is off, and only root may turn it on." >&2
      transports=${transports//io_uring/}
    else
      trap 'echo N >"$parameter"' EXIT
      echo Y >"$parameter"
    fi
  fi
fi
for transport in $transports; do
  echo "== Mount tests on $transport"
  # That suite chooses for itself.
  PROTECTFS_TEST_MOUNT_OPTIONS=transport=$transport swift test --skip-build --ignore-lock --no-parallel \
    --filter "MountTests\.MountTests/($suites)Tests/" --skip "RingTransportTests"
done
