#!/bin/bash
# The agent of a session and the service protectfs-sleep: what is locked at a screen lock, and before the machine sleeps.
# Two users, ana and eve, each with a store that the service of logins has mounted.
source "$(dirname "$0")/checks.sh"

# Runs a program as a user, in a session of hers or not.
as() {
  local user=$1
  shift
  setpriv --reuid "$user" --regid "$user" --init-groups env -i HOME="/home/$user" PATH="$PATH" LC_ALL=C.UTF-8 \
    XDG_RUNTIME_DIR="/run/user/$(id -u "$user")" "$@"
}
protected() { echo "/home/$1/Protected"; }
state() { state_of "$(protected "$1")"; }
states() { echo "$(state ana) $(state eve)"; }
unlock() {
  for user in "$@"; do as "$user" protectfs unlock --passcode-file "/home/$user/p" "$(protected "$user")"; done
}
# Later systemd lists the session of a user's manager, too.
session_of() {
  for session in $(loginctl --no-legend list-sessions | awk -v user="$1" '$3 == user { print $1 }'); do
    [[ $(loginctl show-session --property Class --value "$session") != user ]] || echo "$session"
  done
}
has_session() { [[ -n $(session_of "$1") ]]; }
agents() { systemctl --user --machine="$1@.host" "${@:2}" protectfs-session; }
agent_runs() { [[ $(agents "$1" is-active) == active ]]; }
delays_sleep() { systemd-inhibit --list --no-legend | grep "^protectfs .* $1 "; }

add_user() {
  local user=$1 files
  useradd -m -s /bin/bash "$user"
  echo secret >"/home/$user/p"
  chown "$user" "/home/$user/p"
  chmod 600 "/home/$user/p"
  # At a lock, programs may take their time; not at these.
  as "$user" mkdir -p "/home/$user/.config/protectfs/hooks/pre-lock.d"
  printf '#!/bin/sh\nsleep 60\n' | as "$user" tee "/home/$user/.config/protectfs/hooks/pre-lock.d/slow" >/dev/null
  chmod 755 "/home/$user/.config/protectfs/hooks/pre-lock.d/slow"
  systemd-run --quiet --collect --unit="session-of-$user" -p PAMName=login -p User="$user" \
    --setenv=XDG_SESSION_CLASS=user --setenv=XDG_SESSION_TYPE=wayland sleep infinity
  await has_session "$user"
  as "$user" protectfs login enable --no-check --passcode-file "/home/$user/p" --recovery-key-file "/home/$user/r" >/dev/null
  as "$user" protectfs unmount "$(protected "$user")" 2>/dev/null
  systemctl start "protectfs-user@$(id -u "$user")"
  unlock "$user"
  files=$(protected "$user")
  for class in complete completeUntilFirstUserAuthentication completeWhenUserInactive; do
    as "$user" sh -c "echo $class >$files/$class && setfattr -n user.protectfs.class -v $class $files/$class"
  done
}

# What the machine does instead of sleeping: it notes the states, and whether users are frozen.
cat >/root/asleep <<'END'
#!/bin/bash
cd / && exec >/run/asleep.new 2>&1
for user in ana eve; do
  protectfs status --json "/home/$user/Protected" | sed -n 's/.*"state" *: *"\(.*\)".*/\1/p'
done
sed -n 's/^frozen //p' /sys/fs/cgroup/user.slice/cgroup.events
[[ ! -x /root/look ]] || /root/look >/run/looked 2>&1
mv /run/asleep.new /run/asleep
[[ ! -e /run/sleep-fails ]] || { : >/sys/power/state && cat /dev/zero >/sys/power/full; }
END
chmod +x /root/asleep
mount -o remount,rw /sys && mkdir -p /sys/power && mount -o remount,ro /sys
mount -t tmpfs -o size=12k power /sys/power
can_sleep() { rm -f /sys/power/full && echo "freeze mem" >/sys/power/state; }
can_sleep
echo "[deep]" >/sys/power/mem_sleep
# From version 256 on, systemd itself freezes what users run, and calls its hooks then.
unfrozen=0
if systemctl --version | grep -qE '^systemd (2[0-4]|25[0-5])'; then
  mkdir -p /run/systemd/system/systemd-suspend.service.d
  printf '[Service]\nExecStart=\nExecStart=/root/asleep\n' >/run/systemd/system/systemd-suspend.service.d/test.conf
  systemctl daemon-reload
