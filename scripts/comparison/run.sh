#!/bin/bash
# Run by scripts/login-comparison.sh in a container: one of the programs through login, screen lock, sleep and logout.
set -u
export LC_ALL=C.UTF-8
cd "$(dirname "$0")"
install holder /usr/bin/holder
mkdir -m 1777 /run/holder
requests=/run/holder/requests reply=/run/holder/reply
mkfifo -m 666 $requests
show() { printf '%-40s %s\n' "$1" "$2"; }

# What the program that has the file open can do now.
ask() {
  rm -f $reply
  timeout 3 sh -c "echo >$requests" || { echo "no program, or it hangs" && return; }
  for _ in {1..50}; do [[ -s $reply ]] && cat $reply && return || sleep 0.1; done
  echo "hangs"
}

# Opens a session that lasts until end_session, and runs a command in it. The password is the user's name.
begin_session() {
  rm -f /tmp/end
  : >/tmp/session
  USER_NAME=$user COMMAND=$1 expect -c '
    set timeout 60
    spawn -noecho login $env(USER_NAME)
    expect "assword:"
    send -- "$env(USER_NAME)\r"
    expect -re {\$ $}
    send -- "$env(COMMAND); echo REA\"\"DY\r"
    expect "READY"
    while {![file exists /tmp/end]} { after 100 }
    send -- "exit\r"
    expect eof' >/tmp/session 2>&1 &
  for _ in {1..300}; do grep -q READY /tmp/session && return || sleep 0.1; done
  cat /tmp/session
}
# Until the user's manager has ended too, which logind gives 10 seconds.
end_session() {
  touch /tmp/end
  sleep 15
}

as_user() { setpriv --reuid $user --regid $user --init-groups env -i HOME=/home/$user PATH="$PATH" "$@"; }
add_user() {
  useradd -m -s /bin/bash $user
  # chpasswd would ask the modules that are installed.
  usermod -p "$(perl -e 'print crypt($ARGV[0], q($6$salt$))' $user)" $user
}

# A file system with encryption at a directory.
mount_encrypted() {
  for number in {0..15}; do [[ -e /dev/loop$number ]] || mknod /dev/loop$number b 7 $number; done
  [[ -e /dev/loop-control ]] || mknod /dev/loop-control c 10 237
  truncate -s 600M /root/image
  mkfs.ext4 -q -O encrypt /root/image
  mkdir -p "$1"
  mount -o loop /root/image "$1"
}

set_up_gocryptfs() {
  add_user
  file=/home/$user/plain/file
  local volume="<volume user=\"$user\" fstype=\"fuse\" path=\"/usr/bin/gocryptfs#/home/$user/cipher\""
  volume+=" mountpoint=\"/home/$user/plain\" options=\"nodev,nosuid,quiet\" />"
  sed -i "s|</pam_mount>|$volume&|" /etc/security/pam_mount.conf.xml
  as_user sh -c "cd && mkdir cipher plain && gocryptfs -q -init -extpass 'echo $user' cipher"
}

set_up_fscrypt() {
  add_user
  mount_encrypted /srv/data
  file=/srv/data/private/file
  fscrypt setup --quiet --force --time=50ms --all-users
  fscrypt setup --quiet --all-users /srv/data
  install -d -o $user -g $user /srv/data/private
  as_user sh -c "echo $user | fscrypt encrypt --source=pam_passphrase --quiet --no-recovery /srv/data/private"
  fscrypt lock --user=$user /srv/data/private
}

set_up_homed() {
  pam-auth-update --remove libpam-mount fscrypt --package
  mount_encrypted /home
  file=/home/$user/file
  systemctl start systemd-homed
  NEWPASSWORD=$user homectl create $user --storage=fscrypt --enforce-password-policy=no
}

set_up_protectfs() {
  pam-auth-update --remove libpam-mount fscrypt --package
  pam-auth-update --enable protectfs --package
  systemctl --global enable protectfs-session
  add_user
  file=/home/$user/Protected/file
  (umask 077 && echo $user >/tmp/passcode && chown $user /tmp/passcode)
  as_user protectfs login enable --passcode-file /tmp/passcode --recovery-key-file /home/$user/recovery-key
}

# Sleep that logind takes for real; the machine stays awake. What a program can do then is asked in place of sleeping.
mount -o remount,rw /sys && mkdir -p /sys/power && mount -o remount,ro /sys
mount -t tmpfs power /sys/power
echo "freeze mem" >/sys/power/state
echo "[deep]" >/sys/power/mem_sleep
mkdir -p /run/systemd/system/systemd-suspend.service.d
printf '[Service]\nExecStart=\nExecStart=/bin/bash %s/asleep\n' "$PWD" \
  >/run/systemd/system/systemd-suspend.service.d/x.conf
printf '%s\nask >/run/holder/asleep\n' "$(declare -p requests reply; declare -f ask)" >asleep
systemctl daemon-reload

# Each has a user of its name.
user=$1
set_up_"$1" >/tmp/log 2>&1 || { cat /tmp/log && exit 1; }
printf '\n-- %s\n' "$1"
begin_session "echo 'text of a file' >$file"
[[ $1 != protectfs ]] || as_user sh -c "protectfs class set complete $file; echo 'text of a file' >$file-of-class-C"
end_session

begin_session "(setsid holder $file $requests $reply >/dev/null 2>&1 &)"
sleep 1
show "login" "$(ask)"
loginctl lock-session "$(loginctl list-sessions --no-legend | awk '{ print $1; exit }')"
sleep 3
show "screen lock" "$(ask)"
if [[ $1 == protectfs ]]; then
  show "  a file of class C" "$(as_user head -c 4 "$file-of-class-C")"
  as_user protectfs unlock --passcode-file /tmp/passcode >/dev/null
fi
show "unlocked again" "$(ask)"
systemctl suspend
for _ in {1..100}; do [[ -s /run/holder/asleep ]] && break || sleep 0.1; done
show "asleep" "$(cat /run/holder/asleep)"
end_session
show "logout, the program goes on" "$(ask)"
show "  and root reads" "$(timeout 5 head -c 4 "$file" 2>&1)"
pkill -x holder
begin_session "cat $file"
end_session
show "logout, nothing open: root reads" "$(timeout 5 head -c 4 "$file" 2>&1)"
[[ $1 != homed ]] || show "  and beside it" "$(timeout 5 head -c 4 "/home/$user.homedir/file" 2>&1)"
