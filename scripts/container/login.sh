#!/bin/bash
# Logins with the PAM module: passcodes right, wrong, changed and expired, lockers, ssh, su, sudo, planted sockets, the last
# logout. Each test has a user of its own, whose name is the password; several run at the same time. Without names all tests
# are run.
source "$(dirname "$0")/checks.sh"
export LC_ALL=C.UTF-8

# Whether a text has another in it.
has() { [[ $1 == *"$2"* ]] || { echo "'$2' is not in: $1" && return 1; }; }
lacks() { [[ $1 != *"$2"* ]] || { echo "'$2' is in: $1" && return 1; }; }

# Runs a program as a user, without a session and without PAM.
as() {
  local user=$1
  shift
  setpriv --reuid "$user" --regid "$user" --init-groups env -i HOME="/home/$user" PATH="$PATH" LC_ALL="$LC_ALL" "$@"
}
# What the kernel has mounted of a user's: the lock state, or 'not mounted'.
login_state() {
  grep -q " /home/$1/Protected .* fuse.protectfs " /proc/self/mountinfo || { echo 'not mounted'; return; }
  as "$1" getfattr --only-values --absolute-names -n user.protectfs.state "/home/$1/Protected" 2>/dev/null
}
is_state() { prints "$2" login_state "$1"; }
unit_of() { echo "protectfs-$1@$(id -u "$2").service"; }
# Whether a store has counted a wrong passcode.
has_counted_nothing() { ! tr -d '\0' <"/home/$1/.local/share/protectfs/store/.protectfs/attempts" | grep -q .; }
lock() { as "$1" protectfs lock --now "/home/$1/Protected" >/dev/null; }

# Starts a program that asks for a password, types lines at what it asks with "assword:", runs a command at the shell's
# prompt, and logs out. Prints all that is seen.
type_at() {
  local command=$1 program=$2
  shift 2
  COMMAND=$command PROGRAM=$program ANSWERS=$(printf '%s\n' "$@") expect -c "$start_program"'
    set timeout 60
    set answers [split $env(ANSWERS) "\n"]
    if {[llength $answers]} { start } else { spawn -noecho {*}$env(PROGRAM) }
    foreach line $answers {
      if {[info exists isStarted]} { expect "assword:" }
      set isStarted 1
      send -- "$line\r"
    }
    expect {
      "incorrect" { puts "REFUSED"; exit 0 }
      -re {\$ $}
    }
    send -- "$env(COMMAND); echo END-\$?; exit\r"
    expect -re {END-[0-9]}
    expect eof' 2>&1
}
# Logs in at a terminal of its own: user, password, command.
login_as() { type_at "$3" "login $1" "$2"; }
# What a login finds: whether its store is unlocked.
login_unlocks() { has "$(login_as "$1" "$2" 'protectfs status | head -1')" "/home/$1/Protected: unlocked"; }

# Opens a session that lasts until end_session; the third argument names it.
begin_session() {
  rm -f "/tmp/end-$3"
  : >"/tmp/session-$3"
  PROGRAM="login $1" PASSWORD=$2 END=/tmp/end-$3 expect -c "$start_program"'
    set timeout 60
    exec echo [start] >$env(END).login
    send -- "$env(PASSWORD)\r"
    expect -re {\$ $}
    while {![file exists $env(END)]} { after 20 }
    send -- "exit\r"
    expect eof' >"/tmp/session-$3" 2>&1 &
  await sh -c "[ \"\$(tail -c 2 /tmp/session-$3)\" = '\$ ' ]"
}
end_session() { touch "/tmp/end-$1"; }
check_end() { check "${2-the last logout unmounts}" await is_state "$1" 'not mounted'; }

# Tries to log in with 20 wrong passwords; prints what was accepted.
wrong_logins() {
  local number tries=()
  for number in {1..20}; do
    (echo "wrong $number" | pamtester testlogin "$1" authenticate open_session close_session >/dev/null 2>&1 &&
      echo "$number") &
    tries+=($!)
  done
  wait "${tries[@]}"
}

# Writes a passcode into a file that a user can read; prints its path.
passcode_file() {
  install -o "$1" -m 600 <(echo "$2") "/home/$1/passcode-$2"
  echo "/home/$1/passcode-$2"
}

