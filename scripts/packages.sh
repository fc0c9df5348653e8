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
  install_packages "${build_packages[@]}" "$@"
}
build_packages=(libfuse3-dev fuse3 libssl-dev libtss2-dev libsystemd-dev libpam0g-dev pkg-config)
package_tools=(build-essential debhelper lintian)

# What scripts/install.sh says that protectfs runs on, and what is built with Swift.
runtime_packages=libssl3,libtss2-esys-3.0.2-0,libtss2-tctildr0,libtss2-rc0,libsystemd0,libstdc++6

# The release of Debian that this machine has.
machine_release() (source /etc/os-release && echo "${VERSION_CODENAME:-unknown}")

# Makes the root file system DIRECTORY of Debian 12, or of another RELEASE, with these PACKAGES, separated by commas, unless
# it is there.
make_root() (
  root=$1 packages=$2 release=${3:-bookworm}
  mkdir -p "$(dirname "$root")"
  exec 9>"$root.lock"
  flock 9
  [[ $(cat "$root/.packages" 2>/dev/null) != "$packages" ]] || return 0
  install_packages mmdebstrap || return
  echo "Making the root file system $root" >&2
  rm -rf "$root" "$root.new"
  mmdebstrap --quiet --variant=minbase --include="$packages" "$release" "$root.new" >&2 || return
  echo "$packages" >"$root.new/.packages"
  mv "$root.new" "$root"
)

# Runs a command in the root file system of a RELEASE in which packages are built; this directory and the Swift toolchain of
# this machine are at the same places there. Needs root.
in_release() {
  local root=$PWD/.build/release-$1 toolchain packages
  shift
  toolchain=$(realpath "$(command -v swift)")
  toolchain=${toolchain%/usr/bin/*}
  [[ -n $toolchain ]] || {
    echo "Swift is installed in /usr, which another release cannot share: unpack a toolchain elsewhere" >&2
    return 1
  }
  packages=$(IFS=, && echo "${build_packages[*]},${package_tools[*]}"),git,libxml2,libcurl4,libsqlite3-0,libncurses6
  make_root "$root" "$packages" "${root##*-}"
  # shellcheck disable=SC2016
  unshare --mount --fork sh -euc '
    root=$1 toolchain=$2
    shift 2
    # First: the project may be below /tmp.
    mount -t tmpfs tmpfs "$root/tmp"
    mkdir -p "$root$PWD" "$root$toolchain"
    mount --bind "$PWD" "$root$PWD"
    mount --bind -o ro "$toolchain" "$root$toolchain"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" env -i HOME=/root LC_ALL=C.UTF-8 PATH="$toolchain/usr/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
      sh -c "cd \"\$1\" && shift && exec \"\$@\"" sh "$PWD" "$@"' sh "$root" "$toolchain" "$@"
}

# Installs a PROTECTFS that was built in the root file system ROOT, with those of its libraries that are not there; one that
# was built for another RELEASE, with what that has.
install_into() {
  local root=$1 protectfs=$2 release=${3:-$(machine_release)}
  if [[ $release != $(machine_release) ]]; then
    local staging=$PWD/.build/$release/installation
    rm -rf "$staging"
    in_release "$release" env DESTDIR="$staging" PROTECTFS="$protectfs" scripts/install.sh >/dev/null
    # The root has links in the place of /sbin and /lib.
    tar --create --directory "$staging" . | tar --extract --directory "$root" --keep-directory-symlink
    return
  fi
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
