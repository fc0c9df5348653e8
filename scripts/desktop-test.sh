#!/bin/bash
# Tests the extension for Nautilus 43 and later on a real mount: in a process of its own, and then in Nautilus, on a
# display of its own. Not part of scripts/test.sh, since it installs Nautilus, some 300 MB.
#
#   scripts/desktop-test.sh [--protectfs PROTECTFS] [--picture FILE]
#
# --picture saves what Nautilus shows as a PNG file. Ends with 77 if Nautilus cannot be run here.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

protectfs= picture=
while (($# > 0)); do
  case $1 in
  --protectfs) protectfs=$(realpath "$2") ;;
  --picture) picture=$(realpath "$2") ;;
  *) show_head ;;
  esac
  shift 2
done

skip() {
  echo "Skipped: the desktop. $*" >&2
  exit 77
}
[[ -r /dev/fuse && -w /dev/fuse ]] || skip "/dev/fuse is missing or may not be used."
install_packages nautilus python3-nautilus python3-gi gir1.2-gtk-4.0 xvfb xdotool openbox xcompmgr x11-xserver-utils \
  dbus imagemagick librsvg2-common adwaita-icon-theme fonts-cantarell procps pyflakes3 ||
  skip "Nautilus could not be installed."

if [[ -z $protectfs ]]; then
  prepare_build
  swift build --product protectfs 2>&1 | tail -n 1
  protectfs=$(swift build --show-bin-path)/protectfs
fi

pyflakes3 packaging/nautilus/*.py scripts/desktop/*.py

work=$(mktemp -d /tmp/protectfs-desktop.XXXXXX)
clean_up() {
  protectfs unmount "$work/home/Protected" >/dev/null 2>&1 || umount --lazy "$work/home/Protected" 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT
extensions=$work/home/.local/share/nautilus-python/extensions
emblems=$work/home/.local/share/icons/hicolor/scalable/emblems
mkdir -p "$work"/{bin,run} "$work"/home/{Protected,Elsewhere} "$extensions" "$emblems"
chmod 700 "$work/run"
ln -s "$protectfs" "$work/bin/protectfs"
cp packaging/nautilus/protectfs-nautilus.py scripts/desktop/probe.py "$extensions"
cp packaging/nautilus/*.svg "$emblems"
export PATH=$work/bin:$PATH HOME=$work/home XDG_RUNTIME_DIR=$work/run LC_ALL=C.UTF-8
unset XDG_DATA_HOME XDG_CONFIG_HOME XDG_CACHE_HOME DBUS_SESSION_BUS_ADDRESS WAYLAND_DISPLAY

(umask 077 && echo secret >"$work/passcode")
protectfs init --passcode-file "$work/passcode" "$work/store" >/dev/null
protectfs mount --unlock --passcode-file "$work/passcode" "$work/store" "$HOME/Protected"

/usr/bin/python3 -B scripts/desktop/extension.py "$work"
rm -r "$HOME"/Protected/*
/usr/bin/python3 -B scripts/desktop/nautilus.py "$work" ${picture:+"$picture"}