# A user whose name is the password.
add_user() {
  useradd -m -s /bin/bash "$1"
  echo "$1:$1" | chpasswd
  echo 'PS1="$ "' >"/home/$1/.bashrc"
  echo '. ~/.bashrc' >"/home/$1/.bash_profile"
}
# Turns a store on for a user. Without a session, what it mounts is unmounted at once.
enable() {
  as "$1" protectfs login enable --passcode-file "$(passcode_file "$1" "$1")" --recovery-key-file "/home/$1/r"
  await is_state "$1" 'not mounted'
}

test_enable() {
  local user=$1 seen minute
  check "status is off at first" has "$(as "$user" protectfs login status)" "Off:"
  # A session that is awaited has a minute.
  sleep 55 &
  minute=$!
  seen=$(login_as "$user" "$user" "umask 077; protectfs login enable --authenticated --recovery-key-file r --passcode-file $(
    passcode_file "$user" "$user"
  ); echo text >Protected/c")
  check "enable makes a store" has "$seen" "is mounted at /home/$user/Protected and unlocked"
  check "and mounts it at once" has "$seen" "It is mounted and unlocked already"
  check_end "$user" "a logout just after that is noticed"
  check "before a minute is over" kill "$minute"
  check "nothing is written where nothing is mounted" lacks \
    "$(as "$user" sh -c 'echo text >~/Protected/c && echo written' 2>&1)" written
  check "as it was wanted" has "$(as "$user" protectfs info "/home/$user/.local/share/protectfs/store")" "AES-256-GCM"
  check "status in JSON" has "$(as "$user" protectfs login status --json)" "\"mountPoint\" : \"/home/$user/Protected\""
  check "all parts are in place" as "$user" protectfs login status
  check "a store that is there is not taken with another passcode" has \
    "$(echo other | as "$user" protectfs login enable --no-check --passcode-file - 2>&1)" "has another passcode"
  check "nor one that is not the login's" has \
    "$(echo other | as "$user" protectfs login enable --passcode-file - 2>&1)" "does not open a session of $user"
  check "but with its own" as "$user" protectfs login enable --passcode-file "$(passcode_file "$user" "$user")"
  check_end "$user" "without a session it does not stay"
  check "root has none" has "$(protectfs login enable 2>&1)" "other than root"
  check "order of the modules" prints "pam_protectfs.so pam_systemd.so" \
    sh -c 'grep -ho "pam_\(protectfs\|systemd\).so" /etc/pam.d/common-session | xargs'
  begin_session "$user" "$user" enable
  check "a login unlocks" is_state "$user" unlocked
  check "disable" has "$(as "$user" protectfs login disable)" \
    "The store stays in /home/$user/.local/share/protectfs/store"
  check "twice" has "$(as "$user" protectfs login disable)" "Nothing was mounted"
  check "what is mounted stays so until the logout" is_state "$user" unlocked
  end_session enable
  check_end "$user"
  check "its unit ends" await eval '! systemctl --quiet is-active "$(unit_of user "$user")"'
  login_as "$user" "$user" true >/dev/null
  check "nothing is mounted then" prints inactive systemctl is-active "$(unit_of user "$user")"
  install -d -o "$user" -m 750 "/home/$user/full"
  touch "/home/$user/full/file"
  as "$user" protectfs login enable --no-check -o nonempty --recovery-key-file "/home/$user/other" \
    --passcode-file "$(passcode_file "$user" "$user")" "/home/$user/backing" "/home/$user/full" >/dev/null
  check "a directory with contents stays as it is" prints 750 stat -c %a "/home/$user/full"
  check "unlock says what mounts it" has "$(as "$user" protectfs unlock "/home/$user/full" 2>&1)" \
    "'protectfs login enable' mounts /home/$user/full"
  check "and without directories keeps those that are set" as "$user" protectfs login enable --no-check \
    --passcode-file "$(passcode_file "$user" "$user")"
  check "and their options" has "$(as "$user" protectfs login status)" "options  nonempty"
}

