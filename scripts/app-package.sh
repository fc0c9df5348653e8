#!/bin/bash
# The package as an app has it: one that depends on it by URL, on a machine without the daemon's libraries, fetches nothing
# of the command's, is warned of nothing, and may have modules of any of its names. Shows the sizes of static programs.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
prepare_build git binutils

work=$(mktemp -d /var/tmp/protectfs-app.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/protectfs" "$work/app" "$work/bin"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  if [[ -e $file || -L $file ]]; then printf '%s\0' "$file"; fi
done | tar --create --null --files-from=- | tar --extract --directory="$work/protectfs"
commit=(-c user.name=app -c user.email=app@localhost commit --quiet --all --message "As it is")
git -C "$work/protectfs" init --quiet
git -C "$work/protectfs" add --all
git -C "$work/protectfs" "${commit[@]}"
git -C "$work/protectfs" tag 1.0.0
# No library that pkg-config knows.
printf '#!/bin/sh\nexit 1\n' >"$work/bin/pkg-config"
chmod 755 "$work/bin/pkg-config"

cp -r scripts/app-package/. "$work/app"
# A module of each name that the command and the tests have.
names=$(swift package dump-package | python3 -c '
import json, sys
for target in json.load(sys.stdin)["targets"]:
    if not target["name"].startswith(("DataProtection", "Protectfs", "CProtectfs")):
        print(target["name"])')
for name in $names; do
  mkdir -p "$work/app/Sources/$name"
  echo "public let name = \"$name\"" >"$work/app/Sources/$name/Name.swift"
done
export PROTECTFS_URL="file://$work/protectfs" NAMES="${names//$'\n'/ }"

build() { PATH="$work/bin:$PATH" swift build --package-path "$work/app" --disable-index-store "$@"; }

build_static() { build -c release --static-swift-stdlib -Xlinker --gc-sections "$@"; }

printf '\n== An app: what it fetches, and its modules\n'
build_static --product app 2>&1 | tee "$work/log"
# What SwiftPM says of its own caches is not the package's, nor is what glibc's linker says of mktemp(3) in Foundation.
if grep 'warning:' "$work/log" | grep -v -e ' cache' -e mktemp; then exit 1; fi
fetched=$(cd "$work/app/.build/checkouts" && echo *)
if [[ $fetched != "protectfs swift-system" ]]; then
  echo "Fetched: $fetched" >&2
  exit 1
fi

printf '\n== Static programs, stripped\n'
for product in foundation essentials app; do
  build_static --product "$product" >"$work/log" 2>&1 || { cat "$work/log" >&2 && exit 1; }
  strip -o "$work/$product.static" "$(build_static --show-bin-path)/$product"
  printf '%-12s %6.1f MB\n' "$product" "$(($(stat -c %s "$work/$product.static") / 100000))e-1"
  "$work/$product.static" "$work/note" | sed 's/^/             /'
done
if (($(stat -c %s "$work/essentials.static") > 16000000)); then
  echo "A program on FoundationEssentials takes more than 16 MB." >&2
  exit 1
fi
