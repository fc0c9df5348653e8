#!/bin/bash
# Logins with the PAM module, in a container that boots systemd: passcodes right, wrong and changed, lockers, ssh, su, sudo,
# planted sockets, the last logout.
#
# usage: login-test.sh PROTECTFS ROOTFS [TEST...]      as root
#
# ROOTFS is a Debian that stays as it is:
#   mmdebstrap --variant=minbase --include=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,login,passwd,fuse3,\
# libssl3,libtss2-esys-3.0.2-0,libtss2-tctildr0,libtss2-rc0,expect,pamtester,openssh-server,cron,tmux,sudo,attr bookworm ROOTFS
# What the program needs beyond that, such as a debug build's libraries, is copied in. The tests are in login-test/inside.sh.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/packages.sh"
(($# >= 2 && EUID == 0)) || show_head
binary=$(realpath "$1") rootfs=$(realpath "$2")
shift 2

name=protectfs-login-$$ work=$(mktemp -d) supervisor='' init=''
clean_up() {
  set +e
  [[ -n $init ]] && nsenter -t "$init" -a systemctl poweroff --no-wall 2>/dev/null
  for _ in $(seq 100); do kill -0 "$supervisor" 2>/dev/null || break; sleep 0.1; done
  kill -KILL "$supervisor" 2>/dev/null
  wait "$supervisor" 2>/dev/null
  umount "$work/root" && umount "$work" && rmdir "$work"
  for hierarchy in systemd unified; do
    [[ -d /sys/fs/cgroup/$hierarchy/$name ]] && find "/sys/fs/cgroup/$hierarchy/$name" -depth -type d -exec rmdir {} +
  done
}
trap clean_up EXIT
mount -t tmpfs -o size=2g "$name" "$work"
mkdir "$work"/{upper,overlay,root}
mount -t overlay "$name" -o "lowerdir=$rootfs,upperdir=$work/upper,workdir=$work/overlay" "$work/root"

root=$work/root
install -D -m 755 "$binary" "$root/usr/local/bin/protectfs"
modules=$root/usr/lib/$(cc -print-multiarch)/security
"$here/pam-module.sh" "$modules/pam_protectfs.so"
install -D -m 644 -t "$root/usr/local/lib/systemd/system" "$here"/../packaging/systemd/protectfs-{user,logout}@.service
install -D -m 644 "$here/../packaging/pam/protectfs" "$root/usr/share/pam-configs/protectfs"
install -m 755 "$here/login-test/inside.sh" "$root/root/inside.sh"
while read -r library; do
  [[ -e $root$library ]] || install -D -m 755 "$library" "$root$library"
done < <(ldd "$binary" | awk '$3 ~ /^\// { print $3 }')

(
  # A cgroup of its own, joined first: else nspawn leaves cgroups behind, and runs side by side collide.
  for hierarchy in systemd unified; do
    [[ -d /sys/fs/cgroup/$hierarchy ]] || continue
    mkdir "/sys/fs/cgroup/$hierarchy/$name"
    echo $BASHPID >"/sys/fs/cgroup/$hierarchy/$name/cgroup.procs"
  done
  # Locked memory has to pass nspawn's filter.
  SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 exec systemd-nspawn -q -D "$root" --register=no --keep-unit --machine="$name" \
    --boot --console=pipe --private-network --link-journal=no --capability=all \
    --system-call-filter='@memlock @keyring bpf' --bind=/dev/fuse </dev/null >"$work/console" 2>&1
) &
supervisor=$!
for _ in $(seq 300); do
  init=$(pgrep -P "$supervisor" -x systemd | head -1) || true
  [[ -n $init ]] && case $(nsenter -t "$init" -a systemctl is-system-running 2>/dev/null) in running | degraded) break ;; esac
  sleep 0.1
done
[[ -n $init ]] || { cat "$work/console" >&2; echo "the container did not boot" >&2; exit 1; }
nsenter -t "$init" -a env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LC_ALL=C.UTF-8 /root/inside.sh "$@"
