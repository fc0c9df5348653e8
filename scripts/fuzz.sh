#!/bin/bash
# Fuzzes what reads bytes from outside: parsers of the store, of calls, of options. What must hold is in
# Fuzz/Sources/FuzzTargets.
#
#   scripts/fuzz.sh all [SECONDS]       each target for so long; 60 if not said
#   scripts/fuzz.sh TARGET [SECONDS]    one of them
#   scripts/fuzz.sh total SECONDS       each until it has had so long in all, in turns of five minutes; can be cut short
#   scripts/fuzz.sh list                their names, and for how many seconds each has run here
#   scripts/fuzz.sh minimise            fewer and smaller files in Fuzz/Corpus, with the same coverage
#
# Each run begins with Fuzz/Corpus and what earlier ones have added to it in Fuzz/.build/corpus. An input that fails is
# left in Fuzz/Findings; once what it found is mended it is kept in Fuzz/Cases/TARGET, which `swift test` replays.
# FUZZ_OPTIONS holds more options for libFuzzer.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

[[ $# -ge 1 && $# -le 2 && $1 != -* && ${2:-1} =~ ^[0-9]+$ ]] || show_head
seconds=${2:-60}

prepare_build

# What is under test is internal, so testing must be enabled. gold, the default linker, fails on what ASan needs.
flags=(-c release --package-path Fuzz -Xswiftc -enable-testing -Xswiftc -sanitize=fuzzer,address -Xswiftc -use-ld=lld)
swift build "${flags[@]}"
fuzz="$(swift build "${flags[@]}" --show-bin-path)/Fuzz"

# libFuzzer reports what failed itself; Swift's own report would make it wait.
export SWIFT_BACKTRACE=enable=no

# How long a target has run on this machine, in seconds.
spent() { cat Fuzz/.build/spent/"$1" 2>/dev/null || echo 0; }

run() {
  local target=$1 seconds=$2 grown=Fuzz/.build/corpus/$1 options=()
  mkdir -p "$grown" Fuzz/.build/spent Fuzz/Findings Fuzz/Corpus/"$target"
  if [[ -f Fuzz/Dictionaries/$target.dict ]]; then options+=("-dict=Fuzz/Dictionaries/$target.dict"); fi
  printf '\n== %s\n' "$target"
  # shellcheck disable=SC2086
  "$fuzz" "$target" "${options[@]}" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="Fuzz/Findings/$target-" ${FUZZ_OPTIONS:-} "$grown" Fuzz/Corpus/"$target" 2>&1 |
    grep -v -E '^#[0-9]+.*(NEW|REDUCE|RELOAD)'
  echo $(($(spent "$target") + seconds)) >Fuzz/.build/spent/"$target"
}

# As many at a time as there are processors: a target uses one.
run_all() {
  export fuzz
  export -f spent run run_quietly
  xargs -P "$(nproc)" -I '{}' bash -c 'run_quietly Fuzz/.build "$1"' job "run {} $1" <<<"$targets"
}

# Turns go round, so that what is cut short has served all alike.
run_total() {
  local wanted=$1 target left=1
  while ((left)); do
    left=0
    for target in $targets; do
      local rest=$((wanted - $(spent "$target")))
      if ((rest > 0)); then
        run "$target" $((rest < 300 ? rest : 300))
        left=1
      fi
    done
  done
}

minimise() {
  local target=$1 made
  made=$(mktemp -d)
  "$fuzz" "$target" -merge=1 "$made" Fuzz/Corpus/"$target" Fuzz/.build/corpus/"$target" 2>/dev/null
  rm -rf Fuzz/Corpus/"$target"
  mv "$made" Fuzz/Corpus/"$target"
  chmod 755 Fuzz/Corpus/"$target"
}

targets=$("$fuzz" --list)
case $1 in
  list) for target in $targets; do printf '%-16s %6d\n' "$target" "$(spent "$target")"; done ;;
  total) run_total "$seconds" ;;
  minimise) for target in $targets; do minimise "$target"; done ;;
  all) run_all "$seconds" ;;
  *)
    grep -qx -- "$1" <<<"$targets" || show_head
    run "$1" "$seconds"
    ;;
esac
