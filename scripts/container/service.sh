#!/bin/bash
# The service protectfs@NAME: when it counts as started, how it fails, and when it is started again.
source "$(dirname "$0")/checks.sh"

# Makes a service with a store of its own; the other arguments are lines of a drop-in for it.
make_service() {
  local name=$1
  shift
  make_store "$name"
  printf 'BACKING=/srv/%s.store\nMOUNTPOINT=/srv/%s\n' "$name" "$name" >"/etc/protectfs/$name.conf"
  (($#)) || return
  mkdir -p "/etc/systemd/system/protectfs@$name.service.d"
  printf '%s\n' '[Service]' "$@" >"/etc/systemd/system/protectfs@$name.service.d/test.conf"
  systemctl daemon-reload
}

# Makes a service that unlocks with this passcode.
make_unlocking() {
  make_service "$1" "LoadCredential=passcode:/etc/protectfs/$1.passcode" \
    'Environment=UNLOCK=--passcode-file=%d/passcode'
  echo "$2" >"/etc/protectfs/$1.passcode"
}

start() { systemctl start "protectfs@$1"; }
fails_to_start() { ! start "$1"; }
shows() { prints "$3" systemctl show --value -p "$2" "protectfs@$1"; }
journal_has() { journalctl --sync && journalctl -b --no-pager -u "protectfs@$1" | tee /dev/stderr | grep -qF -- "$2"; }

# Checks that a service that cannot be started fails once, with a status, says why, and leaves nothing mounted.
check_failure() {
  local name=$1 status=$2 reason=$3
  check "  the start fails" fails_to_start "$name"
  # Time for a restart that must not come.
  sleep 0.5
  check "  with exit status $status" shows "$name" ExecMainStatus "$status"
  check "  and stays failed" shows "$name" ActiveState failed
  check "  without another attempt" shows "$name" NRestarts 0
  check "  the journal says why" journal_has "$name" "$reason"
  check "  nothing is mounted" is_not_mounted "/srv/$name"
}

echo "A service without UNLOCK:"
make_service plain
check "  starts" start plain
check "  and is mounted by then" is_mounted /srv/plain
check "  and locked" prints beforeFirstUnlock state_of /srv/plain
check "  it stops" systemctl stop protectfs@plain
check "  as a success" shows plain Result success
check "  and nothing is mounted" is_not_mounted /srv/plain
start plain
umount /srv/plain
check "  with an unmount it ends" await shows plain ActiveState inactive
check "  and is not started again" shows plain NRestarts 0

echo "A service that unlocks:"
make_unlocking open secret
check "  starts" start open
check "  and is unlocked by then" prints unlocked state_of /srv/open

for signal in KILL SEGV KILL; do
  echo "Its daemon gets SIG$signal:"
  before=$(systemctl show --value -p NRestarts protectfs@open) daemon=$(daemon_of /srv/open)
  kill -"$signal" "$daemon"
  check "  it is started again" await shows open NRestarts $((before + 1))
  check "  and active" await shows open ActiveState active
  check "  and unlocked" prints unlocked state_of /srv/open
done
printf '[Unit]\nRequires=protectfs@open.service\nAfter=protectfs@open.service\nRequiresMountsFor=/srv/open\n[Service]\nExecStart=/bin/sleep 60\n' \
  >/etc/systemd/system/using.service
systemctl daemon-reload
check "A service that names its mount starts" systemctl start using
check "  and stops before it is unmounted" grep -w srv-open.mount <(systemctl show --value -p After using)
check "It stops" systemctl stop protectfs@open
check "  and what requires it has stopped" prints inactive systemctl show --value -p ActiveState using

echo "A passcode that systemd-creds has sealed:"
make_service sealed "LoadCredentialEncrypted=passcode:/etc/protectfs/sealed.passcode" \
  'Environment=UNLOCK=--passcode-file=%d/passcode'
echo -n secret | systemd-creds encrypt --with-key=host --name=passcode - /etc/protectfs/sealed.passcode 2>/dev/null
check "  unlocks" start sealed
check "  at the start" prints unlocked state_of /srv/sealed

echo "A wrong passcode:"
make_unlocking wrong guessed
printf '[Unit]\nRequires=protectfs@wrong.service\nAfter=protectfs@wrong.service\n[Service]\nExecStart=/bin/sleep 60\n' \
  >/etc/systemd/system/needing.service
systemctl daemon-reload
check_failure wrong 3 "the passcode is wrong"
systemctl reset-failed protectfs@wrong
systemctl start needing 2>/dev/null
check "  what requires it does not run" prints inactive systemctl show --value -p ActiveState needing

echo "A wrong passcode, while somebody uses the mount:"
make_service used 'Environment=UNLOCK=--passcode-file=/run/passcode'
mkfifo --mode=600 /run/passcode
systemctl start --no-block protectfs@used
check "  it is mounted" await is_mounted /srv/used
check "  and not active before it is unlocked" shows used ActiveState activating
(cd /srv/used && exec sleep 60) &
await sh -c "[ \"\$(readlink /proc/$!/cwd)\" = /srv/used ]"
echo guessed >/run/passcode
check "  the start fails" await shows used ActiveState failed
check "  with exit status 3" shows used ExecMainStatus 3
check "  nothing is mounted" is_not_mounted /srv/used
kill $!

echo "A passcode that is missing:"
make_service unsaid 'Environment=UNLOCK=--passcode-file=/etc/protectfs/unsaid.passcode'
check "  the start fails" fails_to_start unsaid
check "  nothing is mounted" is_not_mounted /srv/unsaid
check "  the journal names the file" journal_has unsaid /etc/protectfs/unsaid.passcode

echo "Too many wrong passcodes:"
make_unlocking delayed guessed
for guess in {1..9}; do
  protectfs fsck --passcode-file <(echo "guess $guess") /srv/delayed.store >/dev/null 2>&1
done
check_failure delayed 20 "too many"

echo "A store that is missing:"
make_service storeless
rm -r /srv/storeless.store
check_failure storeless 4 "/srv/storeless.store does not exist"

echo "A mount point that is missing:"
make_service pointless
rmdir /srv/pointless
check_failure pointless 14 "/srv/pointless does not exist"

echo "A device key that is missing:"
make_service keyless
printf 'OPTIONS=device_key=/etc/protectfs/none.key\n' >>/etc/protectfs/keyless.conf
check_failure keyless 9 "there is no device key at /etc/protectfs/none.key"

echo "A store that is mounted already:"
make_service twice
mkdir /srv/elsewhere
protectfs mount /srv/twice.store /srv/elsewhere
check_failure twice 7 "is mounted at /srv/elsewhere already"
protectfs unmount /srv/elsewhere

echo "A .conf that is missing:"
check "  the start fails" fails_to_start absent
sleep 0.5
check "  without another attempt" shows absent NRestarts 0
check "  the journal says why" journal_has absent /etc/protectfs/absent.conf

echo "A .conf that names no store:"
echo "MOUNTPOINT=/srv/plain" >/etc/protectfs/unnamed.conf
check "  the start fails" fails_to_start unnamed
sleep 0.5
check "  without another attempt" shows unnamed NRestarts 0
check "  the journal says why" journal_has unnamed "a path is empty"

end_checks
