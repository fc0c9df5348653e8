#!/bin/bash
# Has several hosts use one store on a real file system of several hosts, each in a network namespace of its own, and prints
# a table of what was tried: a second writer, a reader, a writer that is killed or cut off, an erasure. See hosts-test.py.
#
#   scripts/hosts-test.sh [moosefs|glusterfs|cephfs] [--quick] [--saves N] [--rotations N] [--takeovers N]
#                         [--authenticated]
#
# On GlusterFS, a store whose contents are not authenticated fails one check, and on MooseFS one fails without --quick:
# see README.md, "Several hosts". Needs root, and /dev/fuse. Takes about a quarter of an hour; --quick on MooseFS, which
# is part of test.sh, a minute. Leaves nothing behind but installed packages, and lines in the logs of GlusterFS.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
if ((EUID != 0)); then
  echo "hosts-test: must be root, to make network namespaces and mounts" >&2
  exit 1
fi
engine=(moosefs-master moosefs-chunkserver moosefs-client)
case " $* " in
*" glusterfs "*) engine=(glusterfs-server glusterfs-client) ;;
*" cephfs "*) engine=(ceph-mon ceph-mgr ceph-osd ceph-mds ceph-fuse) ;;
esac
prepare_build python3 iproute2 util-linux "${engine[@]}"
export PROTECTFS_STRICT=1
swift build --product protectfs 2>&1 | tail -n 1
exec python3 scripts/hosts-test.py --protectfs "$(swift build --show-bin-path)/protectfs" "$@"
