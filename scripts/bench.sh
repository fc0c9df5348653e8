#!/bin/bash
# Compares protectfs with its peers in one run: a plain directory, a passthrough, gocryptfs, securefs and encfs, all over
# the same backing file system. protectfs takes its requests from the device and over io_uring, with latency=system and,
# called +hold, with latency=low; besides by the transport that it chooses (auto), and with an authenticated store. Prints a
# Markdown table of medians and of ratios to gocryptfs, and one of the limits that protectfs is to keep: how it grows, and
# what a lock, an unlock and a change of classes cost. Exits with 1 if one is exceeded.
#
#   scripts/bench.sh [--quick] [--rounds N] [--only NAME,…] [--workloads WORD,…] [--limits | --no-limits]
#                    [--plot FILE.svg] [--directory DIR]
#
# The columns of io_uring need a kernel that offers it: echo Y >/sys/module/fuse/parameters/enable_uring. That of the
# passthrough over io_uring needs the source of libfuse 3.18 or later, in the directory that LIBFUSE_SOURCE names.
#
# Needs root, to drop the caches, and 40 GB of room for a disk image, or a DIR. Times differ from machine to machine: quote
# ratios of one run. Leave the machine alone meanwhile. A guest whose hypervisor takes free memory back measures mostly that:
# where there is one, raise /sys/module/page_reporting/parameters/page_reporting_order to 11 before.
#
# What the inner parts cost, without a mount: swift run -c release --package-path Benchmarks
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here"
source scripts/packages.sh

if ((EUID != 0)); then
  echo "bench: must be root, to drop caches between measurements" >&2
  exit 1
fi
prepare_build gocryptfs securefs encfs e2fsprogs gcc git sqlite3 python3
swift build -c release --product protectfs --static-swift-stdlib 2>&1 | tail -n 1
mkdir -p .build/bench
# libfuse's example, with the write-back cache: what FUSE itself costs.
passthrough=.build/bench/passthrough_ll
if ! [[ -x $passthrough ]]; then
  # shellcheck disable=SC2046
  gcc -O2 -o "$passthrough" /usr/share/doc/libfuse3-dev/examples/passthrough_ll.c $(pkg-config --cflags --libs fuse3)
fi
if [[ -n ${LIBFUSE_SOURCE-} ]]; then
  install_packages meson ninja-build liburing-dev libnuma-dev
  newer=.build/bench/libfuse
  [[ -d $newer ]] || meson setup --buildtype=release -Dtests=false -Dutils=false "$newer" "$LIBFUSE_SOURCE" >/dev/null
  ninja -C "$newer" example/passthrough_ll | tail -n 1
  set -- --passthrough-io-uring "$here/$newer/example/passthrough_ll" "$@"
fi
exec python3 scripts/bench.py --protectfs "$(swift build -c release --static-swift-stdlib --show-bin-path)/protectfs" \
  --passthrough "$here/$passthrough" "$@"
