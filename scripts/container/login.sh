#!/bin/bash
# Logins with the PAM module, run by scripts/container-test.sh in a container: passcodes right, wrong and changed, lockers,
# ssh, su, sudo, planted sockets, the last logout. Without names all tests are run, in the order of the list below.
set -u
export LC_ALL=C.UTF-8
failures=0
# The password of ana, which one test changes.
ana=ana

ok() { echo "ok      $*"; }
failed() { echo "failed  $*"; failures=$((failures + 1)); }
# Whether a text has another in it.
check() { if [[ $2 == *"$3"* ]]; then ok "$1"; else failed "$1: '$3' is not in: $2"; fi; }
check_not() { if [[ $2 != *"$3"* ]]; then ok "$1"; else failed "$1: '$3' is in: $2"; fi; }

# Runs a program as a user, without a session and without PAM.
as() {
  local user=$1
  shift
  setpriv --reuid "$user" --regid "$user" --init-groups env -i HOME="/home/$user" PATH="$PATH" LC_ALL="$LC_ALL" "$@"
}
# What the kernel has mounted of a user's: the lock state, or 'not mounted'.
state() {
  grep -q " /home/$1/Protected .* fuse.protectfs " /proc/self/mountinfo || { echo 'not mounted'; return; }
  as "$1" getfattr --only-values --absolute-names -n user.protectfs.state "/home/$1/Protected" 2>/dev/null
}
await() {
  for _ in $(seq 100); do [[ $(state "$1") == "$2" ]] && break; sleep 0.1; done
  [[ $(state "$1") == "$2" ]] && ok "$3" || failed "$3: $1's is $(state "$1"), not $2"
}
# Whether a store has counted a wrong passcode.
attempts() { tr -d '\0' <"/home/$1/.local/share/protectfs/store/.protectfs/attempts" | wc -c; }

# Logs in at a terminal of its own, runs a command, and logs out; prints all that is seen.
login_as() {
  USER_NAME=$1 PASSWORD=$2 COMMAND=$3 expect -c '
    set timeout 60
    log_user 1
    spawn -noecho login $env(USER_NAME)
    expect "assword:"
    send -- "$env(PASSWORD)\r"
    expect {
      "incorrect" { puts "REFUSED"; exit 0 }
      -re {\$ $}
    }
    send -- "$env(COMMAND); echo END-\$?; exit\r"
    expect -re {END-[0-9]}
    expect eof' 2>&1
}
# Opens a session that lasts until end_session.
begin_session() {
  rm -f /tmp/end-$3
  USER_NAME=$1 PASSWORD=$2 END=/tmp/end-$3 expect -c '
    set timeout 60
    spawn -noecho login $env(USER_NAME)
    expect "assword:"
    send -- "$env(PASSWORD)\r"
    expect -re {\$ $}
    while {![file exists $env(END)]} { after 100 }
    send -- "exit\r"
    expect eof' >/tmp/session-$3 2>&1 &
  for _ in $(seq 100); do [[ $(tail -c 2 /tmp/session-$3) == '$ ' ]] && break; sleep 0.1; done
}
end_session() { touch /tmp/end-$1; }

# Tries to log in with 20 wrong passwords; notes what was accepted.
wrong_logins() {
  local number tries=()
  for number in $(seq 20); do
    (echo "wrong $number" | pamtester testlogin "$1" authenticate open_session close_session >/dev/null 2>&1 &&
      echo "$number" >>/tmp/accepted) &
    tries+=($!)
  done
  wait "${tries[@]}"
}

# A user with a store that is on for logins. The name is the password.
add_user() {
  useradd -m -s /bin/bash "$1"
  echo "$1:$1" | chpasswd
  echo 'PS1="$ "' >"/home/$1/.bashrc"
  echo '. ~/.bashrc' >"/home/$1/.bash_profile"
  echo "$1" >"/home/$1/p"
  chown "$1" "/home/$1/p"
  chmod 600 "/home/$1/p"
}

