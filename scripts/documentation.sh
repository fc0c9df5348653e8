#!/bin/bash
# Makes the documentation of the public library from its sources, and compares its interface with the last version's.
#
#   scripts/documentation.sh                 .build/documentation, a DocC archive; fails for a link that leads nowhere
#   scripts/documentation.sh --new-baseline  also takes the interface as it is for the one to compare with: with a release
#
# What breaks the interface fails, unless Documentation/api-breaks.txt names it: a list for the next major version.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
[[ $# -eq 0 || ($# -eq 1 && $1 == --new-baseline) ]] || show_head

prepare_build
swift build --target DataProtection
built=$(swift build --show-bin-path)
options=(
  -I "$built/Modules" -target "$(uname -m)-unknown-linux-gnu"
  -Xcc "-fmodule-map-file=$built/CProtectfsIO.build/module.modulemap"
  -Xcc "-fmodule-map-file=.build/checkouts/swift-system/Sources/CSystem/include/module.modulemap"
)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

printf '\n== Documentation\n'
mkdir "$work/graphs"
swift symbolgraph-extract -module-name DataProtection "${options[@]}" -minimum-access-level public \
  -skip-synthesized-members -emit-extension-block-symbols \
  -experimental-allowed-reexported-modules=DataProtectionEssentials,ProtectfsClient,ProtectfsPolicy \
  -output-dir "$work/graphs"
docc convert Sources/DataProtection/DataProtection.docc --additional-symbol-graph-dir "$work/graphs" \
  --fallback-display-name DataProtection --fallback-bundle-identifier org.protectfs.DataProtection \
  --output-dir .build/documentation --warnings-as-errors

printf '\n== Interface\n'
baseline=Documentation/api-baseline.json.gz
swift-api-digester -dump-sdk -module DataProtection -module DataProtectionEssentials -module ProtectfsClient \
  -module ProtectfsPolicy "${options[@]}" -avoid-location -abort-on-module-fail -o "$work/all.json"
# Programs do not see what is only the package's.
public() {
  python3 -c '
import json, sys
def strip(node):
    node["children"] = [strip(child) for child in node.get("children", []) if not child.get("isInternal")]
    return node
interface = json.load(sys.stdin)
strip(interface["ABIRoot"])
json.dump(interface, sys.stdout)'
}
public <"$work/all.json" >"$work/api.json"
if [[ ${1:-} == --new-baseline ]]; then gzip -9 -n <"$work/api.json" >"$baseline"; fi
gunzip <"$baseline" | public >"$work/baseline.json"
swift-api-digester -diagnose-sdk --input-paths "$work/baseline.json" --input-paths "$work/api.json" \
  -breakage-allowlist-path Documentation/api-breaks.txt -o "$work/breaks"
# Its headings are comments. A line that ends in a blank is one that it does not find in the list itself.
trimmed() { sed 's/ *$//' "$@"; }
if trimmed "$work/breaks" | grep -v -E '^(/\*.*\*/)?$' | grep -vxF -f <(trimmed Documentation/api-breaks.txt); then
  echo "The interface of DataProtection is broken by these; see Documentation/api-breaks.txt." >&2
  exit 1
fi
echo "Nothing that programs use has gone or changed."
