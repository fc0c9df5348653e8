# Sourced by the other scripts: how they begin, and how they do several things at a time.

# Shows the comment at the head of the script as its usage, and ends.
show_head() {
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
  exit 64
}

# Installs Debian packages that are missing, as root or with sudo.
install_packages() {
  local missing=()
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  local sudo=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || {
      echo "Missing packages: ${missing[*]}. Install them as root: apt-get install ${missing[*]}" >&2
      return 1
    }
    sudo=(sudo)
  fi
  echo "Installing ${missing[*]}" >&2
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Finds Swift, and installs what protectfs is built with and runs on, and the packages named.
prepare_build() {
  command -v swift >/dev/null || {
    echo "A Swift 6.2 or later toolchain is needed: https://www.swift.org/install/linux/" >&2
    return 1
  }
  install_packages libfuse3-dev fuse3 libssl-dev libtss2-dev libsystemd-dev libpam0g-dev pkg-config "$@"
}

# Runs a script in a shell of its own, with the arguments that follow it, and shows what it said when it has ended, while
# no other of the kind does. The first argument is a directory for that.
run_quietly() {
  local directory=$1 script=$2 log ended=0
  shift 2
  log=$(mktemp "$directory/job.XXXXXX")
  bash -euo pipefail -c "$script" job "$@" >"$log" 2>&1 || ended=$?
  flock "$directory/jobs.lock" cat "$log"
  rm -f "$log"
  return "$ended"
}
