"""A worker: changes a directory of its own on the mount at random, one system call after another, and keeps account."""

import contextlib
import errno
import mmap
import os
import random
import signal
import sys

from crashtest.account import GONE, REFUSED, Gone, Refused
from crashtest.tree import data

CLASSES = ["complete", "completeUnlessOpen", "completeUntilFirstUserAuthentication", "none",
           "completeWhenUserInactive"]
MOST_ENTRIES, MOST_BYTES = 40, 200_000


def whole(descriptor, limit):
    """The contents of a file, up to a limit. A read(2) during which a lock comes ends early, and the next one is refused."""
    found = b""
    while len(found) < limit:
        part = os.pread(descriptor, limit - len(found), len(found))
        if not part:
            break
        found += part
    return found


class Worker:
    def __init__(self, directory, tree, account, seed):
        self.directory, self.tree, self.account = directory, tree, account
        self.random = random.Random(seed)
        self.seed, self.count = seed, 0

    # One system call each.

    def do(self, operation, call):
        self.tree.apply(self.account.run(operation, call))

    def path(self, identity, name=None):
        parts = next((path for path, child, _ in self.tree.walk() if child == identity), ())
        return "/".join([self.directory, *parts, *([name] if name else [])])

    def identity(self):
        self.count += 1
        return f"{self.seed}.{self.count}"

    def create(self, directory, name):
        identity = self.identity()
        descriptors = []
        self.do(("create", directory, name, identity), lambda: descriptors.append(
            os.open(self.path(directory, name), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)))
        return identity, descriptors[0]

    def write(self, identity, descriptor, offset, count):
        tag = self.identity()

        def call():
            # Short where the class was locked, or the daemon killed, between two pages.
            done = os.pwrite(descriptor, data(tag, count), offset)
            return ("write", identity, offset, done, tag) if done != count else None
        self.do(("write", identity, offset, count, tag), call)

    def write_mapped(self, identity, descriptor, offset, count):
        """Writes through a mapping, up to what the file has, and msync(2). A lock may have come between."""
        tag = self.identity()
        with memory(data(tag, count)) as source, mapped(descriptor, offset + count) as mapping:
            def call():
                try:
                    # As pread(2) writes to the mapping, a page that cannot be had is an error, and no signal.
                    done = os.preadv(source, [memoryview(mapping)[offset:]], 0)
                    mapping.flush()
                except OSError as error:
                    if error.errno not in {*REFUSED, errno.EFAULT}:
                        raise
                    done = 0
                return ("perhaps_write", identity, offset, count, tag) if done != count else None
            self.do(("write", identity, offset, count, tag), call)

    def read(self, identity, descriptor):
        """Compares the file with what it should hold: as read(2) has it, and as a mapping."""
        node = self.tree.nodes[identity]
        if node.is_doubtful or not node.content:
            return
        with self.refusing(), mapped(descriptor, len(node.content)) as mapping, memory(b"") as copy:
            self.expect(node, whole(descriptor, len(node.content) + 1))
            count = os.pwrite(copy, mapping, 0)
            self.expect(node, os.pread(copy, count, 0), count)

    @staticmethod
    def expect(node, found, count=None):
        if found == node.content[:count]:
            return
        differing = next((at for at, (one, other) in enumerate(zip(found, node.content)) if one != other), None)
        raise AssertionError(f"read {len(found)} bytes of {len(node.content)}, differing at {differing}")

    def fsync(self, identity, descriptor):
        if self.random.random() < 0.2:
            self.do(("fdatasync", identity), lambda: os.fdatasync(descriptor))
        else:
            self.do(("fsync", identity), lambda: os.fsync(descriptor))

    def fsync_directory(self, identity):
        descriptor = os.open(self.path(identity), os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.do(("fsync", identity), lambda: os.fsync(descriptor))
        finally:
            os.close(descriptor)

    # Choices.

    def name(self):
        """A name that is new; one in three is so long that it needs a sidecar."""
        short = f"f{self.identity()}"
        return short if self.random.random() < 0.66 else short.ljust(self.random.randint(180, 255), "n")

    def entries(self, kind):
        return [(directory, path[-1], child) for path, child, directory in self.tree.walk()
                if self.tree.nodes[child].kind == kind]

    def some_directory(self):
        return self.random.choice(["/", *(child for _, _, child in self.entries("directory"))])

    def some(self, kind):
        entries = self.entries(kind)
        if not entries:
            raise IndexError
        return self.random.choice(entries)

    def length(self):
        """Near edges of blocks and units as often as not."""
        edge = self.random.choice([0, 16, 4096, 8192, 65536])
        return self.random.choice([max(0, edge + self.random.randint(-17, 17)), self.random.randint(1, 30_000)])

    # Actions. One that finds nothing to work on raises IndexError.

    def fill(self, identity, descriptor):
        for _ in range(self.random.randint(1, 3)):
            self.write(identity, descriptor, len(self.tree.nodes[identity].content), max(1, self.length()))

    def act_make(self):
        directory = self.some_directory()
        identity, descriptor = self.create(directory, self.name())
        with closing(descriptor):
            self.fill(identity, descriptor)
            if self.random.random() < 0.5:
                self.fsync(identity, descriptor)
        if self.random.random() < 0.3:
            self.fsync_directory(directory)

    def act_change(self):
        directory, name, identity = self.some("file")
        descriptor = self.open(directory, name)
        with closing(descriptor):
            self.change(identity, descriptor)

    def change(self, identity, descriptor):
        for _ in range(self.random.randint(1, 4)):
            size = len(self.tree.nodes[identity].content)
            offset = size if self.random.random() < 0.5 else self.random.randint(0, size + 9000)
            count = max(1, self.length())
            # Once is enough for doubt: each doubles what the file may hold.
            if offset < size and not self.tree.nodes[identity].is_doubtful and self.random.random() < 0.4:
                self.write_mapped(identity, descriptor, offset, min(count, size - offset))
            elif offset + count > MOST_BYTES:
                self.do(("truncate", identity, 0), lambda: os.ftruncate(descriptor, 0))
            else:
                self.write(identity, descriptor, offset, count)
            if self.random.random() < 0.3:
                self.read(identity, descriptor)
        if self.random.random() < 0.6:
            self.fsync(identity, descriptor)

    def open(self, directory, name):
        with self.refusing():
            return os.open(self.path(directory, name), os.O_RDWR)

    @staticmethod
    @contextlib.contextmanager
    def refusing():
        """For calls that change nothing, and are not told to the account."""
        try:
            yield
        except OSError as error:
            # A mapping does not say whether the class is locked or the daemon dead: the next call does.
            if error.errno in {*REFUSED, errno.EFAULT}:
                raise Refused from error
            if error.errno in GONE:
                raise Gone from error
            raise

    def act_truncate(self):
        directory, name, identity = self.some("file")
        descriptor = self.open(directory, name)
        with closing(descriptor):
            length = self.length()
            self.do(("truncate", identity, length), lambda: os.ftruncate(descriptor, length))
            if self.random.random() < 0.5:
                self.fsync(identity, descriptor)

    def act_replace(self):
        """As editors save."""
        directory, name, _ = self.some("file")
        aside = self.name()
        identity, descriptor = self.create(directory, aside)
        with closing(descriptor):
            self.fill(identity, descriptor)
            self.do(("fsync", identity), lambda: os.fsync(descriptor))
        self.rename(directory, aside, directory, name)
        self.fsync_directory(directory)

    def rename(self, source, name, target, new_name):
        self.do(("rename", source, name, target, new_name),
                lambda: os.rename(self.path(source, name), self.path(target, new_name)))

    def act_rename(self):
        source, name, _ = self.some(self.random.choice(["file", "file", "link"]))
        if self.random.random() < 0.2:
            target, new_name, _ = self.some("file")
        else:
            target, new_name = self.some_directory(), self.name()
        self.rename(source, name, target, new_name)
        if self.random.random() < 0.4:
            self.fsync_directory(target)

    def act_rename_directory(self):
        source, name, _ = self.some("directory")
        self.rename(source, name, source, self.name())

    def act_link(self):
        source, name, identity = self.some("file")
        target, new_name = self.some_directory(), self.name()
        self.do(("link", identity, target, new_name),
                lambda: os.link(self.path(source, name), self.path(target, new_name)))

    def act_unlink(self):
        directory, name, _ = self.some(self.random.choice(["file", "file", "file", "link"]))
        self.do(("unlink", directory, name), lambda: os.unlink(self.path(directory, name)))
        if self.random.random() < 0.2:
            self.fsync_directory(directory)

    def act_mkdir(self):
        directory, name, identity = self.some_directory(), self.name(), self.identity()
        self.do(("mkdir", directory, name, identity), lambda: os.mkdir(self.path(directory, name)))

    def act_rmdir(self):
        directory, name, identity = self.some("directory")
        for child in list(self.tree.nodes[identity].entries):
            if self.tree.nodes[self.tree.nodes[identity].entries[child]].kind == "directory":
                return
            self.do(("unlink", identity, child), lambda child=child: os.unlink(self.path(identity, child)))
        self.do(("rmdir", directory, name), lambda: os.rmdir(self.path(directory, name)))

    def act_symlink(self):
        directory, name, identity = self.some_directory(), self.name(), self.identity()
        target = "t" * self.random.choice([1, 40, 300, 700])
        self.do(("symlink", directory, name, identity, target),
                lambda: os.symlink(target, self.path(directory, name)))

    def act_class(self):
        directory, name, identity = self.some(self.random.choice(["file", "file", "directory"]))
        new = self.random.choice(CLASSES)
        self.do(("class", identity, new), lambda: os.setxattr(
            self.path(directory, name), "user.protectfs.class", new.encode()))

    def act_rekey(self):
        """Draws a new key, which changes nothing that is seen, and goes on with the file while its contents are brought
        under that."""
        directory, name, identity = self.some("file")
        descriptor = self.open(directory, name)
        with closing(descriptor):
            with self.refusing():
                os.setxattr(self.path(directory, name), "user.protectfs.rekey", b"1")
            for _ in range(self.random.randint(0, 3)):
                self.change(identity, descriptor)
                self.read(identity, descriptor)

    def act_attribute(self):
        directory, name, identity = self.some(self.random.choice(["file", "directory"]))
        path, present = self.path(directory, name), self.tree.nodes[identity].xattrs
        attribute = f"user.{self.random.choice('abc')}"
        if attribute in present and self.random.random() < 0.4:
            self.do(("removexattr", identity, attribute), lambda: os.removexattr(path, attribute))
        else:
            value = self.random.randbytes(self.random.choice([0, 10, 600])).hex()
            self.do(("setxattr", identity, attribute, value),
                    lambda: os.setxattr(path, attribute, bytes.fromhex(value)))

    actions = {"make": 10, "change": 14, "truncate": 5, "replace": 10, "rename": 10, "rename_directory": 2, "link": 4,
               "unlink": 5, "mkdir": 4, "rmdir": 2, "symlink": 3, "class": 4, "rekey": 8, "attribute": 4}

    def step(self):
        action = self.random.choices(list(self.actions), list(self.actions.values()))[0]
        if len(list(self.tree.walk())) > MOST_ENTRIES and action not in ("change", "replace"):
            action = self.random.choice(["unlink", "rmdir"])
        try:
            getattr(self, "act_" + action)()
        except (IndexError, Refused):
            pass

    def work(self):
        while True:
            self.step()


@contextlib.contextmanager
def memory(content):
    """A descriptor of a file in memory."""
    descriptor = os.memfd_create("content")
    try:
        os.write(descriptor, content)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def mapped(descriptor, length):
    """A shared mapping. A view of it that an error holds on to would keep it from being closed."""
    mapping = mmap.mmap(descriptor, length)
    try:
        yield mapping
    finally:
        with contextlib.suppress(BufferError):
            mapping.close()


class closing:
    """Closes a descriptor; what close(2) says of a dead mount says nothing new."""

    def __init__(self, descriptor):
        self.descriptor = descriptor

    def __enter__(self):
        return self.descriptor

    def __exit__(self, *_):
        try:
            os.close(self.descriptor)
        except OSError as error:
            if error.errno not in GONE:
                raise


def start(directory, tree, account, seed):
    """Forks a worker, which runs until it is killed or its mount is dead; returns its process ID."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        Worker(directory, tree, account, seed).work()
    except Gone:
        status = 0
    except OSError as error:
        if error.errno in GONE:
            status = 0
        else:
            print(f"worker {seed}: {error}", file=sys.stderr, flush=True)
    except BaseException as error:
        print(f"worker {seed}: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)
