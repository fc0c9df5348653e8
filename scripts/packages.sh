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

# What scripts/install.sh says that protectfs runs on, and what is built with Swift.
runtime_packages=libssl3,libtss2-esys-3.0.2-0,libtss2-tctildr0,libtss2-rc0,libsystemd0,libstdc++6

# Makes the root file system DIRECTORY of Debian 12 with these PACKAGES, separated by commas, unless it is there.
make_root() (
  root=$1 packages=$2
  mkdir -p "$(dirname "$root")"
  exec 9>"$root.lock"
  flock 9
  [[ $(cat "$root/.packages" 2>/dev/null) != "$packages" ]] || return 0
  install_packages mmdebstrap || return
  echo "Making the root file system $root" >&2
  rm -rf "$root" "$root.new"
  mmdebstrap --quiet --variant=minbase --include="$packages" bookworm "$root.new" >&2 || return
  echo "$packages" >"$root.new/.packages"
  mv "$root.new" "$root"
)

# Installs a PROTECTFS that was built in the root file system ROOT, with those of its libraries that are not there.
install_into() {
  local root=$1 protectfs=$2
  DESTDIR=$root PROTECTFS=$protectfs scripts/install.sh >/dev/null
  ldd "$protectfs" | sed -n 's/.* => \(\/.*\) (.*/\1/p' | while read -r library; do
    [[ -e $root$library ]] || install -D "$(realpath "$library")" "$root$library"
  done
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
