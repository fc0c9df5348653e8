#!/bin/bash
# Boots Debian 12, or another release, with systemd in a container, with protectfs installed as scripts/install.sh does it, and runs a command
# there. What the container changes is gone afterwards. Needs root, and a cgroup hierarchy that may be written.
#
#   scripts/container.sh [--release RELEASE] [--root DIR] [--copy PATH]... PROTECTFS COMMAND [ARGUMENT...]
#
# PROTECTFS is the command that was built; libraries of it that the container lacks, such as Swift's, are copied there. With
# 'none', nothing is installed.
# --copy puts a file or a directory into /root, where COMMAND is run. --root uses another root file system than
# .build/container-RELEASE, which mmdebstrap makes on first use; so does PROTECTFS_CONTAINER. It is never changed.
# Ends with the status of COMMAND; with 77 if no container can be run here, and 70 if this one did not boot.
set -euo pipefail
source "$(dirname "$0")/packages.sh"

root=${PROTECTFS_CONTAINER:-} release=bookworm copies=()
while [[ ${1-} == --* ]]; do
  case $1 in
  --root) root=$2 ;;
  --release) release=$2 ;;
  --copy) copies+=("$(realpath "$2")") ;;
  *) show_head ;;
  esac
  shift 2
done
(($# >= 2)) || show_head
protectfs=$1
[[ $protectfs == none ]] || protectfs=$(realpath "$protectfs")
shift
[[ -z $root ]] || root=$(realpath "$root")
cd "$(dirname "$0")/.."

# What the units, the helper of mount(8) and their tests use.
packages=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,login,passwd,mount,procps,fuse3
packages+=,expect,pamtester,openssh-server,cron,tmux,sudo,attr,polkitd
packages+=,$runtime_packages

skip() {
  echo "Skipped: the container. $*" >&2
  exit 77
}

((EUID == 0)) || skip "Only root can boot one."
for device in /dev/fuse /dev/autofs; do
  [[ -c $device ]] || skip "There is no $device."
done
install_packages systemd-container util-linux procps || skip "There is no systemd-nspawn."
unshare --mount true 2>/dev/null || skip "Mount namespaces are not permitted."
# systemd wants the unified hierarchy; where the machine has the older ones, both that and systemd's own.
hierarchies=()
for directory in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
  if [[ -w $directory/cgroup.procs ]]; then hierarchies+=("$directory"); fi
done
((${#hierarchies[@]})) || skip "No cgroup hierarchy can be written."
if [[ -z $root ]]; then
  root=$PWD/.build/container-$release
  make_root "$root" "$packages" "$release" || skip "Its root file system could not be made."
fi

work=$(mktemp -d /tmp/protectfs-container.XXXXXX) name=${work##*/} machine=
name=${name//./-}

clean_up() {
  local hierarchy
  for hierarchy in "${hierarchies[@]}"; do
    # All processes of the container; nothing in there is worth an orderly end.
    if [[ -e $hierarchy/$name/cgroup.kill ]]; then echo 1 >"$hierarchy/$name/cgroup.kill"; fi
  done
  [[ -z $machine ]] || wait "$machine" 2>/dev/null || true
  for hierarchy in "${hierarchies[@]}"; do
    # The kernel may still be at the last of them.
    for _ in {1..100}; do
      [[ -d $hierarchy/$name ]] || break
      find "$hierarchy/$name" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
    done
    [[ ! -d $hierarchy/$name ]] || echo "container: $hierarchy/$name could not be removed" >&2
  done
  umount --recursive "$work" 2>/dev/null || umount --recursive --lazy "$work" || true
  rmdir "$work" || true
}
trap clean_up EXIT

mount -t tmpfs -o size=6g,mode=700 "$name" "$work"
mount --make-private "$work"
mkdir "$work"/{changes,overlay,root}
mount -t overlay -o "lowerdir=$root,upperdir=$work/changes,workdir=$work/overlay" "$name" "$work/root"

if [[ $protectfs != none ]]; then
  install_into "$work/root" "$protectfs" "$release"
fi
for copy in ${copies[@]+"${copies[@]}"}; do cp -a "$copy" "$work/root/root/"; done

(
  # In a cgroup of its own, as nspawn makes others beside it.
  for hierarchy in "${hierarchies[@]}"; do
    mkdir "$hierarchy/$name"
    echo "$BASHPID" >"$hierarchy/$name/cgroup.procs"
  done
  # There is no machined to be registered with. Memory is locked for keys, which nspawn's filter of calls refuses.
  SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 exec systemd-nspawn --quiet --directory="$work/root" --machine="$name" --boot \
    --register=no --keep-unit --console=pipe --private-network --link-journal=no --capability=all \
    --system-call-filter='@memlock @keyring bpf' --bind=/dev/fuse --bind=/dev/autofs
) </dev/null >"$work/console" 2>&1 &
machine=$!

# Runs a command in all namespaces of the container, in /root, with an environment of its own. It is in a cgroup of the
# container, too: for others, logind there does nothing (since systemd 256).
inside() (
  for hierarchy in "${hierarchies[@]}"; do
    echo "$BASHPID" >"$hierarchy$(sed -n 's/^0:://p' "/proc/$init/cgroup")/cgroup.procs" || true
  done 2>/dev/null
  exec nsenter --target "$init" --all env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin HOME=/root \
    LANG=C.UTF-8 TERM="${TERM:-dumb}" sh -c 'cd && exec "$@"' sh "$@"
)
has_booted() {
  init=$(pgrep -P "$machine" -x systemd) || return
  case $(inside systemctl is-system-running 2>/dev/null) in
  running | degraded) ;;
  *) return 1 ;;
  esac
}
for _ in {1..300}; do
  if has_booted; then
    inside "$@"
    exit
  fi
  kill -0 "$machine" 2>/dev/null || break
  sleep 0.1
done
echo "container: it did not boot" >&2
tail -n 20 "$work/console" >&2
exit 70