test_right() {
  local user=$1 seen
  enable "$user" >/dev/null
  # An entry of the password database that is longer than most.
  sed -i "s/^\($user:[^:]*:[^:]*:[^:]*:\)[^:]*/\1$(printf 'x%.0s' {1..6000})/" /etc/passwd
  seen=$(login_as "$user" "$user" 'protectfs status | head -1; echo text >Protected/c; cat Protected/c')
  check "a login unlocks before the prompt" has "$seen" "/home/$user/Protected: unlocked"
  check "and says nothing of it" lacks "$seen" protectfs:
  check_end "$user"
  install -d -o "$user" -g "$user" "/home/$user/.config/systemd/user/default.target.wants"
  printf '[Service]\nType=oneshot\nExecStart=/bin/sh -c "cat %s/Protected/c >%s/seen"\n' "/home/$user" "/home/$user" \
    >"/home/$user/.config/systemd/user/reader.service"
  ln -s ../reader.service "/home/$user/.config/systemd/user/default.target.wants/"
  # Until its manager of the former session has ended, no other starts.
  check "the user's services end" await prints inactive systemctl is-active "user@$(id -u "$user")"
  begin_session "$user" "$user" right
  check "a service of the user finds class C" await prints text cat "/home/$user/seen"
  end_session right
  check_end "$user"
  check "a wrong password is refused" has "$(login_as "$user" wrong true)" "incorrect"
  check "and mounts nothing" is_state "$user" "not mounted"
  # Without a session of logind's.
  echo 'session optional pam_protectfs.so' >/etc/pam.d/mounts
  pamtester mounts "$user" open_session <&- >&- 2>&-
  check "a program without standard descriptors has it mounted" is_state "$user" beforeFirstUnlock
  systemctl stop --quiet "$(unit_of user "$user")"
}

test_sessions() {
  local user=$1 number daemon watcher
  enable "$user" >/dev/null
  begin_session "$user" "$user" one
  begin_session "$user" "$user" two
  check "unlocked" is_state "$user" unlocked
  end_session one
  sleep 1
  check "the end of one session leaves it so" is_state "$user" unlocked
  end_session two
  check_end "$user" "the end of the other does not"
  begin_session "$user" "$user" killed
  kill -KILL "$(cat /tmp/end-killed.login)"
  check_end "$user" "a login that is killed ends its session too"
  end_session killed

  # Logins that follow closely, and so often that a limit of starts would be met.
  begin_session "$user" "$user" 0
  for number in {1..6}; do
    end_session $((number - 1))
    begin_session "$user" "$user" "$number"
    check "one after another: unlocked" is_state "$user" unlocked
  done

  echo "A login after the end of the last session, before it is seen:"
  watcher=$(systemctl show -P MainPID "$(unit_of logout "$user")")
  kill -STOP "${watcher/#0/none}"
  end_session "$number"
  sleep 0.3
  begin_session "$user" "$user" unseen
  check "  unlocks" is_state "$user" unlocked

  echo "A login that has unlocked, and whose session is not there yet, when the last session ends:"
  printf '%s\n' '@include common-auth' 'session optional pam_protectfs.so' \
    'session required pam_exec.so /usr/local/bin/slow' 'session required pam_systemd.so class=user' >/etc/pam.d/slowlogin
  printf '%s\n' '#!/bin/sh' 'touch /run/slow' 'until test -e /run/go; do sleep 0.05; done' >/usr/local/bin/slow
  chmod +x /usr/local/bin/slow
  rm -f /run/slow /run/go
  (echo "$user" | pamtester slowlogin "$user" authenticate open_session >/dev/null 2>&1) &
  login=$!
  await test -e /run/slow
  end_session unseen
  # For so long that a lock would have come.
  sleep 0.8
  check "  it stays unlocked" is_state "$user" unlocked
  touch /run/go
  wait "$login"
  check_end "$user" "  and ends with its session"

  echo "A login when the end of the last session has been seen:"
  begin_session "$user" "$user" unseen
  daemon=$(systemctl show -P MainPID "$(unit_of user "$user")")
  watcher=$(systemctl show -P MainPID "$(unit_of logout "$user")")
  kill -STOP "${daemon/#0/none}"
  end_session unseen
  # It blocks SIGTERM then.
  check "  it is" await grep -q 'SigBlk:.*[4567cdef]...$' "/proc/$watcher/status"
  (sleep 0.5 && kill -CONT "$daemon") &
  begin_session "$user" "$user" seen
  check "  unlocks" is_state "$user" unlocked
  sleep 0.5
  check "  and it stays so" is_state "$user" unlocked
  check "  another daemon serves it" test "$(systemctl show -P MainPID "$(unit_of user "$user")")" != "$daemon"
  end_session seen
  check_end "$user"
}