else
  unfrozen=1
  mkdir -p /usr/lib/systemd/system-sleep
  printf '#!/bin/sh\n[ "$1" != pre ] || exec /root/asleep\n' >/usr/lib/systemd/system-sleep/look
  chmod +x /usr/lib/systemd/system-sleep/look
fi

# Has the machine go to sleep, and waits until it has woken.
sleep_and_wake() {
  rm -f /run/asleep
  systemctl suspend
  await test -e /run/asleep && await has_woken
}
has_woken() { [[ $(systemctl is-active sleep.target systemd-suspend protectfs-sleep | sort -u) == *inactive* ]] && is_thawed; }
is_thawed() { grep -q '^frozen 0' /sys/fs/cgroup/user.slice/cgroup.events; }
slept_with() { prints "$*" eval "head -n $# /run/asleep | xargs"; }

# Reads a file, again and again, until the file /tmp/silence is there.
play() {
  local count=0
  while [[ ! -e /tmp/silence ]]; do
    read -r _ <"$1" || { echo "it stopped after $count times" && return 1; }
    count=$((count + 1))
    sleep 0.01
  done
  echo "played $count times"
  ((count > 10))
}
# Reads a file until it is refused, for 10 seconds at most, and notes when that was.
read_until_refused() {
  local end=$((SECONDS + 10))
  while read -r _ <"$1"; do
    ((SECONDS < end)) || return 0
    : >>/tmp/reading
    sleep 0.005
  done 2>/dev/null
  date +%s%N >/tmp/refused
}
# Runs a function of this script as a user.
by() {
  local user=$1 function=$2
  shift 2
  as "$user" bash -c "$(declare -f "$function"); $function \"\$@\"" bash "$@"
}

# Checks that a command has a user's file of class A refused, before the grace period of a lock would have ended, and says
# how long that took. Unlocks the store first.
check_refused() {
  local what=$1 user=$2 begin reader
  shift 2
  unlock "$user"
  rm -f /tmp/reading /tmp/refused
  by "$user" read_until_refused "$(protected "$user")/complete" &
  reader=$!
  await test -e /tmp/reading
  begin=$(date +%s%N)
  "$@"
  wait "$reader"
  check "  $what refuses class A" test -e /tmp/refused
  [[ ! -e /tmp/refused ]] || echo "          after $((($(cat /tmp/refused) - begin) / 1000000)) ms"
}

add_user ana
add_user eve
make_store root
printf 'BACKING=/srv/root.store\nMOUNTPOINT=/srv/root\n' >/etc/protectfs/root.conf
systemctl start protectfs@root
protectfs unlock --passcode-file <(echo secret) /srv/root
systemctl --global enable protectfs-session 2>/dev/null
for user in ana eve; do agents "$user" start; done

echo "Two users:"
check "  the agent of one runs" agent_runs ana
check "  and of the other" agent_runs eve
check "  both stores are unlocked" prints "unlocked unlocked" states
as ana protectfs lock --now "$(protected eve)" >/dev/null 2>&1
check "  neither locks the other's" prints "unlocked unlocked" states
as ana protectfs lock --all --now
check "  also not with 'lock --all'" prints "locked unlocked" states

echo "A session that is locked, while music plays:"
rm -f /tmp/silence
by ana play "$(protected ana)/completeUntilFirstUserAuthentication" >/tmp/played 2>&1 &
music=$!
check_refused "the lock" ana loginctl lock-session "$(session_of ana)"
check "  the other user's stays unlocked" prints "locked unlocked" states
check "  class CX is there for a while" as ana cat "$(protected ana)/completeWhenUserInactive"
loginctl unlock-session "$(session_of ana)"
sleep 0.5
check "  nothing is unlocked with the session" prints "locked unlocked" states
touch /tmp/silence
check "  the music has played on" wait "$music"
sed 's/^/          /' /tmp/played
session=$(busctl call org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager GetSession s \
  "$(session_of ana)" | sed 's/.*"\(.*\)"/\1/')
