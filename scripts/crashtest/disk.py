#!/usr/bin/env python3
"""A disk with a volatile write cache, whose power can be cut at any moment.

usage: disk.py IMAGE FILE

Serves the bytes of IMAGE, from memory, as the file FILE: a FUSE file system of one file, for a loop device to use. What
is written is remembered apart until the loop device asks for a flush, as a file system's barriers make it do. On the
line "cut PATH SEED" it writes to PATH what the disk would hold if the power failed at that moment: all that was
flushed, and any part of what was written since, in pieces of 4096 bytes, as a drive may have written any of it and in
any order. It answers with the time, in nanoseconds of the monotonic clock, and counts of pieces kept and lost. After
"record DIRECTORY COUNT SEED" it keeps, before each flush, what up to COUNT such parts would leave, as files that
read_part() reads; "label NAME" says what these are called from now on, and "part" keeps them at once. It ends when FILE
is unmounted.
"""

import ctypes
import errno
import os
import random
import select
import struct
import sys
import time

LOOKUP, FORGET, GETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC = 1, 2, 3, 14, 15, 16, 17, 18, 20
FLUSH, INIT, ACCESS, INTERRUPT, DESTROY, BATCH_FORGET = 25, 26, 34, 36, 38, 42
NO_ANSWER = {FORGET, INTERRUPT, BATCH_FORGET}
HEADER = struct.Struct("<IIQQIIII")  # length, operation, unique, node, user, group, process, padding
PIECE, LARGEST = 4096, 1 << 20
PART = struct.Struct(f"<Q{PIECE}s")
# FOPEN_DIRECT_IO: nothing is kept in the page cache above the disk.
DIRECT = 1


class Disk:
    def __init__(self, image):
        with open(image, "rb") as file:
            self.current = bytearray(file.read())
        # What was flushed, where it differs from `current`: the oldest content of each piece written since.
        self.flushed = {}
        # All that were written since the start.
        self.written = set()
        self.flushes = 0

    def read(self, offset, count):
        return memoryview(self.current)[offset:offset + count]

    def write(self, offset, data):
        end = offset + len(data)
        for start in range(offset - offset % PIECE, end, PIECE):
            if start not in self.flushed:
                self.flushed[start] = bytes(self.current[start:start + PIECE])
                self.written.add(start)
        self.current[offset:end] = data

    def flush(self):
        self.flushed.clear()
        self.flushes += 1

    def after_power_cut(self, seed):
        """What is on the disk, and how many pieces that were not flushed are there and are not. One time in four it is
        all of them, or none."""
        generator = random.Random(seed)
        share = generator.choice([0, 1, generator.random(), generator.random(), generator.random(),
                                  generator.random(), generator.random(), generator.random()])
        image, lost = bytearray(self.current), 0
        for start, old in self.flushed.items():
            if generator.random() >= share:
                image[start:start + len(old)] = old
                lost += 1
        return image, len(self.flushed) - lost, lost


class Recorder:
    """Keeps what the disk would hold without power, as pieces that differ from the image that it began with."""

    def __init__(self, disk, directory, count, seed):
        self.disk, self.directory, self.count = disk, directory, count
        self.random = random.Random(seed)
        self.label, self.number = "unnamed.0", 0

    def choices(self, pieces):
        """Which of the pieces that were not flushed are there: all parts of few; none, all, the first, and any."""
        if 1 << len(pieces) <= self.count:
            return [{piece for place, piece in enumerate(pieces) if bits >> place & 1}
                    for bits in range(1 << len(pieces))]
        choices = [set(), set(pieces)]
        while len(choices) < self.count:
            share = self.random.random()
            choices.append(set(pieces[:int(share * len(pieces))]) if self.random.random() < 0.3 else
                           {piece for piece in pieces if self.random.random() < share})
        return choices

    def keep(self):
        for kept in self.choices(list(self.disk.flushed)):
            with open(f"{self.directory}/{self.label}.{self.number}", "wb") as file:
                self.number += 1
                for start in self.disk.written:
                    lost = start in self.disk.flushed and start not in kept
                    content = self.disk.flushed[start] if lost else self.disk.current[start:start + PIECE]
                    file.write(PART.pack(start, bytes(content)))