has_no_watch_left() { as "$1" timeout 0.2 tail -f /run/watched 2>&1 >/dev/null | grep -q 'inotify'; }

test_busy() {
  local user=$1
  enable "$user" >/dev/null
  login_as "$user" "$user" \
    "echo x >Protected/held; tmux new-session -d 'exec sleep 1000 <Protected/held'; sleep 1" >/dev/null
  check_end "$user" "a terminal multiplexer that holds a file does not keep it"
  check "no daemon is left" await sh -c "! pgrep -u $user -f 'login mount'"
  check "the holder is" pgrep -u "$user" -x sleep
  check "the next login mounts again" login_unlocks "$user" "$user"
  pkill -u "$user" tmux
  pkill -u "$user" -x sleep
  check_end "$user"
  # Watches are each user's, and limited (inotify(7)). tail(1) watches no file of an overlay.
  echo >>/run/watched
  as "$user" bash -c 'for ((n = $(cat /proc/sys/fs/inotify/max_user_instances); n > 0; n--)); do tail -f /run/watched & done' \
    >/dev/null 2>&1
  await has_no_watch_left "$user"
  check "with no watch left it is unlocked" login_unlocks "$user" "$user"
  check_end "$user" "and unmounted"
  pkill -u "$user" -x tail
  loginctl enable-linger "$user"
  check "with linger it is unlocked" login_unlocks "$user" "$user"
  check_end "$user" "and unmounted though the user's services go on"
  check "which they do" prints active systemctl is-active "user@$(id -u "$user")"
  loginctl disable-linger "$user"
}

test_lockers() {
  local user=$1
  enable "$user" >/dev/null
  begin_session "$user" "$user" lockers
  lock "$user"
  check "20 wrong passwords are refused" prints '' wrong_logins "$user"
  check "which count for nothing" has_counted_nothing "$user"
  check "and leave it locked" is_state "$user" locked
  echo "$user" | pamtester testlogin "$user" authenticate 'setcred(PAM_REFRESH_CRED)' >/dev/null 2>&1
  check "a locker of root's unlocks" is_state "$user" unlocked
  lock "$user"
  echo "$user" | as "$user" pamtester testlogin "$user" authenticate >/dev/null 2>&1
  check "a locker of the user's unlocks" is_state "$user" unlocked
  lock "$user"
  echo wrong | as "$user" pamtester testlogin "$user" authenticate >/dev/null 2>&1
  check "not with a wrong password" is_state "$user" locked
  check "which does not count" has_counted_nothing "$user"

  check "the user's processes cannot say that a login has accepted a passcode" has "$(as "$user" perl -MIO::Socket::UNIX -e '
    my ($path) = grep { !/backing=/ } glob("$ARGV[0]/*.sock"); my $c = IO::Socket::UNIX->new($path) or die; local $/ = "\0";
    print $c "{\"method\":\"org.protectfs.Daemon.Unlock\",\"parameters\":{\"login\":true,\"passcode\":\"x\"}}\0";
    $c->flush; my $reply = <$c>; chop $reply; print $reply' "/run/protectfs-user/$(id -u "$user")/protectfs")" \
    '"parameter":"login"'

  echo "$user ALL=(ALL) ALL" >"/etc/sudoers.d/$user"
  check "su works" has "$(as other expect -c "spawn -noecho su $user -c {echo became}
    expect assword:; send $user\\r; expect eof" 2>&1)" became
  check "and does not unlock" is_state "$user" locked
  check "sudo works" has "$(as "$user" expect -c "spawn -noecho sudo -k echo became
    expect $user:; send $user\\r; expect eof" 2>&1)" became
  check "and does not unlock" is_state "$user" locked
  check "cron works" pamtester cron "$user" open_session close_session
  check "nor does it unlock" is_state "$user" locked
  end_session lockers
  check_end "$user" "the session ends"
}