test_enable() {
  add_user ana
  check "status is off at first" "$(as ana protectfs login status)" "Off:"
  check "enable makes a store" \
    "$(as ana protectfs login enable --passcode-file /home/ana/p --recovery-key-file /home/ana/r 2>&1)" \
    "is mounted at /home/ana/Protected and unlocked"
  check "status in JSON" "$(as ana protectfs login status --json)" '"mountPoint" : "/home/ana/Protected"'
  check "all parts are in place" "$(as ana protectfs login status; echo $?)" $'protectfs-user@.service\n0'
  check "a store that is there is not taken with another passcode" \
    "$(echo other | as ana protectfs login enable --passcode-file - 2>&1)" "has another passcode"
  check "but with its own" "$(as ana protectfs login enable --passcode-file /home/ana/p 2>&1)" "is mounted at"
  check "root has none" "$(protectfs login enable 2>&1)" "other than root"
  check "order of the modules" "$(grep -ho 'pam_\(protectfs\|systemd\).so' /etc/pam.d/common-session | tr '\n' ' ')" \
    "pam_protectfs.so pam_systemd.so"
}

test_right() {
  local seen
  seen=$(login_as ana ana 'protectfs status | head -1; echo text >Protected/c; cat Protected/c')
  check "a login unlocks before the prompt" "$seen" "/home/ana/Protected: unlocked"
  check "and says nothing of it" "$(grep -c protectfs: <<<"$seen")" "0"
  await ana 'not mounted' "the last logout unmounts"
  install -d -o ana -g ana /home/ana/.config/systemd/user/default.target.wants
  printf '[Service]\nType=oneshot\nExecStart=/bin/sh -c "cat /home/ana/Protected/c >/home/ana/seen"\n' \
    >/home/ana/.config/systemd/user/reader.service
  ln -s ../reader.service /home/ana/.config/systemd/user/default.target.wants/
  rm -f /home/ana/seen
  # Until its manager of the former session has ended, no other starts.
  for _ in $(seq 200); do [[ $(systemctl is-active user@$(id -u ana)) == active ]] || break; sleep 0.1; done
  login_as ana ana 'sleep 3' >/dev/null
  check "a service of the user finds class C" "$(cat /home/ana/seen 2>&1)" "text"
  await ana 'not mounted' "unmounted again"
}

test_wrong() {
  check "a wrong password is refused" "$(login_as ana wrong true)" "incorrect"
  check "and mounts nothing" "$(state ana)" "not mounted"
  begin_session ana ana wrong
  as ana protectfs lock --now /home/ana/Protected
  wrong_logins ana
  [[ -e /tmp/accepted ]] && failed "wrong passwords were accepted" || ok "20 wrong passwords are refused"
  check "which count for nothing" "$(attempts ana)" "0"
  check "and leave it locked" "$(state ana)" "locked"
  end_session wrong
  await ana 'not mounted' "the session ends"
}

test_sessions() {
  begin_session ana ana one
  begin_session ana ana two
  check "unlocked" "$(state ana)" "unlocked"
  end_session one
  sleep 2
  check "the end of one session leaves it so" "$(state ana)" "unlocked"
  end_session two
  await ana 'not mounted' "the end of the other does not"
  begin_session ana ana killed
  kill -KILL $(pgrep -x login)
  await ana 'not mounted' "a login that is killed ends its session too"
  end_session killed
}

test_busy() {
  local seen
  login_as ana ana "echo x >Protected/held; tmux new-session -d 'exec sleep 1000 <Protected/held'; sleep 1" >/dev/null
  await ana 'not mounted' "a terminal multiplexer that holds a file does not keep it"
  for _ in $(seq 50); do pgrep -u ana -f 'login mount' >/dev/null || break; sleep 0.1; done
  check "no daemon is left" "$(pgrep -u ana -f 'login mount' | wc -l)" "0"
  check "the holder is" "$(pgrep -u ana -x sleep | wc -l)" "1"
  check "the next login mounts again" "$(login_as ana ana 'protectfs status | head -1')" ": unlocked"
  kill $(pgrep -u ana tmux) $(pgrep -u ana -x sleep) 2>/dev/null
  await ana 'not mounted' "unmounted again"
  loginctl enable-linger ana
  check "with linger it is unlocked" "$(login_as ana ana 'protectfs status | head -1')" ": unlocked"
  await ana 'not mounted' "and unmounted though the user's services go on"
  loginctl disable-linger ana
}

