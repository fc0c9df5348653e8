#!/usr/bin/env python3
"""Cuts the power at random moments under a load, and checks what is left. Called by scripts/powercut-test.sh.

The backing directory is on a file system of its own, on a disk with a volatile write cache (crashtest/disk.py). Each
round: workers change files on the mount, a keeper locks, unlocks, changes the passcode and sets classes of a tree; what
the disk would hold if the power failed is kept. From that the next round starts: the file system recovers, fsck checks
the store, it is mounted, unlocked, and held against what was synchronised.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time

from crashtest.machine import MAKE, Machine
from crashtest.store import Failure, Store
from crashtest.trial import FIRST_PASSCODE, Trial
from crashtest.verify import Crash, Difference


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--protectfs", required=True, help="the command")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--longest", type=float, default=2.0, help="seconds of load before a power cut, at most")
    parser.add_argument("--file-system", choices=list(MAKE), default="ext4")
    parser.add_argument("--keep", action="store_true", help="leave the image there when a round fails")
    return parser.parse_args()


def load_and_cut(trial, machine, longest):
    """Loads the mount until the power fails. Returns the crash, and how many writes were kept and lost."""
    trial.start()
    time.sleep(trial.random.uniform(0.05, longest))
    moment, kept, lost = machine.cut_power(trial.random.getrandbits(32))
    if trial.store.daemon.poll() is not None:
        raise Failure("the daemon ended by itself")
    trial.stop()
    trial.store.kill()
    trial.store.clear_mount()
    machine.stop()
    return Crash(moment, is_power_cut=True), kept, lost


def run(trial, machine, options):
    machine.start()
    trial.store.init(FIRST_PASSCODE)
    trial.store.mount()
    trial.store.unlock_with_one([FIRST_PASSCODE])
    trial.prepare()
    totals = {"leftovers": 0, "kept": 0, "lost": 0}
    for number in range(1, options.rounds + 1):
        machine.make_durable()
        cut, kept, lost = load_and_cut(trial, machine, options.longest)
        machine.start()
        totals["kept"] += kept
        totals["lost"] += lost
        totals["leftovers"] += len(trial.check_backing(cut))
        trial.store.mount()
        trial.check_mounted(cut)
        if number % 10 == 0:
            print(f"{number} power cuts, {trial.operations} operations, {totals}", flush=True)
    trial.store.unmount()
    return totals


def main():
    options = arguments()
    directory = tempfile.mkdtemp(prefix="protectfs-powercut-test.")
    machine = Machine(directory, options.file_system)
    store = Store(os.path.abspath(options.protectfs), directory, backing=f"{machine.mount_point}/backing")
    trial = Trial(store, directory, options.workers, options.seed)
    passed = False
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    print(f"seed {options.seed}", flush=True)
    try:
        totals = run(trial, machine, options)
        passed = True
        print(f"{options.rounds} power cuts on {options.file_system}: everything synchronised is there. "
              f"{trial.operations} operations, {trial.synchronised} of them fsync; {totals['leftovers']} harmless "
              f"leftovers; of the blocks that were not flushed, {totals['kept']} were there and {totals['lost']} not")
        print(f"under way when the power was cut: {dict(trial.interrupted.most_common())}")
    except (Failure, Difference) as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
    finally:
        if trial.processes:
            trial.stop()
        store.tear_down()
        machine.stop()
        if options.keep and not passed:
            print(f"left in {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory)
    sys.exit(0 if passed else 1)


main()
