"""The limits that protectfs keeps: how it grows, and what a lock, an unlock and a change of classes cost."""

import os
import shutil
import tempfile

from benchmark.growth import concurrency, large_directory, large_files, tree
from benchmark.locking import classes, locking, starting
from benchmark.mounted import Mounted


def measure(options):
    """Every limit as a row."""
    root = tempfile.mkdtemp(prefix="protectfs-limits.", dir=options.directory)
    try:
        rows = []
        for part in (starting, tree, large_directory, large_files, concurrency, locking, classes):
            with Mounted(options.protectfs, f"{root}/{part.__name__}") as mounted:
                rows += part(mounted, options.quick)
            shutil.rmtree(f"{root}/{part.__name__}")
        return rows
    finally:
        shutil.rmtree(root, ignore_errors=True)


def table(rows):
    lines = ["", "| limit | measured | bound | |", "|---|---|---|---|"]
    lines += [f"| {row.name} | {row.shown} | {row.bound_shown} | {'holds' if row.holds else '**exceeded**'} |" for row in rows]
    return "\n".join(lines)