test_ssh() {
  local user=$1 seen home=/home/$1
  local options="-tt -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
  enable "$user" >/dev/null
  as "$user" mkdir -m 700 "$home/.ssh"
  as "$user" ssh-keygen -q -t ed25519 -N '' -f "$home/.ssh/id_ed25519"
  as "$user" cp "$home/.ssh/id_ed25519.pub" "$home/.ssh/authorized_keys"
  check "ssh starts" systemctl start ssh
  seen=$(type_at 'protectfs status | head -1' "ssh $options -i $home/.ssh/id_ed25519 $user@127.0.0.1")
  check "by key: mounted" has "$seen" "$home/Protected: "
  check "not unlocked" lacks "$seen" ": unlocked"
  check "and says how to unlock" has "$seen" "'protectfs unlock $home/Protected' unlocks it"
  check_end "$user"
  # shellcheck disable=SC2086
  check "a session of an instant" ssh ${options/-tt/} -i "$home/.ssh/id_ed25519" "$user@127.0.0.1" true
  check_end "$user"
  # By password, at this server, and by way of another process, as a server that asks in its own way has it.
  options+=" -o PubkeyAuthentication=no $user@127.0.0.1"
  seen=$(type_at 'protectfs status | head -1' "ssh $options" "$user")
  check "by password: unlocked" has "$seen" "$home/Protected: unlocked"
  check_end "$user"
  printf 'KbdInteractiveAuthentication yes\nPasswordAuthentication no\n' >/etc/ssh/sshd_config.d/kbd.conf
  systemctl restart ssh
  seen=$(type_at true "ssh $options" "$user")
  check "by keyboard-interactive: it says how to unlock" has "$seen" "'protectfs unlock $home/Protected' unlocks it"
  check_end "$user"
}

# Runs passwd(1) as a user; prints what is seen.
passwd_as() {
  as "$1" expect -c "spawn -noecho passwd; expect Current; send $2\\r; expect {New password:}; send $3\\r
    expect Retype; send $3\\r; expect eof" 2>&1
}
test_passwd() {
  local user=$1 seen
  enable "$user" >/dev/null
  begin_session "$user" "$user" passwd
  seen=$(passwd_as "$user" "$user" Better4711)
  check "passwd succeeds" has "$seen" "updated successfully"
  check "and says nothing of the store" lacks "$seen" "stays what it was"
  end_session passwd
  check_end "$user"
  check "the new password unlocks" login_unlocks "$user" Better4711
  check_end "$user"

  echo "Of a store that is not mounted:"
  seen=$(passwd_as "$user" Better4711 Better4712)
  check "  passwd succeeds" has "$seen" "updated successfully"
  check "  and says nothing of the store" lacks "$seen" "stays what it was"
  check "  the new password unlocks" login_unlocks "$user" Better4712
  check_end "$user"

  echo "A new password that pam_unix cannot write:"
  # Another program that replaces the file takes the mount point away (rename(2)).
  seen=$(flock /run/shadow unshare --mount bash -c "$(declare -f as passwd_as)
    mount --bind /etc/shadow /etc/shadow && passwd_as \"\$@\"" bash "$user" Better4712 Better4799)
  check "  passwd fails" has "$seen" "unchanged"
  check "  the password unlocks that counts" login_unlocks "$user" Better4712
  check_end "$user"

  echo "A password that has expired:"
  chage -d 0 "$user"
  seen=$(type_at 'protectfs status | head -1' "login $user" Better4712 Better4712 Better4713 Better4713)
  check "  the login unlocks" has "$seen" "/home/$user/Protected: unlocked"
  check "  and says nothing of the store" lacks "$seen" "stays what it was"
  check_end "$user"
  check "  the new password unlocks" login_unlocks "$user" Better4713
  check_end "$user"

  echo "Where it cannot be mounted:"
  systemctl mask --quiet --runtime "$(unit_of user "$user")"
  seen=$(passwd_as "$user" Better4713 Better4714)
  check "  passwd succeeds" has "$seen" "updated successfully"
  check "  and says what to do" has "$seen" "passcode change /home/$user/.local/share/protectfs/store' changes it"
  check "  a login goes on" has "$(login_as "$user" Better4714 'echo in')" END-0
  systemctl unmask --quiet --runtime "$(unit_of user "$user")"
  check "  what it says works" as "$user" protectfs passcode change \
    --passcode-file "$(passcode_file "$user" Better4713)" --new-passcode-file "$(passcode_file "$user" Better4714)" \
    "/home/$user/.local/share/protectfs/store"
  check "  the new password unlocks" login_unlocks "$user" Better4714
  check_end "$user"
}

