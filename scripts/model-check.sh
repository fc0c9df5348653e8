#!/bin/bash
# Random calls on mounts that are locked, unlocked, mounted again and killed, against a model in memory, for a long time.
# Each run has a seed, which it prints; on a difference it prints the last calls as well, and ends with 1.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
Usage: scripts/model-check.sh [--seconds N] [--seed S]... [--seeds COUNT] [--workers N] [--jobs N] [--no-crashes]
                              [--operations N] [--every N] [--trace N]

  --seconds N     how long each run goes (60)
  --seed S        a seed; may be given several times
  --seeds COUNT   so many random seeds (1, where none is given)
  --workers N     threads, each with files of its own in one mount, locked and killed under them (1)
  --jobs N        runs at a time (1)
  --no-crashes    never kill the daemon

To find where a run went wrong, give its seed once more with --operations N, the number of the last call, and --every 1,
which compares the whole tree after each call; --trace N tells the last N calls.
END
}

seeds=() count=0 jobs=1
number() { [[ ${1:-} =~ ^[0-9]+$ ]] || { usage >&2; exit 64; }; }
export PROTECTFS_MODEL_SECONDS=60
while (($#)); do
  case $1 in
    --no-crashes) export PROTECTFS_MODEL_CRASHES=0; shift; continue ;;
    --help | -h) usage; exit ;;
    --seed | --seeds | --jobs | --seconds | --workers | --operations | --every | --trace) number "${2:-}" ;;
    *) usage >&2; exit 64 ;;
  esac
  case $1 in
    --seed) seeds+=("$2") ;;
    --seeds) count=$2 ;;
    --jobs) jobs=$2 ;;
    *) name=${1#--}; export "PROTECTFS_MODEL_${name^^}=$2" ;;
  esac
  shift 2
done
if ((${#seeds[@]} + count == 0)); then count=1; fi
for ((; count > 0; count--)); do seeds+=("$((RANDOM * 32768 + RANDOM))"); done

swift build --build-tests --quiet
tests="$(swift build --show-bin-path)/protectfsPackageTests.xctest"

# One process a seed: swift test would run them one after another.
run() {
  PROTECTFS_MODEL_SEEDS=$2 "$1" --testing-library swift-testing --filter MountTests.ModelTests/agreesWithAModel'\(' 2>&1 |
    sed 's/\x1b\[[0-9;]*m//g' | grep -av '^[◇✔✘↳]'
}
export -f run
printf '%s\n' "${seeds[@]}" | xargs -P "$jobs" -I{} bash -o pipefail -c 'run "$1" {}' bash "$tests"
