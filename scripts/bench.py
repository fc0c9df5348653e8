#!/usr/bin/env python3
"""Measures file systems side by side. Called by scripts/bench.sh, which builds and installs what it needs.

A workload is one function below, marked @workload; it works in a directory that the file system under test shows, and
what it returns, or the time it took, is its figure in seconds. Workloads run in their order, since some use what others
made; each runs on every file system before the next begins, in an order that is rotated every round.
"""

import argparse
import math
import mmap
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

KIB, MIB = 1024, 1 << 20
workloads = []


class Workload:
    """Something to time. It may need the files that another one makes."""

    def __init__(self, name, cold, warm, needs, function):
        self.name, self.cold, self.warm, self.needs, self.function = name, cold, warm, needs, function


def workload(name, cold=False, warm=False, needs=None):
    """Adds a workload. A warm one is done once before it is timed, two seconds later; before a cold one everything is
    written back and the caches are dropped."""
    def add(function):
        workloads.append(Workload(name, cold, warm, needs, function))
        return function
    return add


def chosen(words):
    """The workloads whose name has one of the words, and what they need, in their order."""
    names = {work.name for work in workloads if any(word in work.name for word in words)}
    while True:
        more = names | {work.needs for work in workloads if work.name in names and work.needs}
        if more == names:
            return [work for work in workloads if work.name in names]
        names = more


class Scale:
    """How much is done: --quick does a tenth."""

    def __init__(self, quick):
        self.big = (64 if quick else 512) * MIB
        self.blocks = 1000 if quick else 10_000
        self.files = 1000 if quick else 10_000
        self.commits = 100 if quick else 1000


data = random.Random(1).randbytes(MIB)


