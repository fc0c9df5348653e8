#!/usr/bin/env python3
"""Kills the daemon with SIGKILL at random moments under a load, and checks what is left.

Called by scripts/kill-test.sh. Each round: workers change files on the mount, a keeper locks, unlocks, changes the passcode and sets classes of a tree;
the daemon is killed; the store is checked with fsck, mounted, unlocked, and held against what was acknowledged: every
operation that was answered is there, and everything synchronised with its contents. The store goes on into the next
round. In between, a command that changes the passcode of the unmounted store is killed too.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from crashtest.store import Failure, Store
from crashtest.trial import FIRST_PASSCODE, Trial
from crashtest.verify import Crash, Difference


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--protectfs", required=True, help="the command")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument("--longest", type=float, default=1.0, help="seconds of load before a kill, at most")
    parser.add_argument("--keep", action="store_true", help="leave the store there when a round fails")
    return parser.parse_args()


def crash(trial, generator, longest):
    """Loads the mount and kills its daemon. Returns the crash."""
    trial.start()
    time.sleep(generator.uniform(0.02, longest))
    if trial.store.daemon.poll() is not None:
        raise Failure("the daemon ended by itself")
    killed = Crash(time.monotonic_ns(), is_power_cut=False)
    trial.store.kill()
    trial.stop()
    trial.store.clear_mount()
    return killed


def kill_passcode_change(trial, generator):
    """Changes the passcode of the store, which is not mounted, and kills the command meanwhile."""
    store, new = trial.store, f"passcode-unmounted-{generator.getrandbits(32)}"
    change = subprocess.Popen(
        store.arguments("passcode", "change", "--passcode-file", store.passcode_file(trial.passcode),
                        "--new-passcode-file", store.passcode_file(new), "--device-key", store.key, store.backing),
        stdin=subprocess.DEVNULL, stdout=store.log, stderr=store.log)
    try:
        change.wait(generator.uniform(0, 0.6))
    except subprocess.TimeoutExpired:
        change.kill()
        change.wait()
    if change.returncode not in (0, -9):
        raise Failure(f"passcode change: status {change.returncode}; see {store.log.name}")
    passcodes = [new] if change.returncode == 0 else [trial.passcode, new]
    store.check(passcodes)
    store.mount()
    trial.passcode = store.unlock_with_one(passcodes)
    store.unmount()


def run(trial, options):
    generator = trial.random
    trial.store.init(FIRST_PASSCODE)
    trial.store.mount()
    trial.store.unlock_with_one([FIRST_PASSCODE])
    trial.prepare()
    leftovers = 0
    for number in range(1, options.rounds + 1):
        killed = crash(trial, generator, options.longest)
        leftovers += len(trial.check_backing(killed))
        trial.store.mount()
        trial.check_mounted(killed)
        if generator.random() < 0.2:
            trial.store.unmount()
            kill_passcode_change(trial, generator)
            trial.store.mount()
            trial.store.unlock_with_one([trial.passcode])
        if number % 10 == 0:
            print(f"{number} kills, {trial.operations} operations", flush=True)
    trial.store.unmount()
    trial.store.run("fsck", "--repair", "--device-key", trial.store.key, trial.store.backing, statuses=(0, 1))
    if {code for code, _ in trial.store.check([trial.passcode])} - {"rekey-pending"}:
        raise Failure("a repair left leftovers")
    return leftovers


def main():
    options = arguments()
    directory = tempfile.mkdtemp(prefix="protectfs-kill-test.")
    store = Store(os.path.abspath(options.protectfs), directory)
    trial = Trial(store, directory, options.workers, options.seed)
    passed = False
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    print(f"seed {options.seed}", flush=True)
    try:
        leftovers = run(trial, options)
        passed = True
        print(f"{options.rounds} kills: everything acknowledged is there. {trial.operations} operations, "
              f"{trial.synchronised} of them fsync; {leftovers} harmless leftovers")
        print(f"under way when the daemon was killed: {dict(trial.interrupted.most_common())}")
    except (Failure, Difference) as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
    finally:
        if trial.processes:
            trial.stop()
        store.tear_down()
        if options.keep and not passed:
            print(f"left in {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory)
    sys.exit(0 if passed else 1)


main()