hint() { as ana busctl call org.freedesktop.login1 "$session" org.freedesktop.login1.Session SetLockedHint b "$1"; }
hint_anew() { hint false && hint true; }
check_refused "a locker that says so" ana hint_anew
hint false
unlock ana

echo "An agent that is killed:"
killed=$(agents ana show --value -p MainPID)
agents ana kill --signal=KILL
runs_anew() { delays_sleep ana | grep -qvw "$killed"; }
check "  runs again" await runs_anew
check "  and leaves the store unlocked" prints "unlocked unlocked" states
check_refused "a lock" ana loginctl lock-session "$(session_of ana)"
unlock ana

echo "logind is started anew:"
systemctl restart systemd-logind
check "  sleep waits for the agents again" await delays_sleep ana
check "  of both" await delays_sleep eve
check_refused "a lock" ana loginctl lock-session "$(session_of ana)"
unlock ana

# Writes half a gigabyte, and does not wait for the disk.
write_much() { as ana dd if=/dev/zero of="$(protected ana)/complete" bs=1M count=2048 status=none; }
# Checks that the machine sleeps with these states of ana's and eve's stores, and users frozen (1) or not (0); and wakes.
check_sleep() {
  check "  it sleeps and wakes" sleep_and_wake
  check "  with keys and users as they should be: $*" slept_with "$@"
}

echo "The machine sleeps, with the agents alone, a slow hook, and a program that writes all the time:"
write_much 2>/dev/null &
sleep 0.2
check_sleep inactive inactive "$unfrozen"
check "  which was refused" eval "! wait $!"
check "  without root's, which are not theirs" prints unlocked state_of /srv/root
check "  sleep waits for the agents again" await delays_sleep ana
unlock ana eve

echo "It sleeps with the service and the agents, and much that is not written:"
systemctl enable protectfs-sleep 2>/dev/null
write_much
check_sleep inactive inactive 1
check "  root's are locked too" prints inactive state_of /srv/root
unlock ana eve
check "  what was written is there" prints 2147483648 as ana stat -c %s "$(protected ana)/complete"
check "  sleep waits for the agents again" await delays_sleep ana

echo "It sleeps with the service alone, which finds mounts that are nowhere in sight:"
for user in ana eve; do agents "$user" stop; done
protectfs unlock --passcode-file <(echo secret) /srv/root
# One whose path has changed, and one of another mount namespace.
for name in renamed elsewhere; do
  as eve mkdir -p "/home/eve/$name/mount"
  as eve protectfs init --passcode-file /home/eve/p "/home/eve/$name/store" >/dev/null
done
mount_for_eve() {
  systemd-run --quiet --collect --uid=eve --unit="$1" --service-type=notify -p KillMode=process \
    --setenv=XDG_RUNTIME_DIR="/run/user/$(id -u eve)" "${@:2}" \
    protectfs mount --foreground --unlock --passcode-file /home/eve/p "/home/eve/$1/store" "/home/eve/$1/mount"
}
mount_for_eve renamed
mount_for_eve elsewhere -p PrivateMounts=yes
mv /home/eve/renamed /home/eve/moved
check_sleep inactive inactive 1
check "  root's are locked" prints inactive state_of /srv/root
check "  one whose path was renamed" prints inactive state_of /home/eve/moved/store
check "  and one of another mount namespace" prints inactive state_of /home/eve/elsewhere/store
systemctl stop renamed elsewhere
unlock ana eve

echo "A daemon that hangs:"
daemon=$(daemon_of /srv/root)
kill -STOP "$daemon"
began=$SECONDS
check_sleep inactive inactive 1
check "  it costs a bounded time: $((SECONDS - began)) s" test $((SECONDS - began)) -lt 25
kill -CONT "$daemon"
unlock ana eve

echo "A sleep that fails:"
touch /run/sleep-fails
check_sleep inactive inactive 1
check "  it has failed" prints failed systemctl is-active systemd-suspend
rm /run/sleep-fails
can_sleep
systemctl reset-failed systemd-suspend
unlock ana eve