def write_file(path, size, block=MIB):
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for _ in range(size // block):
        os.write(descriptor, data[:block])
    os.fsync(descriptor)
    os.close(descriptor)


def read_file(path, block=MIB):
    buffer = bytearray(block)
    descriptor = os.open(path, os.O_RDONLY)
    while os.readv(descriptor, [buffer]):
        pass
    os.close(descriptor)


def offsets(count, size):
    generator = random.Random(count)
    return [generator.randrange(size // 4096) * 4096 for _ in range(count)]


def in_parallel(*calls):
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@workload("sequential write, 1 MiB")
def _(directory, scale):
    write_file(f"{directory}/big", scale.big)


@workload("sequential read, cold", cold=True, needs="sequential write, 1 MiB")
def _(directory, scale):
    read_file(f"{directory}/big")


@workload("sequential read, warm", warm=True, needs="sequential write, 1 MiB")
def _(directory, scale):
    read_file(f"{directory}/big")


@workload("random read 4 KiB, cold", cold=True, needs="sequential write, 1 MiB")
def _(directory, scale):
    descriptor = os.open(f"{directory}/big", os.O_RDONLY)
    for offset in offsets(scale.blocks, scale.big):
        os.pread(descriptor, 4096, offset)
    os.close(descriptor)


@workload("random read 4 KiB through a mapping, cold", cold=True, needs="sequential write, 1 MiB")
def _(directory, scale):
    descriptor = os.open(f"{directory}/big", os.O_RDONLY)
    mapping = mmap.mmap(descriptor, scale.big, prot=mmap.PROT_READ)
    mapping.madvise(mmap.MADV_RANDOM)
    for offset in offsets(scale.blocks, scale.big):
        mapping[offset]
    mapping.close()
    os.close(descriptor)


@workload("random write 4 KiB", needs="sequential write, 1 MiB")
def _(directory, scale):
    descriptor = os.open(f"{directory}/big", os.O_RDWR)
    for offset in offsets(scale.blocks, scale.big):
        os.pwrite(descriptor, data[:4096], offset)
    os.close(descriptor)


@workload("random write 4 KiB, fsync every 32", needs="sequential write, 1 MiB")
def _(directory, scale):
    descriptor = os.open(f"{directory}/big", os.O_RDWR)
    for index, offset in enumerate(offsets(scale.blocks // 10, scale.big)):
        os.pwrite(descriptor, data[:4096], offset)
        if index % 32 == 31:
            os.fsync(descriptor)
    os.close(descriptor)


@workload("4 KiB appending writes")
def _(directory, scale):
    descriptor = os.open(f"{directory}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for _ in range(scale.blocks):
        os.write(descriptor, data[:4096])
    os.close(descriptor)


@workload("two writers")
def _(directory, scale):
    in_parallel(*(lambda n=n: write_file(f"{directory}/two{n}", scale.big // 4) for n in range(2)))


@workload("two readers, cold", cold=True, needs="two writers")
def _(directory, scale):
    in_parallel(*(lambda n=n: read_file(f"{directory}/two{n}") for n in range(2)))


@workload("create files of 4 KiB")
def _(directory, scale):
    os.mkdir(f"{directory}/many")
    for index in range(scale.files):
        descriptor = os.open(f"{directory}/many/file{index}", os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(descriptor, data[:4096])
        os.close(descriptor)


def stat_all(directory):
    for entry in os.scandir(f"{directory}/many"):
        entry.stat()


@workload("stat all, cold", cold=True, needs="create files of 4 KiB")
def _(directory, scale):
    stat_all(directory)


@workload("stat all, warm", warm=True, needs="create files of 4 KiB")
def _(directory, scale):
    stat_all(directory)


@workload("read all files, cold", cold=True, needs="create files of 4 KiB")
def _(directory, scale):
    for index in range(scale.files):
        read_file(f"{directory}/many/file{index}", 4096)


@workload("open, read, close in a loop", needs="create files of 4 KiB")
def _(directory, scale):
    for _ in range(scale.files):
        descriptor = os.open(f"{directory}/many/file1", os.O_RDONLY)
        os.read(descriptor, 4096)
        os.close(descriptor)


def run(*arguments):
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@workload("tar extract")
def _(directory, scale):
    run("tar", "-C", directory, "-xf", f"{inputs}/tree.tar")


@workload("tar create, cold", cold=True, needs="tar extract")
def _(directory, scale):
    run("tar", "-C", directory, "-cf", f"{inputs}/scratch.tar", "tree")


@workload("grep -r, cold", cold=True, needs="tar extract")
def _(directory, scale):
    subprocess.run(["grep", "-rq", "no such thing in any file", f"{directory}/tree"], check=False)


@workload("git clone")
def _(directory, scale):
    run("git", "clone", "-q", "--no-local", f"{inputs}/repository", f"{directory}/clone")


# Warm as well: the first one after a clone reads what was written in the same second as the index.
@workload("git status, cold", cold=True, warm=True, needs="git clone")
def _(directory, scale):
    run("git", "-C", f"{directory}/clone", "status")


def commits(directory, mode, count, batch):
    database = sqlite3.connect(f"{directory}/{mode}{batch}.db", isolation_level=None)
    database.execute(f"pragma journal_mode = {mode}")
    database.execute("pragma synchronous = normal")
    database.execute("create table t (a integer primary key, b blob)")
    for start in range(0, count, batch):
        database.execute("begin")
        database.executemany("insert into t values (?, ?)", ((n, data[:100]) for n in range(start, start + batch)))
        database.execute("commit")
    database.close()


@workload("SQLite, WAL commits")
def _(directory, scale):
    commits(directory, "wal", scale.commits, 1)


@workload("SQLite, rollback journal")
def _(directory, scale):
    commits(directory, "delete", scale.commits // 5, 1)


@workload("SQLite, bulk")
def _(directory, scale):
    commits(directory, "delete", scale.commits * 100, scale.commits * 100)


@workload("unlink all", needs="create files of 4 KiB")
def _(directory, scale):
    for index in range(scale.files):
        os.unlink(f"{directory}/many/file{index}")
    os.rmdir(f"{directory}/many")


class FileSystem:
    """A file system under test: how it is mounted over a directory of its own, and who serves it."""

    def __init__(self, name, root):
        self.name, self.root = name, f"{root}/{name}"
        self.backing, self.directory = f"{self.root}/backing", f"{self.root}/mount"
        os.makedirs(self.backing)
        os.makedirs(self.directory)
        self.process = None

    def mount(self, options):
        passcode, backing, directory = options.passcode, self.backing, self.directory
        if self.name == "ext4":
            self.directory = backing
        elif self.name == "passthrough":
            self.serve(options.passthrough, "-f", "-o", f"source={backing},writeback,cache=always,timeout=3600", directory)
        elif self.name == "protectfs":
            key = f"{self.root}/device.key"
            run(options.protectfs, "init", backing, "--passcode-file", passcode, "--device-key", key)
            self.serve(options.protectfs, "mount", "-f", backing, directory, "--device-key", key)
            run(options.protectfs, "unlock", directory, "--passcode-file", passcode)
        elif self.name == "gocryptfs":
            run("gocryptfs", "-q", "-init", "-passfile", passcode, backing)
            self.serve("gocryptfs", "-q", "-fg", "-passfile", passcode, backing, directory)
        elif self.name == "securefs":
            run("securefs", "create", "--format", "4", "--pass", "a passcode", backing)
            self.serve("securefs", "mount", "--pass", "a passcode", backing, directory)
        elif self.name == "encfs":
            self.serve("encfs", "-f", "--standard", "--extpass", f"cat {passcode}", backing, directory)

    def serve(self, *arguments):
        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        for _ in range(200):
            if os.path.ismount(self.directory):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"{self.name} did not mount")

    def forget_peak(self):
        """Starts the peak of the daemon's memory anew: that of the key derivation says nothing about serving files."""
        if self.process:
            with open(f"/proc/{self.process.pid}/clear_refs", "w") as file:
                file.write("5")

    def cost(self):
        """CPU seconds of the daemon so far, and its peak memory in MiB since it was mounted."""
        if not self.process:
            return None
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        with open(f"/proc/{self.process.pid}/status") as file:
            peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), peak / 1024

    def unmount(self):
        if self.process:
            subprocess.run(["umount", self.directory], check=False)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                subprocess.run(["umount", "-l", self.directory], check=False)
                self.process.kill()


def prepare(inputs, scale):
    """What workloads read: a tree of source files, as an archive and as a repository."""
    tree = f"{inputs}/tree"
    generator = random.Random(7)
    for directory in range(20 if scale.files < 10_000 else 100):
        os.makedirs(f"{tree}/directory{directory}")
        for file in range(25):
            with open(f"{tree}/directory{directory}/source{file}.c", "w") as output:
                words = (f"word{generator.randrange(5000)}" for _ in range(generator.randrange(50, 2500)))
                output.write(" ".join(words))
    run("tar", "-C", inputs, "-cf", f"{inputs}/tree.tar", "tree")
    run("cp", "-r", tree, f"{inputs}/repository")
    git = ["git", "-C", f"{inputs}/repository", "-c", "user.name=bench", "-c", "user.email=bench@example.org"]
    run("git", "-C", f"{inputs}/repository", "init", "-q")
    run(*git, "add", ".")
    run(*git, "commit", "-qm", "tree")


def measure(work, directory, scale):
    os.sync()
    if work.warm:
        work.function(directory, scale)
        time.sleep(2)
    if work.cold:
        os.sync()
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")
    start = time.perf_counter()
    work.function(directory, scale)
    return time.perf_counter() - start


def clear(directory):
    for name in os.listdir(directory):
        path = f"{directory}/{name}"
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def table(results, names, costs):
    reference = "gocryptfs" if "gocryptfs" in names else names[0]
    median = {key: statistics.median(times) for key, times in results.items()}
    lines = [f"Ratios to {reference}: higher is better. Medians of seconds in brackets.", "",
             "| workload | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    ratios = {name: [] for name in names}
    for workload_name in dict.fromkeys(key[0] for key in results):
        cells = []
        for name in names:
            ratio = median[workload_name, reference] / median[workload_name, name]
            ratios[name].append(ratio)
            cells.append(f"{ratio:.2f} ({median[workload_name, name]:.3f})")
        lines.append(f"| {workload_name} | " + " | ".join(cells) + " |")
    means = {name: math.exp(statistics.fmean(map(math.log, values))) for name, values in ratios.items()}
    lines.append(f"| **geometric mean of {len(ratios[reference])}** | " +
                 " | ".join(f"**{means[name]:.2f}**" for name in names) + " |")
    for title, index in (("daemon's CPU seconds", 0), ("daemon's peak memory, MiB", 1)):
        cells = (f"{costs[name][index]:.1f}" if costs.get(name) else "" for name in names)
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines), ratios


def plot(path, results, names, ratios):
    """Bars of protectfs's ratios on a logarithmic scale, as SVG."""
    labels = list(dict.fromkeys(key[0] for key in results))
    height, width, left = 22 * len(labels) + 60, 760, 300
    reach = max(abs(math.log2(ratio)) for ratio in ratios["protectfs"]) or 1
    middle, unit = left + 160, (width - left - 220) / reach / 1.4
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             'font-family="sans-serif" font-size="12">',
             f'<text x="{left}" y="20" font-weight="bold">protectfs to gocryptfs (logarithmic; right is faster)</text>']
    for index, (label, ratio) in enumerate(zip(labels, ratios["protectfs"])):
        y, length = 40 + 22 * index, math.log2(ratio) * unit
        colour = "#2a7" if ratio >= 1 else "#c43"
        parts.append(f'<text x="{left - 10}" y="{y + 13}" text-anchor="end">{label}</text>')
        parts.append(f'<rect x="{middle + min(length, 0):.1f}" y="{y}" width="{abs(length):.1f}" height="16" fill="{colour}"/>')
        parts.append(f'<text x="{middle + max(length, 0) + 4:.1f}" y="{y + 13}">{ratio:.2f}</text>')
    parts.append(f'<line x1="{middle}" x2="{middle}" y1="34" y2="{height - 20}" stroke="#000"/></svg>')
    with open(path, "w") as file:
        file.write("\n".join(parts) + "\n")


def main():
    global inputs
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--protectfs", required=True)
    parser.add_argument("--passthrough", required=True)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, one round")
    parser.add_argument("--rounds", type=int, help="3, or 1 with --quick")
    parser.add_argument("--only", help="file systems to measure, separated by commas")
    parser.add_argument("--workloads", help="measure only those with one of these words in their names, separated by commas")
    parser.add_argument("--plot", help="write the ratios as SVG to a file")
    parser.add_argument("--directory", default="/var/tmp", help="where the backing directories are made")
    options = parser.parse_args()
    scale = Scale(options.quick)
    selected = chosen(options.workloads.split(",")) if options.workloads else workloads
    names = ["ext4", "passthrough", "protectfs", "gocryptfs", "securefs", "encfs"]
    if options.only:
        names = [name for name in names if name in options.only.split(",")]
    results, costs = {}, {}
    root = tempfile.mkdtemp(prefix="protectfs-bench.", dir=options.directory)
    inputs = f"{root}/inputs"
    mounted = []
    try:
        os.mkdir(inputs)
        options.passcode = f"{root}/passcode"
        with open(options.passcode, "w") as file:
            file.write("a passcode\n")
        prepare(inputs, scale)
        for name in names:
            system = FileSystem(name, root)
            mounted.append(system)
            system.mount(options)
            system.forget_peak()
        for number in range(options.rounds or (1 if options.quick else 3)):
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
        text, ratios = table(results, names, costs)
        print(text)
        if options.plot and "protectfs" in names:
            plot(options.plot, results, names, ratios)
    finally:
        for system in mounted:
            system.unmount()
        shutil.rmtree(root, ignore_errors=True)


main()
