# Sourced by the tests that scripts/container-test.sh runs in a container: how they check, and what they make.

cd "$(mktemp -d)" || exit
failures=0

# Runs a command, which may be a function, and says how it ended; with what it printed where it failed.
check() {
  local what=$1
  shift
  if "$@" >checked 2>&1; then
    echo "ok      $what"
  else
    echo "failed  $what"
    sed 's/^/          /' checked
    failures=$((failures + 1))
  fi
}

# The last line of a test.
end_checks() { exit $((failures > 0)); }

# Repeats a command until it succeeds, for 90 seconds, or as many as `patience` says.
await() {
  local end=$((SECONDS + ${patience:-90}))
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.05
  done
}

# Compares what a command prints.
prints() {
  local expected=$1 found
  shift
  found=$("$@")
  [[ $found == "$expected" ]] || { echo "'$*' printed '$found', not '$expected'" && return 1; }
}

# Makes /srv/NAME.store with the passcode 'secret', and the mount point /srv/NAME.
make_store() {
  mkdir -p /etc/protectfs "/srv/$1"
  protectfs init --passcode-file <(echo secret) "/srv/$1.store" >/dev/null
}

is_mounted() { findmnt --mountpoint "$1" >/dev/null; }
is_not_mounted() { ! findmnt --mountpoint "$1"; }
# One line of what `protectfs status --json` says of a mount.
status_of() { protectfs status --json "$1" | sed -n 's/.*"'"$2"'" *: *"\{0,1\}\([A-Za-z0-9]*\).*/\1/p'; }
state_of() { status_of "$1" state; }
daemon_of() { status_of "$1" processID; }

# For expect(1): starts $PROGRAM, and waits until it asks for a password. The login of util-linux hangs its terminal up
# first, which looks like its end to who reads from the terminal just then.
start_program='
  proc start {} {
    global env spawn_id
    foreach attempt {1 2 3 4 5 6 7 8 9} {
      set process [spawn -noecho {*}$env(PROGRAM)]
      expect {
        "assword:" { return $process }
        eof { wait }
      }
    }
    puts "$env(PROGRAM) asks for no password"
    exit 1
  }'
