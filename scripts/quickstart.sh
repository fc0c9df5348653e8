#!/bin/bash
# From a bare Debian 12 or 13 with a Swift toolchain to a mounted protected directory, and a tour of lock and unlock.
#
#   scripts/quickstart.sh [--passcode-file FILE] [BACKING MOUNTPOINT]
#
# BACKING (default ~/.protected) keeps the encrypted files, MOUNTPOINT (default ~/Protected) shows them in the clear.
# Run again, it goes on with what is there. The mount stays when the tour is over.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/scripts/packages.sh"

usage() { sed -n '2,7s/^# \{0,1\}//p' "$0"; }
passcode=()
places=()
while (($#)); do
  case $1 in
    --passcode-file) passcode=(--passcode-file "$(realpath "${2:?--passcode-file needs a file}")"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    -*) echo "quickstart: unknown option $1" >&2; usage >&2; exit 64 ;;
    *) places+=("$1"); shift ;;
  esac
done
case ${#places[@]} in
  0) places=("$HOME/.protected" "$HOME/Protected") ;;
  2) ;;
  *) usage >&2; exit 64 ;;
esac
if ((!${#passcode[@]})) && ! [[ -t 0 ]]; then
  echo "quickstart: there is no terminal to ask for a passcode on; give --passcode-file FILE" >&2
  exit 64
fi

prepare_build attr xxd

echo "Building protectfs (the first time takes a few minutes)"
(cd "$here" && swift build -c release --product protectfs --static-swift-stdlib 2>&1 | tail -n 1)
protectfs="$(cd "$here" && swift build -c release --static-swift-stdlib --show-bin-path)/protectfs"

mkdir -p "${places[@]}"
backing=$(realpath "${places[0]}")
mountpoint=$(realpath "${places[1]}" 2>/dev/null || echo "${places[1]}")

if ((EUID != 0)) && ! [[ -r /dev/fuse && -w /dev/fuse ]]; then
  echo "quickstart: you may not use /dev/fuse; as root: chmod 666 /dev/fuse (udev does this where it runs)" >&2
  exit 1
fi
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '\033[2m$ %s\033[0m\n' "$*"; "$@"; }

if ! [[ -e $backing/.protectfs/keybag ]]; then
  say "A new store. Keep the recovery key that it prints: it opens the store when all else is lost."
  run "$protectfs" init "$backing" "${passcode[@]}"
fi
if mountpoint -q "$mountpoint"; then
  if [[ $(findmnt -no SOURCE --mountpoint "$mountpoint" | tail -n 1) != "$backing" ]]; then
    echo "quickstart: something else than $backing is mounted at $mountpoint; give two other directories" >&2
    exit 1
  fi
else
  say "Mount it. Nobody has unlocked it yet, so only class none could be read."
  run "$protectfs" mount "$backing" "$mountpoint"
fi
say "Unlock it."
run "$protectfs" unlock "$mountpoint" "${passcode[@]}"

say "Write a file, and look at what the disk has of it."
tour=$(mktemp -d "$mountpoint/tour.XXXXXX")
note="$tour/note.txt"
echo "my secret" >"$note"
run cat "$note"
newest=$(find "$backing" -name .protectfs -prune -o -type f -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-)
run xxd "$newest"

say "Give it the class complete, keep it open, and lock: it is gone at once, for everyone."
run setfattr -n user.protectfs.class -v complete "$note"
exec {held}<"$note"
run "$protectfs" lock --now "$mountpoint"
run cat "$note" || true
printf '\033[2m$ cat <&%s    # a descriptor opened before the lock\033[0m\n' "$held"
cat <&"$held" || true
exec {held}<&-
run "$protectfs" status "$note" || true

say "Other things go on: class completeUntilFirstUserAuthentication, the default, stays readable."
unlocked="$tour/music.txt"
echo "music plays on" >"$unlocked"
run cat "$unlocked"

say "Unlock, and it is back."
run "$protectfs" unlock "$mountpoint" "${passcode[@]}"
run cat "$note"

cat <<END

The directory $mountpoint stays mounted; the files of this tour are in $tour.
  lock:     $protectfs lock $mountpoint
  unlock:   $protectfs unlock $mountpoint
  unmount:  $protectfs unmount $mountpoint
END