test_lockers() {
  begin_session ana ana lockers
  as ana protectfs lock --now /home/ana/Protected
  echo ana | pamtester testlogin ana authenticate 'setcred(PAM_REFRESH_CRED)' >/dev/null 2>&1
  check "a locker of root's unlocks" "$(state ana)" "unlocked"
  as ana protectfs lock --now /home/ana/Protected
  echo ana | as ana pamtester testlogin ana authenticate >/dev/null 2>&1
  check "a locker of the user's unlocks" "$(state ana)" "unlocked"
  as ana protectfs lock --now /home/ana/Protected
  echo wrong | as ana pamtester testlogin ana authenticate >/dev/null 2>&1
  check "not with a wrong password" "$(state ana)" "locked"
  check "which does not count" "$(attempts ana)" "0"

  check "the user's processes cannot say that a login has accepted a passcode" "$(as ana perl -MIO::Socket::UNIX -e '
    my ($path) = grep { !/backing=/ } glob("$ARGV[0]/*.sock"); my $c = IO::Socket::UNIX->new($path) or die; local $/ = "\0";
    print $c "{\"method\":\"org.protectfs.Daemon.Unlock\",\"parameters\":{\"login\":true,\"passcode\":\"x\"}}\0";
    $c->flush; my $reply = <$c>; chop $reply; print $reply' "/run/protectfs-user/$(id -u ana)/protectfs")" '"parameter":"login"'

  useradd -m -s /bin/bash ben
  echo ben:ben | chpasswd
  echo 'ana ALL=(ALL) ALL' >/etc/sudoers.d/ana
  printf 'PS1="$ "\n' >/home/ben/.bashrc
  as ben expect -c 'spawn -noecho su ana -c "echo became"; expect "assword:"; send "ana\r"; expect eof' >/tmp/su 2>&1
  check "su works" "$(cat /tmp/su)" "became"
  check "and does not unlock" "$(state ana)" "locked"
  as ana expect -c 'spawn -noecho sudo -k echo became; expect "ana:"; send "ana\r"; expect eof' >/tmp/sudo 2>&1
  check "sudo works" "$(cat /tmp/sudo)" "became"
  check "and does not unlock" "$(state ana)" "locked"
  echo "* * * * * ana touch /tmp/cron-ran" >/etc/cron.d/ana
  pamtester cron ana open_session close_session >/dev/null 2>&1
  check "nor does cron" "$(state ana)" "locked"
  rm -f /etc/cron.d/ana
  end_session lockers
  await ana 'not mounted' "the session ends"
}

