#!/bin/bash
# Runs in the virtual machine of scripts/suspend-test.sh: guest.sh ROUNDS UNIT. Suspends ROUNDS times, with protectfs-sleep
# enabled if UNIT is yes, and says on the console how that went.
set -u
export LC_ALL=C.UTF-8 HOME=/root
rounds=$1 unit=$2

# All of this takes its time where the machine is not the processor's own.
patience=60
source /root/checks.sh

# Writes a file of 1 MiB, synchronises it, reads it, and counts. Where it is refused it tries again.
cat >/usr/local/bin/load <<'END'
#!/bin/bash
directory=$1 count=0
while :; do
  if dd if=/dev/zero of=$directory/$((count % 8)) bs=64k count=16 conv=fsync,notrunc status=none 2>/dev/null &&
    cat $directory/$((count % 8)) >/dev/null 2>&1; then
    count=$((count + 1))
    echo $count >$2.new && mv $2.new $2
  else
    sleep 0.05
  fi
done
END
chmod 755 /usr/local/bin/load

useradd -m -s /bin/bash ana
mkdir -m 1777 /run/counts
DEBIAN_FRONTEND=noninteractive pam-auth-update --package --enable protectfs
(umask 077 && echo passcode >/root/passcode)
install -o ana -m 600 /root/passcode /home/ana/passcode
as_ana() { setpriv --reuid ana --regid ana --init-groups env HOME=/home/ana "$@"; }
mine=/home/ana/Protected
check "login enable" \
  as_ana protectfs login enable --passcode-file /home/ana/passcode --recovery-key-file /home/ana/recovery
unlock_mine() { as_ana protectfs unlock --passcode-file /home/ana/passcode $mine; }
# A session that nobody gave a password: the store is mounted, and locked.
session() { systemd-run --quiet --unit="$1" -p PAMName=login -p User=ana --setenv=XDG_SESSION_CLASS=user --setenv=XDG_SESSION_TYPE=tty "${@:2}"; }
session waits sleep infinity
check "ana's store is mounted" await systemctl --quiet is-active protectfs-user@1000
check "an unlock" unlock_mine

protectfs init /srv/store --passcode-file /root/passcode --recovery-key-file /root/recovery >/dev/null
mkdir -p /srv/private /etc/protectfs
printf 'BACKING=/srv/store\nMOUNTPOINT=/srv/private\nOPTIONS=grace=5\n' >/etc/protectfs/srv.conf
check "protectfs@srv" systemctl start protectfs@srv
unlock_srv() { protectfs unlock --passcode-file /root/passcode /srv/private; }
check "its unlock" unlock_srv

for class in complete completeUntilFirstUserAuthentication; do
  as_ana mkdir $mine/$class && as_ana protectfs class set $class $mine/$class >/dev/null
  mkdir /srv/private/$class && protectfs class set $class /srv/private/$class >/dev/null
done
[[ $unit == no ]] || systemctl enable --quiet protectfs-sleep

# Of the session, by its manager, and of the system.
for class in complete completeUntilFirstUserAuthentication; do
  session "session-$class" load $mine/$class "/run/counts/session-$class"
  systemd-run --quiet --unit="system-$class" -p Requires=protectfs@srv.service load "/srv/private/$class" "/run/counts/system-$class"
done
loads=({session,system}-complete{,UntilFirstUserAuthentication})
for load in "${loads[@]}"; do check "$load begins" await test -s "/run/counts/$load"; done
echo "suspends to $(cat /sys/power/mem_sleep), kernel $(uname -r), $(systemctl --version | head -1)"

attribute() { cat "/sys/power/suspend_stats/$1"; }
has_ended() { (($(attribute success) + $(attribute fail) > before)); }
is_over() { [[ $(systemctl show --property=ActiveState --value systemd-suspend) == inactive ]]; }
key_is_gone() { protectfs status --json "$1" | grep -A1 '"complete"' | grep -q unavailable; }
count() { cat "/run/counts/$1"; }
goes_on() { (($(count "$1") > $2 + 1)); }

for round in $(seq "$rounds"); do
  before=$(($(attribute success) + $(attribute fail)))
  begin=$(date +%s%N)
  systemctl suspend
  check "round $round ends" await has_ended
  check "round $round: the sleep is over" await is_over
  echo "round $round: success $(attribute success), fail $(attribute fail), $((($(date +%s%N) - begin) / 1000000)) ms"
  if [[ $unit == yes ]]; then
    check "round $round: ana's class A is locked" key_is_gone $mine
    check "round $round: the service's class A is locked" key_is_gone /srv/private
  fi
  for base in session system; do
    class=$base-completeUntilFirstUserAuthentication from=$(count $class)
    check "round $round: $class goes on" await goes_on $class "$from"
  done
  check "round $round: ana unlocks" unlock_mine
  check "round $round: the service is unlocked" unlock_srv
  for base in session system; do
    class=$base-complete from=$(count $class)
    check "round $round: $class goes on after the unlock" await goes_on $class "$from"
  done
done
failed=$(attribute fail)
((failed == 0)) || echo "failed: $failed of the attempts to suspend; $(dmesg | grep -i 'freezing' | tail -n 3 | tr '\n' ';')"
systemctl stop "${loads[@]}"
if ((failures + failed == 0)); then
  echo "passed"
else
  journalctl --boot --output=short-monotonic | grep -iE 'protectfs|logind|sleep|suspend|session' | tail -n 200
fi
