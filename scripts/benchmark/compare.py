"""Runs the workloads on several file systems side by side."""

import os
import shutil
import sys
import tempfile
import time

from benchmark import workloads
from benchmark.kernel import drop_caches
from benchmark.systems import FileSystem


def measure(work, directory, scale):
    os.sync()
    if work.warm:
        work.function(directory, scale)
        time.sleep(2)
    if work.cold:
        drop_caches()
    start = time.perf_counter()
    work.function(directory, scale)
    return time.perf_counter() - start


def clear(directory):
    for name in os.listdir(directory):
        path = f"{directory}/{name}"
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def compare(options, scale, names, selected):
    """The workloads on file systems of those names, over backing directories of their own. Returns the times in seconds by
    workload and file system, and what the daemons cost."""
    results, costs = {}, {}
    root = tempfile.mkdtemp(prefix="protectfs-bench.", dir=options.directory)
    mounted = []
    try:
        options.passcode = f"{root}/passcode"
        with open(options.passcode, "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write("a passcode\n")
        workloads.prepare(f"{root}/inputs", scale)
        for name in names:
            system = FileSystem(name, root)
            mounted.append(system)
            system.mount(options)
            system.forget_peak()
        for number in range(options.rounds):
            for work in selected:
                order = mounted[number % len(mounted):] + mounted[:number % len(mounted)]
                for system in order:
                    print(f"\rround {number + 1}: {work.name}, {system.name:40}", end="", file=sys.stderr, flush=True)
                    seconds = measure(work, system.directory, scale)
                    results.setdefault((work.name, system.name), []).append(seconds)
            for system in mounted:
                clear(system.directory)
        costs = {system.name: system.cost() for system in mounted}
        print(file=sys.stderr)
    finally:
        for system in mounted:
            system.unmount()
        shutil.rmtree(root, ignore_errors=True)
    return results, costs
