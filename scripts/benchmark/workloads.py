"""Workloads. One is a function below, marked @workload; it works in a directory that the file system under test shows. They
run in their order, since some use what others made; each runs on every file system before the next begins.
"""

import mmap
import os
import random
import sqlite3
import subprocess
import threading

KIB, MIB = 1024, 1 << 20
workloads = []
# A tree of files as an archive and as a repository, which `prepare` makes.
inputs = None


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


def prepare(directory, scale):
    """Makes what workloads read: a tree of source files, as an archive and as a repository."""
    global inputs
    inputs = directory
    os.makedirs(directory)
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
