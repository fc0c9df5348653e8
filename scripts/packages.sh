# Sourced by the other scripts: installs Debian packages that are missing, as root or with sudo.

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

# What protectfs is built with and runs on.
build_packages=(libfuse3-dev fuse3 libssl-dev libtss2-dev pkg-config)

require_swift() {
  command -v swift >/dev/null || {
    echo "A Swift 6.2 or later toolchain is needed: https://www.swift.org/install/linux/" >&2
    return 1
  }
}