def read_part(path):
    """The pieces of a file that a Recorder wrote, with their places."""
    with open(path, "rb") as file:
        return list(PART.iter_unpack(file.read()))


class Server:
    """Answers the kernel's requests for the one file, and lines on standard input."""

    def __init__(self, disk, target):
        self.disk, self.recorder = disk, None
        self.device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.device},rootmode=100000,user_id=0,group_id=0,allow_other,max_read={LARGEST}"
        if ctypes.CDLL(None, use_errno=True).mount(
                b"disk", target.encode(), b"fuse", ctypes.c_ulong(0), options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "mount")
        self.answers = {INIT: self.init, GETATTR: self.attributes, OPEN: self.open, READ: self.read,
                        WRITE: self.write, FSYNC: self.fsync, STATFS: self.statistics, RELEASE: self.nothing,
                        ACCESS: self.nothing, DESTROY: self.nothing}

    def serve(self):
        while True:
            ready, _, _ = select.select([self.device, sys.stdin], [], [])
            if sys.stdin in ready:
                line = sys.stdin.readline()
                if line:
                    self.command(line.split())
            if self.device in ready and not self.answer_request():
                return

    def command(self, words):
        if words[0] == "cut":
            return self.cut(*words[1:])
        if words[0] == "record":
            self.recorder = Recorder(self.disk, words[1], int(words[2]), words[3])
        elif words[0] == "label":
            self.recorder.label = words[1]
        elif words[0] == "part":
            self.recorder.keep()
        print("done", flush=True)

    def cut(self, path, seed):
        moment = time.monotonic_ns()
        image, kept, lost = self.disk.after_power_cut(seed)
        with open(path, "wb") as file:
            file.write(image)
        print(moment, kept, lost, flush=True)

    def answer_request(self):
        try:
            request = os.read(self.device, LARGEST + 4096)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return False
            if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                return True
            raise
        _, operation, unique, *_ = HEADER.unpack_from(request)
        if operation in NO_ANSWER:
            return True
        answer = self.answers.get(operation)
        body = answer(request) if answer else None
        error = 0 if body is not None else -errno.ENOSYS
        os.writev(self.device, [struct.pack("<IiQ", 16 + len(body or b""), error, unique), body or b""])
        return True

    def init(self, request):
        major, minor, read_ahead, _ = struct.unpack_from("<IIII", request, HEADER.size)
        if major != 7:
            raise OSError(errno.EPROTO, "FUSE")
        big_writes, max_pages = 1 << 5, 1 << 22
        return struct.pack("<IIIIHHIIHH32x", 7, min(minor, 31), read_ahead, big_writes | max_pages, 16, 12, LARGEST, 1,
                           LARGEST // 4096, 0)[:64]

    def attributes(self, _):
        size = len(self.disk.current)
        return struct.pack("<QII", 3600, 0, 0) + struct.pack(
            "<QQQQQQIIIIIIIIII", 1, size, size // 512, 0, 0, 0, 0, 0, 0, 0o100600, 1, 0, 0, 0, 4096, 0)

    def open(self, _):
        return struct.pack("<QII", 0, DIRECT, 0)

    def read(self, request):
        _, offset, count = struct.unpack_from("<QQI", request, HEADER.size)
        return self.disk.read(offset, count)

    def write(self, request):
        _, offset, count = struct.unpack_from("<QQI", request, HEADER.size)
        self.disk.write(offset, memoryview(request)[HEADER.size + 40:HEADER.size + 40 + count])
        return struct.pack("<II", count, 0)

    def fsync(self, _):
        if self.recorder:
            self.recorder.keep()
        self.disk.flush()
        return b""

    def statistics(self, _):
        return struct.pack("<QQQQQIII28x", 0, 0, 0, 0, 0, 4096, 255, 4096)

    def nothing(self, _):
        return b""


if __name__ == "__main__":
    Server(Disk(sys.argv[1]), sys.argv[2]).serve()
