#!/bin/bash
# Suspends Debian 12 to memory in a virtual machine, again and again, while programs of a login session and of a system service
# write and read on protected mounts, and checks that each attempt succeeds, with the keys gone, and that nothing is lost.
#
#   scripts/suspend-test.sh [--rounds N] [--without-unit] [PROTECTFS]
#
# PROTECTFS is the command, .build/release/protectfs if not given. N is 10 if not given. --without-unit leaves
# protectfs-sleep.service off, to see what it is for. Needs root; without /dev/kvm it takes many times as long. The root file
# system is made by mmdebstrap on first use, in .build/suspend. Ends with 77 if no virtual machine can be run here.
set -euo pipefail
source "$(dirname "$0")/packages.sh"

rounds=10 unit=yes
while [[ ${1-} == --* ]]; do
  case $1 in
  --rounds) rounds=$2 && shift ;;
  --without-unit) unit=no ;;
  *) show_head ;;
  esac
  shift
done
cd "$(dirname "$0")/.."
protectfs=$(realpath "${1:-.build/release/protectfs}")

packages=systemd,systemd-sysv,dbus,libpam-systemd,login,passwd,mount,procps,fuse3,attr,kmod
packages+=,linux-image-cloud-amd64,$runtime_packages

if ((EUID != 0)); then
  echo "Skipped: the virtual machine. Only root can make its file system." >&2
  exit 77
fi
install_packages qemu-system-x86 seabios e2fsprogs || exit 77
work=$(mktemp -d /var/tmp/protectfs-suspend.XXXXXX) machine=
clean_up() {
  [[ -z $machine ]] || kill "$machine" 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT

root=.build/suspend
make_root $root "$packages"

cp -a $root "$work/root"
install_into "$work/root" "$protectfs"
cp scripts/suspend/guest.sh scripts/container/checks.sh "$work/root/root/"
cat >"$work/root/etc/systemd/system/suspend-test.service" <<END
[Unit]
After=multi-user.target systemd-logind.service
[Service]
ExecStart=/root/guest.sh $rounds $unit
ExecStopPost=/bin/systemctl poweroff --no-block
StandardOutput=file:/dev/ttyS1
StandardError=inherit
END
mkdir -p "$work/root/etc/systemd/system/default.target.wants"
ln -s ../suspend-test.service "$work/root/etc/systemd/system/default.target.wants/"
mke2fs -q -t ext4 -d "$work/root" "$work/disk" 3G

accelerator=tcg
if [[ -w /dev/kvm ]] && grep -qwE 'vmx|svm' /proc/cpuinfo; then accelerator=kvm; fi
kernel=$(echo "$work"/root/boot/vmlinuz-*) initial=$(echo "$work"/root/boot/initrd.img-*)
# A machine that is not suspended does not mind being woken up.
while sleep 5; do echo system_wakeup; done |
  qemu-system-x86_64 -machine q35,accel=$accelerator -cpu max -smp 2 -m 2048 -display none -no-reboot \
    -drive "file=$work/disk,if=virtio,format=raw,cache=unsafe" -kernel "$kernel" -initrd "$initial" \
    -append "root=/dev/vda rw console=ttyS0 quiet no_console_suspend mem_sleep_default=deep" \
    -global ICH9-LPC.disable_s3=0 -serial "file:$work/console" -serial "file:$work/said" -monitor stdio >/dev/null &
machine=$!

# A suspend that fails takes 20 seconds of the machine's time.
end=$((SECONDS + 600 + rounds * 120))
has_passed() { grep -q '^passed' "$work/said" 2>/dev/null; }
while kill -0 $machine 2>/dev/null && ! has_passed && ((SECONDS < end)); do sleep 1; done
tr -d '\r' <"$work/said"
if has_passed; then exit 0; fi
echo "suspend-test: it did not pass; the end of the console:" >&2
tail -n 30 "$work/console" >&2
exit 1