echo "With another extent, and without freezing:"
mkdir -p /etc/systemd/system/protectfs-sleep.service.d
printf '[Service]\nEnvironment=OPTIONS=--every-class\nEnvironment=FREEZE=\n' \
  >/etc/systemd/system/protectfs-sleep.service.d/test.conf
systemctl daemon-reload
check_sleep beforeFirstUnlock beforeFirstUnlock "$unfrozen"
unlock ana eve
rm -r /etc/systemd/system/protectfs-sleep.service.d
systemctl daemon-reload

echo "A daemon in the user's session, under load from there, and from services:"
as eve sh -c 'mkdir -p ~/own/mount && protectfs init --passcode-file ~/p ~/own/store' >/dev/null
own() { systemctl --user --machine=eve@.host "$@"; }
cat >/root/load <<'END'
#!/bin/sh
# Beside the daemon there are its users in the unit.
protectfs mount --unlock --passcode-file ~/p ~/own/store ~/own/mount && cd ~/own/mount
for n in 1 2 3 4; do
  while :; do dd if=/dev/zero of=file$n bs=1M count=20 conv=fsync status=none; ls -l >/dev/null; rm file$n; done &
done
wait
END
install -m 755 /root/load /usr/local/bin/load
systemd-run --quiet --user --machine=eve@.host --collect --unit=load load
systemd-run --quiet --collect --unit=requiring -p Requires=protectfs@root.service -p After=protectfs@root.service \
  sh -c 'cd /srv/root && while :; do echo x >file; cat file >/dev/null; rm file; done'
systemd-run --quiet --collect --uid=eve --unit=named sh -c 'cd ~/Protected && while :; do cat completeUntil* >/dev/null; done'
mkdir -p /etc/systemd/system/protectfs-sleep.service.d
printf '[Service]\nEnvironment="FREEZE=user.slice named.service gone.service"\n' \
  >/etc/systemd/system/protectfs-sleep.service.d/test.conf
systemctl daemon-reload
# Whether the services are frozen, the state of the store, and which processes of the user's run: those of her mounts must, as
# others may wait for them.
cat >/root/look <<'END'
#!/bin/bash
cat /sys/fs/cgroup/system.slice/{requiring,named}.service/cgroup.events | grep '^frozen'
# Where systemd freezes, the daemon is, too, when nobody waits for it any more.
[[ -e /usr/lib/systemd/system-sleep/look ]] ||
  timeout 20 protectfs status --json /home/eve/own/store | sed -n 's/.*"state" *: *"\(.*\)".*/\1/p'
for process in $(pgrep -u eve); do
  group=/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$process/cgroup")
  ! grep -q '^frozen 0' "$group/cgroup.events" || cat "/proc/$process/comm"
done | sort -u
END
chmod +x /root/look
# A group of hers, whose name is more than one path for who lets escapes count.
odd=/sys/fs/cgroup/user.slice/user-$(id -u eve).slice/user@$(id -u eve).service/'x\n\0057tmp\0057protectfs-frozen '
as eve mkdir "$odd" /tmp/protectfs-frozen
as eve ln -s /root/written /tmp/protectfs-frozen/cgroup.freeze
await is_mounted /home/eve/own/mount
running="frozen 1 frozen 1 inactive protectfs unmounter"
looked=
# Whether systemd has frozen them yet is nobody's concern.
((!unfrozen)) || running="frozen 1 frozen 1" looked="| sed 's/ protectfs unmounter\$//'"
for _ in 1 2 3; do
  unlock eve
  as eve protectfs unlock --passcode-file /home/eve/p /home/eve/own/mount
  sleep 0.5
  check "  the machine sleeps and wakes" sleep_and_wake
  check "  with the daemons alone running" prints "$running" eval "xargs </run/looked $looked"
  check "  and locked" prints inactive \
    as eve getfattr --only-values --absolute-names -n user.protectfs.state /home/eve/own/mount
done
check "  the load goes on" prints active own is-active load
check "  the services go on" prints "active active" eval "systemctl is-active requiring named | xargs"
check "  in their groups" prints "" find /sys/fs/cgroup -name protectfs-frozen
check "  the name of a group leads nowhere else" test ! -e /root/written
check "  nor is that group left frozen" grep -q '^frozen 0' "$odd/cgroup.events"
own stop load
systemctl stop requiring named

end_checks
