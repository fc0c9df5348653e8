#!/bin/bash
# Builds the Debian packages protectfs, libpam-protectfs and protectfs-nautilus, and has lintian look at them; any error or
# warning of it is a failure. Installs what it needs on Debian 12 and 13; Swift must be there.
#
#   scripts/package.sh [RELEASE [DIRECTORY]]
#
# RELEASE is bookworm (Debian 12) or trixie (13). Packages for another one than this machine has are built in a root file
# system of it, made on first use, with this machine's Swift; that needs root. By default they are for this machine.
# DIRECTORY is .build/packages, for another release .build/packages-RELEASE; packages that are there are replaced.
# The command is $PROTECTFS, or is built.
set -euo pipefail
source "$(dirname "$0")/packages.sh"
(($# <= 2)) && [[ ${1-} != -* ]] || show_head
here=$(machine_release)
release=${1:-$here}
output=$(realpath -m "${2:-$(dirname "$0")/../.build/packages$([[ $release == "$here" ]] || echo "-$release")}")
cd "$(dirname "$0")/.."
build=(swift build -c release --static-swift-stdlib)

if [[ $release != "$here" ]]; then
  case $release in bookworm | trixie) ;; *) show_head ;; esac
  # What the packages of the project depend on is fetched here.
  build+=(--scratch-path ".build/$release" --disable-automatic-resolution)
  swift package --scratch-path ".build/$release" resolve
  in_release "$release" "${build[@]}" --product protectfs
  built=$PWD/.build/$release/built
  in_release "$release" env PROTECTFS="$("${build[@]}" --show-bin-path)/protectfs" scripts/package.sh "$release" "$built"
  mkdir -p "$output"
  rm -f "$output"/*.deb
  mv "$built"/*.deb "$output"
  exit
fi

prepare_build "${package_tools[@]}"
if [[ -z ${PROTECTFS-} ]]; then
  "${build[@]}" --product protectfs
  PROTECTFS=$("${build[@]}" --show-bin-path)/protectfs
fi
PROTECTFS=$(realpath "$PROTECTFS")
export PROTECTFS
# The tables of addresses that it calls are read-only once it has started.
readelf --wide --segments "$PROTECTFS" | grep GNU_RELRO
readelf --wide --dynamic "$PROTECTFS" | grep BIND_NOW

# In a copy: the tools write into the source tree, and beside it.
work=$(mktemp -d /tmp/protectfs-package.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/protectfs"
tar --create --exclude='./.build*' --exclude=./.git . | tar --extract --directory="$work/protectfs"
# Those for a later release are newer, so that they come with its upgrade.
number=$(source /etc/os-release && echo "${VERSION_ID:-0}")
sed -i "1s/(\(.*\)) [a-z]*;/(\1+deb$number) $release;/" "$work/protectfs/debian/changelog"
(cd "$work/protectfs" && dpkg-buildpackage --build=binary --no-sign)
lintian --fail-on error,warning --display-level '>=warning' "$work"/*.changes

mkdir -p "$output"
rm -f "$output"/*.deb
mv "$work"/*.deb "$output"
ls -l "$output"
