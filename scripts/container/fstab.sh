#!/bin/bash
# Lines of fstab(5): automounts, and the options that are for mount(8) and systemd.
source "$(dirname "$0")/checks.sh"

# Makes a store, and a line for it in fstab.
add_line() {
  make_store "$1"
  echo "/srv/$1.store /srv/$1 fuse.protectfs $2 0 0" >>/etc/fstab
  systemctl daemon-reload
}
has_options() {
  local option
  for option in ${2//,/ }; do
    findmnt --noheadings --output=OPTIONS --mountpoint "$1" | tee /dev/stderr | tr , '\n' | grep -qx "$option" || return
  done
}
holds_no_terminal() { prints "$1 ?" sh -c 'ps -o sid=,tty= -p "$0" | xargs' "$1"; }

echo "x-systemd.automount:"
add_line auto noauto,x-systemd.automount,x-systemd.idle-timeout=1
check "  the automount starts" systemctl start srv-auto.automount
check "  the first use mounts, at once" timeout 10 stat /srv/auto/.
check "  what was asked for" prints fuse.protectfs findmnt -n -o FSTYPE -t fuse.protectfs --mountpoint /srv/auto
check "  the mount unit is active" systemctl is-active srv-auto.mount
daemon=$(daemon_of /srv/auto)
check "  the daemon leads a session without a terminal" holds_no_terminal "$daemon"
check "  when nobody uses it, it is unmounted" await sh -c '! findmnt -t fuse.protectfs --mountpoint /srv/auto'
check "  and the daemon ends" await sh -c "! kill -0 $daemon 2>/dev/null"
check "  the next use mounts again" timeout 10 stat /srv/auto/.
kill -KILL "$(daemon_of /srv/auto)"
check "  so does one after the daemon was killed" await timeout 10 stat /srv/auto/.
systemctl stop srv-auto.automount srv-auto.mount

echo "x-systemd.automount, of a store that is missing:"
add_line gone noauto,nofail,x-systemd.automount
rm -r /srv/gone.store
systemctl start srv-gone.automount
check "  the first use fails, at once" sh -c '! timeout 10 stat /srv/gone/. && [ $? != 124 ]'
check "  the journal says why" sh -c 'journalctl --sync; journalctl -b -u srv-gone.mount | grep "gone.store does not exist"'
systemctl stop srv-gone.automount

echo "mount -a:"
add_line now defaults,nofail,_netdev,x-test.one=1,X-test.two,comment=text,noatime
add_line later noauto,nofail
check "  succeeds" mount -a -t fuse.protectfs
check "  mounts what is not noauto" is_mounted /srv/now
check "  and nothing else" is_not_mounted /srv/later
check "  noauto is mounted when asked for" mount /srv/later
rm -r /srv/gone.store 2>/dev/null
check "  a store that is missing is an error of mount(8)" sh -c '! mount /srv/gone'
systemctl start srv-now.mount
check "  nofail: the boot does not depend on it" sh -c '! systemctl show --value -p Requires remote-fs.target | grep srv-now'
check "  _netdev: it comes after the network" sh -c 'systemctl show --value -p After srv-now.mount | grep network.target'
check "  umount(8) takes it away" umount /srv/now /srv/later
check "  and systemd knows" await prints inactive systemctl show --value -p ActiveState srv-now.mount

as_someone() {
  setpriv --reuid=someone --regid=someone --init-groups \
    env HOME=/home/someone XDG_RUNTIME_DIR="/run/user/$(id -u someone)" "$@"
}
useradd --create-home --user-group someone
loginctl enable-linger someone
check "A user has a session" await test -d "/run/user/$(id -u someone)"
for option in user users; do
  echo "$option:"
  add_line "$option" "$option,noauto"
  chown -R someone: "/srv/$option" "/srv/$option.store"
  mkdir -p ~someone/.config/protectfs
  cp /etc/protectfs/device.key ~someone/.config/protectfs/
  install -o someone -m 600 <(echo secret) ~someone/passcode
  chown -R someone: ~someone/.config
  check "  a user mounts" as_someone mount "/srv/$option"
  check "  without programs, devices and set-ID bits" has_options "/srv/$option" noexec,nodev,nosuid
  check "  and unlocks" as_someone protectfs unlock --passcode-file /home/someone/passcode "/srv/$option"
  check "  and unmounts" as_someone umount "/srv/$option"
  check "  nothing is mounted" is_not_mounted "/srv/$option"
done

echo "Root's flags:"
add_line flags noauto,exec,suid,dev,relatime,nouser,silent,iversion,X-test.one,x-test.two,comment=x
check "  are taken" mount /srv/flags
umount /srv/flags
check "  protectfs takes all of mount(8)'s" protectfs mount -o suid,dev,exec,async /srv/flags.store /srv/flags
check "  and suid, dev and exec hold" sh -c '! findmnt -n -o OPTIONS --mountpoint /srv/flags | grep -E "noexec|nosuid|nodev"'
umount /srv/flags

end_checks
