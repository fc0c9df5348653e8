#!/bin/bash
# The Debian packages: what they bring, an upgrade and a removal while stores are mounted, a purge. With a directory, the
# packages in it are installed first, and later packages of a higher version; without, they are installed (debian/tests).
packages=
if (($#)); then packages=$(realpath "$1"); fi
source "$(dirname "$0")/checks.sh"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

# The output of apt-get is kept for said.
apt() { apt-get --assume-yes --no-install-recommends "$@" 2>&1 | tee said && ((PIPESTATUS[0] == 0)); }
said() { grep -F -- "$1" said || { cat said && return 1; }; }
names_no_settings_of_users() { ! grep -F "named in /home" said; }
uses_module() { grep -F pam_protectfs.so /etc/pam.d/common-auth /etc/pam.d/common-session /etc/pam.d/common-password; }
uses_no_module() { ! uses_module; }
enabled() { prints "$1" systemctl --global is-enabled protectfs-session; }
as_ana() { setpriv --reuid ana --regid ana --init-groups env -i HOME=/home/ana PATH="$PATH" LC_ALL=C.UTF-8 "$@"; }
state_of_ana() { as_ana getfattr --only-values --absolute-names -n user.protectfs.state /home/ana/Protected; }

# The packages again, with a higher version and nothing else in them that is new.
make_upgrade() {
  local package pattern=${version//[.+]/\\&}
  mkdir upgrade
  for package in "$packages"/*.deb; do
    dpkg-deb --raw-extract "$package" unpacked
    sed -i -E "s/(^Version: |[(]= )$pattern/\\1$version+1/" unpacked/DEBIAN/control
    dpkg-deb --root-owner-group --build unpacked "upgrade/$(basename "$package")" >/dev/null
    rm -r unpacked
  done
}

# Programs that units name and that are not there.
missing_programs() {
  dpkg --listfiles protectfs libpam-protectfs | grep '\.service$' | xargs sed -nE 's/^Exec[A-Za-z]*=[-+!@:]*([^ ]+).*/\1/p' |
    sort -u | while read -r program; do [[ -x $program ]] || echo "$program"; done
}

# Logs ana in until the file 'leave' is there, at a prompt. As a service: a login out of a session is no session of its own.
log_in() {
  rm -f leave session
  systemd-run --quiet --collect --pipe --wait --same-dir --setenv=PROGRAM="login ana" expect -c "$start_program"'
    set timeout 60
    start
    send "ana\r"
    expect -re {\$ $}
    while {![file exists leave]} { after 100 }
    send "exit\r"
    expect eof' >session 2>&1 &
  await grep -qs '\$ $' session
}
log_out() {
  touch leave
  wait
}

if [[ -n $packages ]]; then
  echo "Installation:"
  useradd -m tom
  loginctl enable-linger tom
  await systemctl --quiet --user --machine tom@ is-system-running
  echo 'PRUNEFS="nfs fuse.gocryptfs"' >/etc/updatedb.conf
  check "  protectfs and libpam-protectfs install" apt install "$packages"/protectfs_*.deb "$packages"/libpam-protectfs_*.deb
  check "  says how updatedb(8) leaves out names" said "sed -i 's/^PRUNEFS="
  check "  users who are logged in have the agent at once" systemctl --user --machine tom@ is-active protectfs-session
fi
version=$(dpkg-query -W -f '${Version}' protectfs)
check "  no file differs from its package" prints "" dpkg --verify protectfs libpam-protectfs
check "  all programs of the units are there" prints "" missing_programs
check "  the command is of that version" prints "protectfs ${version%+deb*}" protectfs --version
check "  no unit is started" prints "" systemctl list-units --all --plain --no-legend 'protectfs*.service'
check "  the agent is on for users" enabled enabled
check "  the lock before sleep is on" prints enabled systemctl is-enabled protectfs-sleep
check "  completion of bash" bash -c 'source /usr/share/bash-completion/completions/protectfs && complete -p protectfs'
check "  of zsh" grep '^#compdef protectfs' /usr/share/zsh/vendor-completions/_protectfs
check "  of fish" test -s /usr/share/fish/vendor_completions.d/protectfs.fish
check "  needrestart(1) leaves daemons alone" perl -e 'our %nrconf; do $ARGV[0] // die $@; my ($left) = keys %{$nrconf{override_rc}};
  for my $unit (qw(protectfs@srv protectfs-user@1000 protectfs-logout@1000)) { $unit =~ $left or die $unit }' \
  /etc/needrestart/conf.d/protectfs.conf
check "  control sockets in /tmp are not cleaned away" grep -x 'x /tmp/protectfs-\[0-9\]\*' <(systemd-tmpfiles --cat-config)
check "  manual pages" zgrep -h '^.Dt' /usr/share/man/man1/protectfs.1.gz /usr/share/man/man8/{mount.fuse.,pam_}protectfs.8.gz

echo "The question about io_uring:"
answer() {
  echo "protectfs protectfs/io-uring boolean $1" | debconf-set-selections && dpkg-reconfigure --frontend noninteractive protectfs
}
settings=/etc/modprobe.d/protectfs-io-uring.conf
check "  it is off" test ! -e "$settings"
check "  yes" answer true
check "  turns it on at each start" grep -x 'options fuse enable_uring=1' "$settings"
check "  no" answer false
check "  turns it off again" test ! -e "$settings"

echo "A service, and mount(8):"
make_store plain
printf 'BACKING=/srv/plain.store\nMOUNTPOINT=/srv/plain\n' >/etc/protectfs/plain.conf
check "  the service starts" systemctl enable --now protectfs@plain
check "  and has mounted" is_mounted /srv/plain
protectfs unlock --passcode-file <(echo secret) /srv/plain
echo text >/srv/plain/file
make_store manual
check "  mount(8) finds its helper" mount -t fuse.protectfs /srv/manual.store /srv/manual
umount /srv/manual

echo "A login:"
rm -f /etc/securetty /run/nologin
useradd -m -s /bin/bash ana
echo ana:ana | chpasswd
echo 'PS1="$ "' | tee /home/ana/.bashrc >/home/ana/.bash_profile
install --owner ana --mode 600 /dev/stdin /home/ana/passcode <<<ana
as_ana protectfs login enable --passcode-file /home/ana/passcode --recovery-key-file /home/ana/recovery >said 2>&1
check "  'login enable' finds all that is needed" as_ana protectfs login status
check "  a login" log_in
check "  it unlocks" prints unlocked state_of_ana
as_ana tee /home/ana/Protected/file <<<text >/dev/null

if [[ -n $packages ]]; then
  echo "An upgrade while stores are mounted:"
  service=$(daemon_of /srv/plain) user=$(systemctl show --value -p MainPID "protectfs-user@$(id -u ana)")
  systemctl --global disable protectfs-session 2>/dev/null
  make_upgrade
  check "  installs" apt install ./upgrade/protectfs_*.deb ./upgrade/libpam-protectfs_*.deb
  check "  names the mount of the service" said "  /srv/plain"
  check "  and that of the login" said "  /home/ana/Protected"
  for daemon in "$service" "$user"; do
    check "  a daemon goes on with the former version" prints "/usr/bin/protectfs (deleted)" readlink "/proc/$daemon/exe"
  done
  check "  unlocked" prints unlocked state_of_ana
  check "  a file is read" prints text as_ana cat /home/ana/Protected/file
  check "  and written" as_ana tee /home/ana/Protected/file <<<text
  check "  the command locks it" as_ana protectfs lock --now /home/ana/Protected
  check "  and it is" prints locked state_of_ana
  check "  and unlocks it" as_ana protectfs unlock --passcode-file /home/ana/passcode /home/ana/Protected
  check "  the module is used still" uses_module
  check "  an agent that was turned off stays so" enabled disabled
  systemctl restart protectfs@plain
  check "  a service that is started again has the new version" \
    prints /usr/bin/protectfs readlink "/proc/$(daemon_of /srv/plain)/exe"
  protectfs unlock --passcode-file <(echo secret) /srv/plain
  log_out
  check "  the last logout unmounts" await is_not_mounted /home/ana/Protected
  check "  the next login" log_in
  check "  the next login has the new version" \
    prints /usr/bin/protectfs readlink "/proc/$(systemctl show --value -p MainPID "protectfs-user@$(id -u ana)")/exe"
  check "  and unlocks" prints unlocked state_of_ana
fi

echo "A removal while stores are mounted:"
check "  succeeds" apt remove protectfs libpam-protectfs
check "  says that stores stay" said "stores stay where they are"
check "  names that of the service" said "  /srv/plain.store, mounted at /srv/plain"
check "  its settings" said "  /srv/plain.store, named in /etc/protectfs/plain.conf"
check "  that of the login" said "  /home/ana/.local/share/protectfs/store, mounted at /home/ana/Protected"
check "  but reads nothing of the user's" names_no_settings_of_users
check "  mounts stay" prints text cat /srv/plain/file
check "  also of users" prints text as_ana cat /home/ana/Protected/file
check "  the module is not used any more" uses_no_module
log_out
check "  the last logout unmounts all the same" await is_not_mounted /home/ana/Protected
check "  logins go on" log_in
log_out
check "  umount(8) unmounts" umount /srv/plain

echo "A purge:"
check "  succeeds" apt purge protectfs libpam-protectfs
check "  names stores" said "  /srv/plain.store, named in /etc/protectfs/plain.conf"
check "  leaves device keys" test -s /etc/protectfs/device.key
check "  and stores" test -s /srv/plain.store/.protectfs/keybag
check "  leaves nothing else" prints "" find /usr /etc/systemd /var/lib/systemd -name '*protectfs*' ! -name protectfs@plain.service

if [[ -n $packages ]]; then
  echo "Installed again:"
  check "  it installs" apt install "$packages"/protectfs_*.deb "$packages"/libpam-protectfs_*.deb
  check "  the service mounts the store" systemctl restart protectfs@plain
  check "  which opens" protectfs unlock --passcode-file <(echo secret) /srv/plain
  check "  and has its file" prints text cat /srv/plain/file
fi

end_checks
