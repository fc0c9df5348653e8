"""The limits that protectfs keeps: how it grows, and what a lock, an unlock and a change of classes cost."""

import multiprocessing
import os
import shutil
import tempfile

from benchmark.growth import concurrency, large_directory, large_files, tree
from benchmark.locking import classes, locking, raising, starting
from benchmark.mounted import Mounted

PARTS = {
    part.__name__: part
    for part in (starting, tree, large_directory, large_files, concurrency, locking, classes, raising)}


def measure(options):
    """Every limit as a row."""
    root = tempfile.mkdtemp(prefix="protectfs-limits.", dir=options.directory)
    try:
        # A process for each, so that none inherits the memory of another.
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            return [
                row for name in PARTS
                for row in pool.apply(run, (name, options.protectfs, f"{root}/{name}", options.quick))
            ]
    finally:
        shutil.rmtree(root, ignore_errors=True)


def run(name, program, root, quick):
    """The rows of one part, on a store of its own."""
    os.mkdir(root)
    with Mounted(program, root) as mounted:
        rows = PARTS[name](mounted, quick)
    shutil.rmtree(root)
    return rows


def table(rows):
    lines = ["", "| limit | measured | bound | |", "|---|---|---|---|"]
    lines += [f"| {row.name} | {row.shown} | {row.bound_shown} | {'holds' if row.holds else '**exceeded**'} |" for row in rows]
    return "\n".join(lines)
