#!/bin/bash
# Builds the package Examples, and runs its tests on real mounts: databases, a background logger, an app from iOS, a web
# service, and clients in Python, of which the one for GLib is skipped without python3-gi.
# Installs what it needs on Debian 12. The protectfs that is mounted with is the main package's own.
#
#   scripts/examples.sh [--build]    only builds and lints them
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
[[ $# -eq 0 || ($# -eq 1 && $1 == --build) ]] || show_head

# GRDB is built on SQLite; the tests call umount.
prepare_build libsqlite3-dev mount

# udev makes /dev/fuse usable for everyone; a machine without udev may not have.
if ((EUID == 0)) && [[ -c /dev/fuse ]]; then chmod 666 /dev/fuse; fi

step() { printf '\n== %s\n' "$*"; }

step "Examples: format"
swift format lint --strict --recursive Examples/Package.swift Examples/Sources Examples/Tests

export PROTECTFS_STRICT=1
step "Examples: build, warnings as errors"
swift build --package-path Examples --build-tests

step "Examples: no call loses a class"
swift package --package-path Examples protection-lint
if (($#)); then exit; fi

if ! [[ -r /dev/fuse && -w /dev/fuse ]]; then
  echo "Skipped: the examples' tests on mounts. /dev/fuse is missing or may not be used." >&2
elif ((EUID != 0)); then
  echo "Skipped: the examples' tests on mounts. They need root." >&2
else
  step "Examples: the protectfs to mount with"
  swift build --product protectfs
  PROTECTFS="$(swift build --show-bin-path)/protectfs"
  export PROTECTFS
fi

step "Examples: tests"
swift test --package-path Examples --skip-build --no-parallel
