#!/usr/bin/env python3
"""Holds what power cuts leave of real file systems against what the simulated disk allows. See scripts/disk-rules.sh.

Each sequence of Tests/SimulatedDiskTests/sequences.txt is carried out on a file system of its own, on a disk with a
volatile write cache (crashtest/disk.py). Before each flush, and after each call, parts of what was written since the
last flush are kept. The file system recovers each, and what is found must be among what the simulated disk allows at
that call.
"""

import argparse
import ctypes
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile

from crashtest.disk import read_part
from crashtest.machine import MAKE, Machine
from crashtest.store import Failure

PUNCH_HOLE, EXCHANGE, NO_DIRECTORY = 3, 2, -100
LIBC = ctypes.CDLL(None, use_errno=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", required=True, help="what the simulated disk allows: see DiskRulesTests")
    parser.add_argument("--file-system", choices=list(MAKE), default="ext4")
    parser.add_argument("--cuts", type=int, default=8, help="up to how many parts are kept before a flush")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    return parser.parse_args()


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def opened(path, flags, body):
    descriptor = os.open(path, flags, 0o600)
    try:
        return body(descriptor)
    finally:
        os.close(descriptor)


def synchronise(path, call):
    opened(path, os.O_RDONLY if os.path.isdir(path) else os.O_RDWR, call)


CALLS = {
    "create": lambda at, name: opened(at(name), os.O_RDWR | os.O_CREAT | os.O_EXCL, lambda _: None),
    "write": lambda at, name, offset, count, byte: opened(
        at(name), os.O_RDWR, lambda file: os.pwrite(file, byte.encode() * int(count), int(offset))),
    "truncate": lambda at, name, size: os.truncate(at(name), int(size)),
    "punch": lambda at, name, offset, count: opened(
        at(name), os.O_RDWR, lambda file: checked(LIBC.fallocate(
            file, PUNCH_HOLE, ctypes.c_long(int(offset)), ctypes.c_long(int(count))))),
    "rename": lambda at, old, new: os.rename(at(old), at(new)),
    "exchange": lambda at, old, new: checked(
        LIBC.renameat2(NO_DIRECTORY, at(old).encode(), NO_DIRECTORY, at(new).encode(), EXCHANGE)),
    "link": lambda at, old, new: os.link(at(old), at(new)),
    "unlink": lambda at, name: os.unlink(at(name)),
    "mkdir": lambda at, name: os.mkdir(at(name)),
    "set": lambda at, name, attribute, value: os.setxattr(at(name), attribute, value.encode()),
    "fsync": lambda at, name: synchronise(at(name), os.fsync),
    "fdatasync": lambda at, name: synchronise(at(name), os.fdatasync),
    "sync": lambda at: opened(at("."), os.O_RDONLY, lambda file: checked(LIBC.syncfs(file))),
}


def runs(content):
    """Bytes and how often they follow each other."""
    return ",".join(f"{chr(byte) if byte else '0'}*{len(list(same))}" for byte, same in itertools.groupby(content))


def state(top):
    """What a program finds, in the words of DiskRulesTests."""
    lines = []
    for directory, directories, files in os.walk(top):
        if "lost+found" in directories:
            directories.remove("lost+found")
        for name in directories + files:
            path = os.path.join(directory, name)
            if name in directories:
                what = "directory"
            else:
                with open(path, "rb") as file:
                    what = runs(file.read())
            attributes = "".join(f" {attribute}={os.getxattr(path, attribute).decode()}"
                                 for attribute in sorted(os.listxattr(path)) if attribute.startswith("user."))
            lines.append(f"{os.path.relpath(path, top)}: {what}{attributes}")
    return "\n".join(sorted(lines))


def prepare(machine):
    """Gives the file system the files that each sequence begins with."""
    machine.start()
    for name, count in (("a", 100), ("big", 10_000)):
        with open(f"{machine.mount_point}/{name}", "wb") as file:
            file.write(b"o" * count)
    os.sync()
    machine.tell("cut", machine.after, 0)
    machine.stop()


def carry_out(machine, sequence, parts, options):
    """Makes the calls. What each call may leave is in the directory `parts` then."""
    machine.start()
    machine.tell("record", parts, options.cuts, options.seed)
    for number, (call, *words) in enumerate(call.split() for call in sequence["calls"]):
        machine.tell("label", f"during.{number}")
        CALLS[call](lambda name: f"{machine.mount_point}/{name}", *words)
        machine.tell("label", f"after.{number}")
        machine.tell("part")
    machine.tell("label", "unmounting.0")
    machine.stop()


def examine(machine, sequence, parts, totals):
    """Recovers each part, and holds what is there against what may be."""
    seen = set()
    for name in sorted(os.listdir(parts)):
        when, number, _ = name.split(".")
        pieces = read_part(f"{parts}/{name}")
        part = (when, number, hash(tuple(pieces)))
        if when not in sequence or part in seen:
            continue
        seen.add(part)
        totals["cuts"] += 1
        with machine.recovered(pieces) as top:
            found = state(top)
        totals["found"].add(found)
        fault = (number, when, found)
        if found not in sequence[when][int(number)] and fault not in totals["unexpected"]:
            totals["unexpected"].add(fault)
            print(f"{'; '.join(sequence['calls'])}: {when} call {int(number) + 1}, unexpected:\n{found}\n", flush=True)


def main():
    options = arguments()
    with open(options.states, encoding="utf-8") as file:
        sequences = json.load(file)
    directory = tempfile.mkdtemp(prefix="protectfs-disk-rules.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    totals = {"cuts": 0, "found": 0, "unexpected": 0}
    machine = Machine(directory, options.file_system)
    try:
        prepare(machine)
        for sequence in sequences:
            parts = f"{directory}/parts"
            os.mkdir(parts)
            own = {"cuts": 0, "found": set(), "unexpected": set()}
            carry_out(machine, sequence, parts, options)
            examine(machine, sequence, parts, own)
            shutil.rmtree(parts)
            totals["cuts"] += own["cuts"]
            totals["found"] += len(own["found"])
            totals["unexpected"] += len(own["unexpected"])
    except Failure as failure:
        sys.exit(f"FAILED: {failure}")
    finally:
        machine.stop()
        shutil.rmtree(directory)
    print(f"{options.file_system}, seed {options.seed}: {len(sequences)} sequences, {totals['cuts']} cuts, "
          f"{totals['found']} states found, {totals['unexpected']} unexpected")
    sys.exit(0 if totals["unexpected"] == 0 and totals["cuts"] else 1)


main()