test_ssh() {
  local seen
  as ana sh -c 'mkdir -m 700 -p ~/.ssh; [ -e ~/.ssh/id_ed25519 ] || ssh-keygen -q -t ed25519 -N "" -f ~/.ssh/id_ed25519
    cp ~/.ssh/id_ed25519.pub ~/.ssh/authorized_keys'
  systemctl start ssh || { failed "ssh did not start"; return; }
  local options=(-tt -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR)
  seen=$(as ana ssh "${options[@]}" -i /home/ana/.ssh/id_ed25519 ana@127.0.0.1 'protectfs status | head -1' 2>&1 </dev/null)
  check "ssh by key: mounted and locked" "$seen" "/home/ana/Protected: "
  check_not "not unlocked" "$seen" ": unlocked"
  seen=$(COMMAND="protectfs status" expect -c '
    set timeout 30
    spawn -noecho setpriv --reuid ana --regid ana --init-groups env HOME=/home/ana ssh -tt -o StrictHostKeyChecking=no \
      -o UserKnownHostsFile=/dev/null -i /home/ana/.ssh/id_ed25519 ana@127.0.0.1
    expect -re {\$ $}; send "exit\r"; expect eof' 2>&1)
  check "and says how to unlock" "$seen" "'protectfs unlock /home/ana/Protected' unlocks it"
  await ana 'not mounted' "unmounted"
  seen=$(expect -c '
    set timeout 30
    spawn -noecho ssh -tt -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o PubkeyAuthentication=no \
      ana@127.0.0.1
    expect "assword:"; send "ana\r"
    expect -re {\$ $}; send "protectfs status | head -1; exit\r"; expect eof' 2>&1)
  check "ssh by password unlocks" "$seen" "/home/ana/Protected: unlocked"
  await ana 'not mounted' "unmounted"
  printf 'KbdInteractiveAuthentication yes\nPasswordAuthentication no\n' >/etc/ssh/sshd_config.d/kbd.conf
  systemctl restart ssh
  seen=$(expect -c '
    set timeout 30
    spawn -noecho ssh -tt -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o PubkeyAuthentication=no \
      ana@127.0.0.1
    expect "assword:"; send "ana\r"
    expect -re {\$ $}; send "exit\r"; expect eof' 2>&1)
  check "ssh by keyboard-interactive: another process authenticates, and it says how to unlock" "$seen" \
    "'protectfs unlock /home/ana/Protected' unlocks it"
  await ana 'not mounted' "unmounted"
}

test_passwd() {
  local seen
  seen=$(login_as ana ana 'expect -c "spawn passwd; expect Current; send ana\\r; expect New; send Better4711\\r;
    expect Retype; send Better4711\\r; expect eof"')
  check "passwd succeeds" "$seen" "updated successfully"
  ana=Better4711
  check_not "and says nothing of the store" "$seen" "stays what it was"
  await ana 'not mounted' "unmounted"
  check "the new password unlocks" "$(login_as ana Better4711 'protectfs status | head -1')" ": unlocked"
  await ana 'not mounted' "unmounted"
}

# With a store that is erased by four wrong passcodes.
test_chpasswd() {
  local seen
  add_user eva
  as eva mkdir -p -m 700 /home/eva/.local/share/protectfs
  as eva protectfs init --erase-after 4 --passcode-file /home/eva/p --recovery-key-file /home/eva/r \
    /home/eva/.local/share/protectfs/store >/dev/null
  as eva protectfs login enable --passcode-file /home/eva/p >/dev/null
  check "unlocked" "$(login_as eva eva 'protectfs status | head -1')" ": unlocked"
  await eva 'not mounted' "unmounted"
  wrong_logins eva
  check "20 wrong passwords do not erase a store that four would" "$(login_as eva eva 'protectfs status | head -1')" \
    ": unlocked"
  await eva 'not mounted' "unmounted"
  for number in $(seq 6); do
    echo "eva:other$number" | chpasswd 2>/dev/null
    seen=$(login_as eva "other$number" 'protectfs status | head -1')
  done
  check "after root's chpasswd a login is told" "$seen" "its passcode is not the login passcode any more"
  check "gets in" "$seen" "END-0"
  check_not "and finds it locked" "$seen" ": unlocked"
  check "six such logins count for nothing" "$(attempts eva)" "0"
  begin_session eva other6 chpasswd
  check "the old passcode opens it still" \
    "$(as eva protectfs unlock --passcode-file /home/eva/p /home/eva/Protected 2>&1; state eva)" "unlocked"
  printf other6 >/home/eva/new; chown eva /home/eva/new; chmod 600 /home/eva/new
  as eva protectfs passcode change --passcode-file /home/eva/p --new-passcode-file /home/eva/new /home/eva/Protected >/dev/null
  end_session chpasswd
  await eva 'not mounted' "unmounted"
  check "and a new one puts that right" "$(login_as eva other6 'protectfs status | head -1')" ": unlocked"
  await eva 'not mounted' "unmounted"
}

test_planted() {
  local directory password=$ana number
  begin_session ana "$password" planted
  directory=/run/protectfs-user/$(id -u ana)/protectfs
  as ana protectfs lock --now /home/ana/Protected
  # The user's process takes the daemon's sockets away, and puts its own in their place.
  as ana perl -MIO::Socket::UNIX -e '
    my ($directory, $outside) = @ARGV; my @names = glob("$directory/*.sock"); unlink @names;
    my $real = IO::Socket::UNIX->new(Local => $names[0], Listen => 9) or die;
    my $other = IO::Socket::UNIX->new(Local => $outside, Listen => 9) or die; symlink $outside, "$directory/link.sock";
    $SIG{ALRM} = sub { exit }; alarm 8; open my $log, ">", "/home/ana/stolen"; $log->autoflush;
    while (my $c = $real->accept) { print $log "connected\n"; while (read $c, my $b, 1) { print $log $b } }
  ' "$directory" "/tmp/planted-$$" &
  sleep 1
  echo "$password" | pamtester testlogin ana authenticate 'setcred(PAM_REFRESH_CRED)' >/tmp/planted 2>&1
  check "a planted socket: the locker says so" "$(cat /tmp/planted)" "could not be unlocked"
  echo "$password" | pamtester testlogin ana authenticate open_session close_session >/tmp/planted 2>&1
  check "a planted socket: the person gets in" "$(cat /tmp/planted)" "successfully opened a session"
  wait $!
  check "it is reached" "$(cat /home/ana/stolen)" "connected"
  check_not "it gets nothing" "$(cat /home/ana/stolen)" "$password"
  check_not "not even a call" "$(cat /home/ana/stolen)" "method"
  end_session planted
  systemctl stop protectfs-user@$(id -u ana)
  await ana 'not mounted' "the service ends all the same"
}

test_stopped() {
  local password=$ana start daemon
  begin_session ana "$password" stopped
  as ana protectfs lock --now /home/ana/Protected
  daemon=$(systemctl show -P MainPID protectfs-user@$(id -u ana))
  ((daemon > 1)) || { failed "the daemon does not run"; end_session stopped; return; }
  kill -STOP "$daemon"
  start=$SECONDS
  login_as eva other6 'echo in' >/dev/null &
  wait $!
  ((SECONDS - start < 5)) && ok "another user's login does not wait" || failed "another waited $((SECONDS - start)) s"
  start=$SECONDS
  echo "$password" | pamtester testlogin ana authenticate open_session close_session >/tmp/stopped 2>&1
  check "a daemon that is stopped keeps nobody out" "$(cat /tmp/stopped)" "successfully opened a session"
  ((SECONDS - start < 45)) && ok "for $((SECONDS - start)) s" || failed "it took $((SECONDS - start)) s"
  kill -CONT "$daemon"
  end_session stopped
  await ana 'not mounted' "unmounted"
}

test_without() {
  useradd -m -s /bin/bash tom
  echo tom:tom | chpasswd
  echo 'PS1="$ "' >/home/tom/.bashrc
  check "who has no store logs in" "$(login_as tom tom 'echo in')" "END-0"
  check "no unit is started" "$(systemctl is-active protectfs-user@$(id -u tom))" "inactive"
  mv /usr/bin/systemctl /usr/bin/systemctl.away
  check "without systemctl too" "$(login_as eva other6 'echo in' 2>&1)" "END-0"
  mv /usr/bin/systemctl.away /usr/bin/systemctl
}

test_disable() {
  check "disable" "$(as ana protectfs login disable)" "The store stays in /home/ana/.local/share/protectfs/store"
  check "twice" "$(as ana protectfs login disable)" "Nothing was mounted"
  login_as ana "$ana" true >/dev/null
  check "nothing is mounted" "$(systemctl is-active protectfs-user@$(id -u ana))" "inactive"
}

DEBIAN_FRONTEND=noninteractive pam-auth-update --package --enable protectfs
printf '@include common-auth\n@include common-account\n@include common-password\n@include common-session\n' >/etc/pam.d/testlogin
rm -f /etc/securetty /run/nologin
tests=(enable right wrong sessions busy lockers ssh passwd chpasswd planted stopped without disable)
(($#)) && tests=("$@")
for test in "${tests[@]}"; do
  echo "-- $test"
  "test_$test"
done
if ((failures)); then
  journalctl --no-pager -o short-precise --grep 'protectfs' | tail -60
fi
echo "$failures failed"
exit $((failures > 0))