# With a store that is erased by four wrong passcodes.
test_chpasswd() {
  local user=$1 seen number
  as "$user" mkdir -p -m 700 "/home/$user/.local/share/protectfs"
  as "$user" protectfs init --erase-after 4 --passcode-file "$(passcode_file "$user" "$user")" --recovery-key-file "/home/$user/r" \
    "/home/$user/.local/share/protectfs/store" >/dev/null
  as "$user" protectfs login enable --passcode-file "$(passcode_file "$user" "$user")" >/dev/null
  check "20 wrong passwords are refused" prints '' wrong_logins "$user"
  check "and do not erase a store that four would" login_unlocks "$user" "$user"
  check_end "$user"
  for number in {1..6}; do
    echo "$user:other$number" | flock /run/shadow chpasswd >/dev/null 2>&1
    seen=$(login_as "$user" "other$number" 'protectfs status | head -1')
  done
  check "after root's chpasswd a login is told" has "$seen" "its passcode is not the login passcode"
  check "gets in" has "$seen" "END-0"
  check "and finds it locked" lacks "$seen" ": unlocked"
  check "six such logins count for nothing" has_counted_nothing "$user"
  begin_session "$user" other6 chpasswd
  as "$user" protectfs unlock --passcode-file "$(passcode_file "$user" "$user")" "/home/$user/Protected"
  check "the old passcode opens it still" is_state "$user" unlocked
  check "and is changed" as "$user" protectfs passcode change --passcode-file "$(passcode_file "$user" "$user")" \
    --new-passcode-file "$(passcode_file "$user" other6)" "/home/$user/Protected"
  end_session chpasswd
  check_end "$user"
  check "which puts that right" login_unlocks "$user" other6
  check_end "$user"
}

test_planted() {
  local user=$1 directory planter
  directory=/run/protectfs-user/$(id -u "$user")/protectfs
  enable "$user" >/dev/null
  begin_session "$user" "$user" planted
  lock "$user"
  # The user's process takes the daemon's sockets away, and puts its own in their place.
  as "$user" perl -MIO::Socket::UNIX -e '
    my ($directory) = @ARGV; my @names = glob("$directory/*.sock"); unlink @names;
    my $real = IO::Socket::UNIX->new(Local => $names[0], Listen => 9) or die;
    open my $log, ">", "$ENV{HOME}/stolen"; $log->autoflush; print $log "listens\n";
    while (my $c = $real->accept) { print $log "connected\n"; while (read $c, my $b, 1) { print $log $b } }
  ' "$directory" &
  planter=$!
  check "a planted socket is there" await grep -q listens "/home/$user/stolen"
  check "a socket in root's directory can be neither removed nor replaced" \
    as "$user" sh -c "! rm -f $directory/../../\$(id -u).socket && ! mv $directory/*.sock $directory/../../\$(id -u).socket"
  echo "$user" | pamtester testlogin "$user" authenticate 'setcred(PAM_REFRESH_CRED)' >/dev/null 2>&1
  check "a locker unlocks all the same" is_state "$user" unlocked
  check "the planted socket gets nothing" prints listens cat "/home/$user/stolen"
  end_session planted
  check_end "$user"
  check "nor does it at the logout" prints listens cat "/home/$user/stolen"
  kill $planter
  wait $planter 2>/dev/null

  # A mount of the user's in the place of the directory, which does not answer.
  begin_session "$user" "$user" hanging
  lock "$user"
  echo user_allow_other >>/etc/fuse.conf
  as "$user" protectfs init --passcode-file "$(passcode_file "$user" "$user")" --recovery-key-file "/home/$user/r2" \
    "/home/$user/s" >/dev/null
  as "$user" protectfs mount -o allow_other,nonempty "/home/$user/s" "$directory"
  check "a mount over the sockets is there" is_mounted "$directory"
  pkill -STOP -u "$user" -f "mount -o allow_other"
  echo "$user" | timeout 20 pamtester testlogin "$user" authenticate open_session close_session >/dev/null 2>&1
  check "a login unlocks all the same" is_state "$user" unlocked
  check "the service ends" timeout 20 systemctl stop "$(unit_of user "$user")"
  check "and systemd does not wait for the mount" timeout 20 systemctl daemon-reload
  check "nothing is mounted" is_state "$user" 'not mounted'
  check "no socket is left" await test ! -e "/run/protectfs-user/$(id -u "$user").socket"
  pkill -CONT -u "$user" -f "mount -o allow_other"
  umount "$directory"
  end_session hanging
}

