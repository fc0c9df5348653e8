#!/bin/bash
# Builds the Debian packages protectfs, libpam-protectfs and protectfs-nautilus, and has lintian look at them; any error or
# warning of it is a failure. Installs what it needs on Debian 12; Swift must be there.
#
#   scripts/package.sh [DIRECTORY]       (.build/packages; packages that are there are replaced)
#
# The command is $PROTECTFS, or is built.
set -euo pipefail
source "$(dirname "$0")/packages.sh"
(($# <= 1)) && [[ ${1-} != -* ]] || show_head
output=$(realpath -m "${1:-$(dirname "$0")/../.build/packages}")
cd "$(dirname "$0")/.."

prepare_build build-essential debhelper lintian
if [[ -z ${PROTECTFS-} ]]; then
  swift build -c release --static-swift-stdlib --product protectfs
  PROTECTFS=$(swift build -c release --static-swift-stdlib --show-bin-path)/protectfs
fi
PROTECTFS=$(realpath "$PROTECTFS")
export PROTECTFS

# In a copy: the tools write into the source tree, and beside it.
work=$(mktemp -d /tmp/protectfs-package.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/protectfs"
tar --create --exclude=./.build --exclude=./.git . | tar --extract --directory="$work/protectfs"
(cd "$work/protectfs" && dpkg-buildpackage --build=binary --no-sign)
lintian --fail-on error,warning --display-level '>=warning' "$work"/*.changes

mkdir -p "$output"
rm -f "$output"/*.deb
mv "$work"/*.deb "$output"
ls -l "$output"
