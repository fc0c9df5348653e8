#!/bin/bash
# Runs mount tests on an older kernel, one of Debian's packages, in a virtual machine that has this machine's files. What
# the tests write there is gone when it ends. Takes minutes: without ACCEL=kvm the processors are emulated.
#
#   scripts/older-kernel.sh [--kernel 6.1|6.12] [FILTER]    FILTER: as for swift test; by default what kernels differ in
#
# TESTS=.../protectfsPackageTests.xctest takes tests that were built before, beside the protectfs that they run.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

kernel=6.1
if [[ ${1-} == --kernel ]]; then
  kernel=$2
  shift 2
fi
filter=${1:-'MountTests\.MountTests/(LateWrite|LockUnderFire|Content|Memory|KilledDaemon|SetIDBit|DirectTransfer|ModificationTime)Tests/'}

prepare_build qemu-system-x86 busybox-static cpio kmod python3
tests=${TESTS-}
if [[ ! $tests ]]; then
  swift build --build-tests --quiet
  tests="$(swift build --show-bin-path)/protectfsPackageTests.xctest"
fi

work=$(mktemp -d /var/tmp/protectfs-kernel.XXXXXX)
trap 'rm -rf "$work"' EXIT
package=$(apt-cache search --names-only "^linux-image-${kernel//./\\.}\..*-amd64\$" | cut -d' ' -f1 |
  grep -v 'cloud\|rt\|dbg\|unsigned' | sort -V | tail -n 1)
[[ $package ]] || { echo "There is no package of Linux $kernel." >&2; exit 1; }
(cd "$work" && apt-get download --quiet "$package" && dpkg --extract ./*.deb kernel)
version=${package#linux-image-}

# The first files: what mounts the others.
mkdir -p "$work"/first/{bin,lib,proc,sys,dev,lower,rw,new}
cp /bin/busybox "$work/first/bin/"
number=10
depmod -b "$work/kernel" "$version"
for module in virtio_pci 9pnet_virtio 9p overlay fuse loop ext4 virtio_blk; do
  modprobe -d "$work/kernel" -S "$version" --show-depends "$module"
done | awk '/^insmod/ && !seen[$2]++ { print $2 }' | while read -r file; do
  name=$number-$(basename "${file%.xz}")
  number=$((number + 1))
  if [[ $file == *.xz ]]; then xz -dc "$file" >"$work/first/lib/$name"; else cp "$file" "$work/first/lib/$name"; fi
done
cat >"$work/first/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t devtmpfs dev /dev
for module in /lib/*.ko; do insmod "$module"; done
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose host /lower || poweroff -f
mount -t tmpfs -o size=90% rw /rw && mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work overlay /new || poweroff -f
mount -t proc proc /new/proc && mount -t sysfs sysfs /new/sys && mount --move /dev /new/dev
mkdir -p /new/dev/pts /new/dev/shm && mount -t devpts devpts /new/dev/pts && mount -t tmpfs tmpfs /new/dev/shm
mount -t tmpfs tmpfs /new/run && mount -t tmpfs tmpfs /new/tmp
exec switch_root /new /bin/bash -c '
  export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin
  exec </dev/null >/dev/ttyS1 2>&1
  stty -F /dev/ttyS1 raw
  chmod 666 /dev/fuse; mkfs.ext4 -q /dev/vda && mount /dev/vda /tmp && chmod 1777 /tmp && ip link set lo up
  bash "$(sed "s/.*run=\([^ ]*\).*/\1/" /proc/cmdline)"
  echo "exit $?"
  sync
  echo o >/proc/sysrq-trigger
  { sleep 60; } 2>/dev/null'
INIT
chmod +x "$work/first/init"
(cd "$work/first" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/first.img"
truncate -s 4G "$work/disk"
printf 'cd %q\nuname -r\nexport HOME=/root PATH=%q\n%q --testing-library swift-testing --filter %q\n' \
  "$PWD" "$PATH" "$tests" "$filter" >"$work/run"

timeout 3600 qemu-system-x86_64 -accel "${ACCEL:-tcg,thread=multi}" -cpu max -smp 2 -m 3072 -display none -monitor none \
  -nodefaults -no-reboot -kernel "$work/kernel/boot/vmlinuz-$version" -initrd "$work/first.img" \
  -append "console=ttyS0 panic=-1 quiet mitigations=off run=$work/run" \
  -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
  -drive "file=$work/disk,format=raw,if=virtio,cache=unsafe" \
  -serial "file:$work/console" -serial stdio </dev/null | stdbuf -oL tr -d '\r' | tee "$work/out"
grep -qx 'exit 0' "$work/out" || { tail -n 20 "$work/console" >&2; exit 1; }
