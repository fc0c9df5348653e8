#!/bin/bash
# What apps link is to be built with the static Linux SDK too, whose C library is musl: builds it with an SDK that is
# installed. Without one, compiles its C, and looks for its other calls in Debian's musl, which is older than the SDK's.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
prepare_build musl-tools

printf '\n== musl: C\n'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in Sources/CProtectfsIO/*.c Sources/CProtectfsTesting/*.c; do
  module=$(basename "$(dirname "$file")")
  mkdir -p "$work/$module"
  # The kernel's headers are Debian's.
  musl-gcc -std=gnu11 -DDEBUG -Wall -Wextra -Werror -ISources/"$module"/include \
    -idirafter /usr/include -idirafter "/usr/include/$(gcc -print-multiarch)" -c -o "$work/$module/$(basename "$file").o" "$file"
done

printf '\n== musl: functions that Swift calls\n'
# As scripts/test.sh builds it: with other settings, all would be built anew.
export PROTECTFS_STRICT=1
swift build --target DataProtectionEssentials
built=$(swift build --show-bin-path)
objects=("$work"/CProtectfsIO/*.o)
for module in ProtectfsLibc ProtectfsIO ProtectfsPolicy ProtectfsClient DataProtectionEssentials; do
  for source in $(find Sources/"$module" -name '*.swift'); do
    # Files that are glibc's as a whole.
    grep -q '^#if canImport(Glibc)$' "$source" || objects+=("$built/$module.build/$(basename "$source").o")
  done
done
nm --defined-only "${objects[@]}" "/usr/lib/$(uname -m)-linux-musl/libc.a" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >"$work/defined"
# Symbols of Swift, and of its runtime, are no functions of C.
nm -u "${objects[@]}" | awk 'NF == 2 { print $2 }' | sort -u |
  grep -vE '^(\$s|_?_?swift|_GLOBAL_OFFSET_TABLE_)' >"$work/called"
if comm -23 "$work/called" "$work/defined" | grep .; then
  echo "musl has none of these; Sources/CProtectfsIO/musl.c is the place for what it lacks." >&2
  exit 1
fi

printf '\n== musl: Swift\n'
sdk=$(swift sdk list 2>/dev/null | grep -m 1 -i musl || true)
if [[ -z $sdk ]]; then
  echo "Skipped: a build with the static Linux SDK. None is installed ('swift sdk list')." >&2
else
  swift build --scratch-path .build/musl --swift-sdk "$sdk" --product DataProtectionEssentials
  swift build --scratch-path .build/musl --swift-sdk "$sdk" --product DataProtection
fi
