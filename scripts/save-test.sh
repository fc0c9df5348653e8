#!/bin/bash
# Saves a file with many programs while its class is locked, or locks it while they have it open, and checks that the old
# version or the new one is there. Prints a table. See save-test.py.
#
#   scripts/save-test.sh [--only NAME...]
#
# Installs editors, LibreOffice, archivers and more. Takes about ten minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
[[ $# -eq 0 || $1 == --only ]] || show_head

prepare_build python3 attr git rsync vim-tiny emacs-nox libreoffice-writer-nogui libglib2.0-bin python3-pyqt5 unzip zip \
  p7zip-full libarchive-tools cpio ed busybox curl wget patch
export PROTECTFS_STRICT=1
swift build --product protectfs 2>&1 | tail -n 1
exec /usr/bin/python3 scripts/save-test.py --protectfs "$(swift build --show-bin-path)/protectfs" "$@"
