"""What a lock, an unlock, a mount, a new passcode and a change of classes cost."""

import os
import random
import statistics
import subprocess
import threading
import time

from benchmark.growth import create, read
from benchmark.mounted import Row

MILLISECOND = 1000


def starting(mounted, quick):
    """A mount is ready when the command returns; then it is unlocked; then it has another passcode."""
    derive = mounted.key_derivation()
    mounts, unlocks, changes = [], [], []
    for _ in range(5 if quick else 15):
        mounted.unmount()
        mounts.append(mounted.mount())
        unlocks.append(mounted.unlock() - derive())
        changes.append(mounted.timed(
            "passcode", "change", mounted.directory, "--passcode-file", mounted.passcode,
            "--new-passcode-file", mounted.passcode) - 4 * derive())
    return [
        Row("mount, until it is ready", statistics.median(mounts) * MILLISECOND, 50, "ms"),
        Row("unlock, beyond the key derivation", statistics.median(unlocks) * MILLISECOND, 20, "ms"),
        # Of the old passcode, of a new one at costs that are too low, and twice at the one that is chosen.
        Row("passcode change, beyond four key derivations", statistics.median(changes) * MILLISECOND, 50, "ms"),
    ]


class Reader:
    """Opens and reads files all the time, and notes when, and how long each took."""

    def __init__(self, paths):
        self.paths, self.samples, self.isEnding = paths, [], False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        generator = random.Random(1)
        while not self.isEnding:
            path = generator.choice(self.paths)
            start = time.perf_counter()
            read(path)
            self.samples.append((start, time.perf_counter() - start))

    def percentile(self, start, end):
        """The 99th percentile of what began between two moments, in microseconds."""
        times = sorted(seconds for begun, seconds in self.samples if start <= begun < end)
        return times[len(times) * 99 // 100] * 1e6 if times else float("inf")


def locking(mounted, quick):
    """A lock of very many files with very many pages, while others are read."""
    count, size = (10_000, 20_480) if quick else (100_000, 20_480)
    secret, public = f"{mounted.directory}/secret", f"{mounted.directory}/public"
    for directory in (secret, public):
        os.mkdir(directory)
    mounted.run("class", "set", "complete", secret)
    others = [f"{public}/{index}" for index in range(1000)]
    for path in others:
        create(path)
    for index in range(count):
        with open(f"{secret}/{index}", "wb", buffering=0) as file:
            file.write(bytes(size))
    os.sync()
    locks, ratios = [], []
    for _ in range(3):
        reader = Reader(others)
        reader.thread.start()
        usual = time.perf_counter()
        time.sleep(2)
        start = time.perf_counter()
        locks.append(mounted.lock())
        end = time.perf_counter()
        reader.isEnding = True
        reader.thread.join()
        ratios.append(reader.percentile(start, end) / reader.percentile(usual, start))
        mounted.unlock()
        for index in range(count):
            read_all(f"{secret}/{index}", size)
    return [
        Row(f"lock of {count:,} files with {count * size >> 20:,} MiB cached", statistics.median(locks), 1, "s"),
        Row("99th percentile of reading others meanwhile, times the usual", statistics.median(ratios), 2),
    ]


def read_all(path, size):
    with open(path, "rb", buffering=0) as file:
        assert len(file.read(size)) == size


def classes(mounted, quick):
    """A change of the class of a whole tree, by which no file gets a new key."""
    count = 10_000 if quick else 100_000
    for number in range(count // 1000):
        os.mkdir(f"{mounted.directory}/tree{number}")
        for index in range(1000):
            create(f"{mounted.directory}/tree{number}/{index}")
    os.sync()
    seconds = [
        mounted.timed("class", "set", "-R", "--rewrap", name, mounted.directory)
        for name in ("complete", "completeUntilFirstUserAuthentication", "complete")
    ]
    return [Row("class set -R --rewrap, files a second", count / statistics.median(seconds), 20_000, at_least=True)]


def raising(mounted, quick):
    """Files that get new keys, under which their contents are encrypted: in place, durably, with what is there in use."""
    count = 4000 if quick else 20_000
    tree = f"{mounted.directory}/tree"
    os.mkdir(tree)
    start = time.perf_counter()
    for index in range(count):
        with open(f"{tree}/{index}", "wb", buffering=0) as file:
            file.write(bytes(4096))
    creation = time.perf_counter() - start
    seconds = mounted.timed("class", "set", "-R", "complete", tree)
    return [Row(f"class set -R raising {count:,} files of 4 KiB, times their creation", seconds / creation, 4)]
