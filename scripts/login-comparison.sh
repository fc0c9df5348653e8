#!/bin/bash
# Shows what logins, screen locks, sleep and logouts do to a file that a program keeps open and mapped, with gocryptfs
# and pam_mount, fscrypt, systemd-homed (its fscrypt storage) and protectfs: the source of the table in README. Each
# is run in Debian 12, booted in a container of its own (scripts/container.sh). Needs root, and a kernel with
# encryption for ext4.
#
#   scripts/login-comparison.sh PROTECTFS [gocryptfs|fscrypt|homed|protectfs]...
set -euo pipefail
source "$(dirname "$0")/packages.sh"
(($# >= 1)) && [[ $1 != -* ]] || show_head
protectfs=$(realpath "$1")
shift
(($#)) || set -- gocryptfs fscrypt homed protectfs
cd "$(dirname "$0")/.."

root=.build/comparison
packages=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,login,passwd,mount,procps,fuse3,expect
packages+=,$runtime_packages
packages+=,gocryptfs,libpam-mount,fscrypt,libpam-fscrypt,systemd-homed,libnss-systemd,e2fsprogs
make_root $root "$packages"

work=$(mktemp -d /tmp/protectfs-comparison.XXXXXX)
trap 'rm -rf "$work"' EXIT
cp -r scripts/comparison "$work"
"${CC:-cc}" -O1 -static -o "$work/comparison/holder" scripts/comparison/holder.c
for name in "$@"; do
  scripts/container.sh --root $root --copy "$work/comparison" "$protectfs" bash comparison/run.sh "$name"
done