test_stopped() {
  local user=$1 start daemon
  enable "$user" >/dev/null
  begin_session "$user" "$user" stopped
  lock "$user"
  daemon=$(systemctl show -P MainPID "$(unit_of user "$user")")
  check "the daemon runs" test "$daemon" -gt 1
  kill -STOP "${daemon/#0/none}"
  enable second >/dev/null
  start=$SECONDS
  echo "$user" | pamtester testlogin "$user" authenticate open_session close_session >opened 2>&1 &
  check "another user's login" login_unlocks second second
  check "does not wait for a daemon that is stopped" lacks "$(cat opened)" "opened a session"
  wait $!
  check "which keeps nobody out" has "$(cat opened)" "successfully opened a session"
  check "for long" test $((SECONDS - start)) -lt 30
  kill -CONT "$daemon"
  end_session stopped
  check_end "$user"
}

# Alone: what all use is not there.
test_without() {
  local user=$1
  check "who has no store logs in" has "$(login_as other other 'echo in')" "END-0"
  check "no unit is started" prints inactive systemctl is-active "$(unit_of user other)"
  enable "$user" >/dev/null
  mv /usr/bin/systemctl /usr/bin/systemctl.away
  check "without systemctl too" has "$(login_as "$user" "$user" 'echo in' 2>&1)" "END-0"
  mv /usr/bin/systemctl.away /usr/bin/systemctl

  echo "logind:"
  begin_session "$user" "$user" logind
  check "  a login unlocks" is_state "$user" unlocked
  systemctl restart systemd-logind
  sleep 1
  check "  it is started again, and the session goes on" is_state "$user" unlocked
  systemctl mask --quiet --runtime systemd-logind
  systemctl stop systemd-logind
  systemctl restart "$(unit_of logout "$user")"
  sleep 1
  check "  it does not run, and no session counts as ended" is_state "$user" unlocked
  systemctl unmask --quiet --runtime systemd-logind
  systemctl start systemd-logind
  sleep 1
  check "  it runs again" is_state "$user" unlocked
  # Restarted, the service awaits a session.
  begin_session "$user" "$user" awaited
  end_session awaited
  end_session logind
  check_end "$user"
}

# Runs tests at the same time, each with its checks together; prints these in the order of their ends.
run_together() {
  local test
  for test in "$@"; do
    (
      cd "$(mktemp -d)" || exit
      start=$SECONDS
      {
        echo "-- $test"
        "test_$test" "u-$test"
        echo "Took $((SECONDS - start)) s."
      } >seen 2>&1
      flock /run/tests cat seen
      end_checks
    ) &
  done
  for test in "$@"; do wait -n || failures=$((failures + 1)); done
}

DEBIAN_FRONTEND=noninteractive pam-auth-update --package --enable protectfs
printf '@include common-auth\n@include common-account\n@include common-password\n@include common-session\n' >/etc/pam.d/testlogin
rm -f /etc/securetty /run/nologin
tests=(ssh passwd chpasswd sessions busy lockers planted stopped right enable without)
(($#)) && tests=("$@")
for test in "${tests[@]}"; do add_user "u-$test"; done
add_user other
add_user second
together=() alone=()
for test in "${tests[@]}"; do
  if [[ $test == without ]]; then alone+=("$test"); else together+=("$test"); fi
done
((${#together[@]} == 0)) || run_together "${together[@]}"
((${#alone[@]} == 0)) || run_together "${alone[@]}"
if ((failures)); then
  journalctl --no-pager -o short-precise --grep 'protectfs' | tail -60
fi
end_checks
