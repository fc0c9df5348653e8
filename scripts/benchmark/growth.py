"""How protectfs grows: with files, with entries in a directory, with lengths, with clients."""

import os
import random
import statistics
import time

from benchmark.kernel import drop_caches
from benchmark.mounted import Row

PAGE = b"p" * 4096
MIB = 1 << 20


def each(paths, call):
    """Microseconds for each of the paths."""
    start = time.perf_counter()
    for path in paths:
        call(path)
    return (time.perf_counter() - start) / len(paths) * 1e6


def create(path):
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(descriptor, PAGE)
    os.close(descriptor)


def read(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.read(descriptor, 4096)
    os.close(descriptor)


def sample(directory, paths, sample_size=1000):
    """Microseconds for one of each operation among files that are there, and in the caches: medians of five."""
    figures = {"create": [], "stat": [], "read": [], "rename": [], "unlink": []}
    new = [f"{directory}/new{index}" for index in range(sample_size)]
    moved = [f"{path}.moved" for path in new]
    chosen = random.Random(len(paths)).sample(paths, min(sample_size, len(paths)))
    each(chosen, read)
    for _ in range(5):
        figures["create"].append(each(new, create))
        figures["stat"].append(each(chosen, os.stat))
        figures["read"].append(each(chosen, read))
        figures["rename"].append(each(new, lambda path: os.rename(path, f"{path}.moved")))
        figures["unlink"].append(each(moved, os.unlink))
    return {name: statistics.median(times) for name, times in figures.items()}


def flat(title, small, large):
    return [Row(f"{title}: {name}, times that with 1,000", large[name] / small[name], 1.5) for name in small]


def tree(mounted, quick):
    """A tree of files, 1000 in each directory."""
    total, paths = 100_000 if quick else 1_000_000, []
    other = f"{mounted.directory}/other"
    os.mkdir(other)
    base = mounted.memory()
    small = None
    for number in range(total // 1000):
        directory = f"{mounted.directory}/{number}"
        os.mkdir(directory)
        for index in range(1000):
            create(f"{directory}/{index}")
        paths += [f"{directory}/{index}" for index in range(1000)]
        if number == 0:
            small = sample(other, paths)
    os.sync()
    large = sample(other, paths)
    known = mounted.status()["knownInodes"]
    memory = mounted.memory()
    return flat(f"{total:,} files in a tree", small, large) + [
        Row(f"the daemon's memory beyond 300 bytes for each of {known:,} inodes", (memory - 300 * known) / MIB, 24, "MiB"),
        Row("the daemon's memory when it starts", base / MIB, 24, "MiB"),
    ]


def large_directory(mounted, quick):
    """Many entries in one directory."""
    total, paths = 20_000 if quick else 100_000, []
    directory = f"{mounted.directory}/large"
    os.mkdir(directory)
    small = None
    for index in range(total):
        paths.append(f"{directory}/entry{index}")
        create(paths[-1])
        if index == 999:
            small = sample(directory, paths)
    os.sync()
    return flat(f"{total:,} entries in a directory", small, sample(directory, paths))


def transfer(path, size, offset, is_write):
    """MiB a second over 64 MiB of a file, to the disk or from it."""
    if not is_write:
        drop_caches()
    buffer = bytearray(MIB)
    start = time.perf_counter()
    descriptor = os.open(path, os.O_RDWR)
    for part in range(size // MIB):
        at = offset + part * MIB
        if is_write:
            os.pwrite(descriptor, buffer, at)
        else:
            os.preadv(descriptor, [buffer], at)
    if is_write:
        os.fsync(descriptor)
    os.close(descriptor)
    return size / MIB / (time.perf_counter() - start)


def large_files(mounted, quick):
    """The last 64 MiB of files that are mostly holes."""
    rates = {}
    size = 64 * MIB
    for length in (64 * MIB, 1 << 30, 10 << 30, 100 << 30):
        path = f"{mounted.directory}/{length}"
        with open(path, "wb") as file:
            file.truncate(length)
        for is_write in (True, False):
            times = [transfer(path, size, length - size, is_write) for _ in range(3 if quick else 7)]
            rates[length, is_write] = statistics.median(times)
    return [
        Row(f"{'writing' if is_write else 'reading'} in a file of {length >> 30} GiB, times that in one of 64 MiB",
            rates[length, is_write] / rates[64 * MIB, is_write], 0.75, at_least=True)
        for length in (1 << 30, 10 << 30, 100 << 30) for is_write in (True, False)
    ]


def clients(paths, count, seconds):
    """Files opened and read a second by that many processes, and their latencies in microseconds, sorted."""
    pipes = []
    for number in range(count):
        reader, writer = os.pipe()
        if os.fork() == 0:
            generator, latencies = random.Random(number), []
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                path = generator.choice(paths)
                start = time.perf_counter()
                read(path)
                latencies.append(int((time.perf_counter() - start) * 1e6))
            os.close(reader)
            with os.fdopen(writer, "w") as output:
                output.write("\n".join(map(str, latencies)))
            os._exit(0)
        os.close(writer)
        pipes.append(reader)
    latencies = []
    for pipe in pipes:
        with os.fdopen(pipe) as file:
            latencies += [int(line) for line in file]
    for _ in range(count):
        os.wait()
    return len(latencies) / seconds, sorted(latencies)


def concurrency(mounted, quick):
    """Clients that open and read files at the same time."""
    paths = [f"{mounted.directory}/{index}" for index in range(2000)]
    each(paths, create)
    os.sync()
    alone, _ = clients(paths, 1, 1 if quick else 3)
    together, latencies = clients(paths, 64, 1 if quick else 3)
    fair = 64 / together * 1e6
    return [
        Row("64 clients: files opened and read a second, times that of one", together / alone, 1, at_least=True),
        Row("64 clients: median latency, times a fair share", latencies[len(latencies) // 2] / fair, 1.5),
        Row("64 clients: 99th percentile, times a fair share", latencies[len(latencies) * 99 // 100] / fair, 10),
    ]
