#!/usr/bin/env python3
"""Measures protectfs beside its peers, and holds it against its limits. Called by scripts/bench.sh, which builds and
installs what it needs.
"""

import argparse
import contextlib
import pathlib
import sys

from benchmark import limits, workloads
from benchmark.compare import compare
from benchmark.disk import fresh_disk
from benchmark.report import plot, table
from benchmark.systems import ALL, PROTECTFS, RINGS, offers_rings


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--protectfs", required=True)
    parser.add_argument("--passthrough", required=True)
    parser.add_argument("--passthrough-io-uring", help="the same of a libfuse that knows FUSE over io_uring")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, one round")
    parser.add_argument("--rounds", type=int, help="3, or 1 with --quick")
    parser.add_argument("--only", help="file systems to measure, separated by commas")
    parser.add_argument("--workloads", help="measure only those with one of these words in their names, separated by commas")
    parser.add_argument("--limits", action="store_true", help="no peers: how protectfs grows, locks and sets classes")
    parser.add_argument("--no-limits", action="store_true", help="peers only")
    parser.add_argument("--plot", help="write the ratios as SVG to a file")
    parser.add_argument("--directory", help="where the backing directories are made; a new ext4 on a loop device if not given")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 3)
    return options


def main():
    options = arguments()
    with contextlib.nullcontext(options.directory) if options.directory else fresh_disk() as options.directory:
        return measure(options)


def chosen(options):
    """The names of the file systems to measure."""
    names = [name for name in ALL if not options.only or name in options.only.split(",")]
    left_out = set() if offers_rings() else RINGS
    if not options.passthrough_io_uring:
        left_out = left_out | {"passthrough+io_uring"}
    for name in names:
        if name in left_out:
            print(f"{name} is left out: " + ("there is no libfuse that can" if offers_rings() else
                  "the kernel does not offer FUSE over io_uring (/sys/module/fuse/parameters/enable_uring)"), file=sys.stderr)
    return [name for name in names if name not in left_out]


def measure(options):
    if not options.limits:
        names = chosen(options)
        selected = workloads.chosen(options.workloads.split(",")) if options.workloads else workloads.workloads
        results, costs = compare(options, workloads.Scale(options.quick), names, selected)
        text, ratios = table(results, names, costs)
        print(text)
        if options.plot:
            labels = list(dict.fromkeys(workload for workload, _ in results))
            drawn = plot(labels, {name: ratios[name] for name in PROTECTFS if name in names})
            pathlib.Path(options.plot).write_text(drawn, encoding="utf-8")
    if options.limits or not (options.no_limits or options.only or options.workloads):
        rows = limits.measure(options)
        print(limits.table(rows))
        return 0 if all(row.holds for row in rows) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
