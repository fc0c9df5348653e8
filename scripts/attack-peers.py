#!/usr/bin/env python3
"""Does to gocryptfs and CryFS what AttackTableTests does to stores: the last two columns of the table in SECURITY.md.

    scripts/attack-peers.py

Prints an attack a line, as the table has them. Needs gocryptfs, cryfs and /dev/fuse.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time

SIZE = 20_000
PAGE = 4096
EARLIER, CURRENT, OTHER = ((word * SIZE)[:SIZE] for word in (b"earlier ", b"current ", b"other "))
ZEROS = bytes(16 * PAGE)


class Gocryptfs:
    """A file: a header of 18 bytes, then blocks of 4096 bytes with 32 more."""

    header, block = 18, PAGE + 32

    def __init__(self, directory):
        self.backing, self.mount_point = directory / "backing", directory / "mount"
        self.backing.mkdir()
        self.mount_point.mkdir()
        self.password = directory / "password"
        self.password.write_text("password\n")
        self.run("-init", "-scryptn", "10", self.backing)

    def run(self, *arguments):
        subprocess.run(["gocryptfs", "-q", "-passfile", self.password, *arguments], check=True, capture_output=True)

    def mount(self):
        self.run(self.backing, self.mount_point)

    def unmount(self):
        subprocess.run(["fusermount3", "-u", self.mount_point], check=True)

    def prepare(self):
        """Files as in the test; what changed in the backing directory with each is known by its names."""
        self.mount()
        self.names = {}
        for name, make in FILES.items():
            known = set(os.listdir(self.backing))
            make(self.mount_point / name)
            self.names[name], = set(os.listdir(self.backing)) - known
        self.unmount()
        self.before = self.file("a").read_bytes()
        self.store_before = {file.name: file.read_bytes() for file in self.backing.iterdir() if not file.is_symlink()}
        self.mount()
        with open(self.mount_point / "a", "r+b") as stream:
            stream.write(CURRENT)
        self.unmount()
        self.password_before = self.password.read_text()
        subprocess.run(["gocryptfs", "-passwd", "-q", "-scryptn", "10", self.backing], check=True, capture_output=True,
                       input=f"{self.password_before}another\nanother\n", text=True)
        self.password.write_text("another\n")
        self.after = self.file("a").read_bytes()

    def file(self, name):
        return self.backing / self.names[name]

    def part(self, contents, number, share=1.0):
        start = self.header + number * self.block
        return start, contents[start:start + int(self.block * share)]

    def put(self, start, data):
        with open(self.file("a"), "r+b") as stream:
            stream.seek(start)
            stream.write(data)

    def exchange(self, one, other):
        aside = self.backing / "aside"
        os.rename(self.file(one), aside)
        os.rename(self.file(other), self.file(one))
        os.rename(aside, self.file(other))

    # The attacks.

    def bit(self):
        start, data = self.part(self.after, 2)
        self.put(start + 100, bytes([data[100] ^ 1]))

    def zero(self):
        start, data = self.part(self.after, 2)
        self.put(start, bytes(len(data)))

    def moved(self):
        self.put(self.part(self.after, 2)[0], self.part(self.after, 3)[1])

    def of_another(self):
        self.put(*self.part(self.file("b").read_bytes(), 2))

    def half_earlier(self):
        self.put(*self.part(self.before, 2, 0.5))

    def earlier(self):
        self.put(*self.part(self.before, 2))

    def cut(self):
        os.truncate(self.file("a"), self.part(self.after, 2)[0])

    def extend(self):
        os.truncate(self.file("a"), self.part(self.after, 8)[0])

    def contents_exchanged(self):
        one, other = self.file("a").read_bytes(), self.file("b").read_bytes()
        self.file("a").write_bytes(other)
        self.file("b").write_bytes(one)

    def all_earlier(self):
        self.file("a").write_bytes(self.before)

    whole_earlier = all_earlier

    def exchanged(self):
        self.exchange("a", "b")

    def links(self):
        self.exchange("s", "t")

    def keys_earlier(self):
        (self.backing / "gocryptfs.conf").write_bytes(self.store_before["gocryptfs.conf"])

    def store_earlier(self):
        for name, data in self.store_before.items():
            (self.backing / name).write_bytes(data)
        self.password.write_text(self.password_before)


class CryFS(Gocryptfs):
    """Everything is in blocks of one size; what this machine remembers of their versions is in the home directory."""

    def __init__(self, directory):
        self.backing, self.mount_point = directory / "backing", directory / "mount"
        self.backing.mkdir()
        self.mount_point.mkdir()
        home = directory / "home"
        home.mkdir()
        self.environment = {**os.environ, "HOME": str(home), "CRYFS_FRONTEND": "noninteractive",
                            "CRYFS_NO_UPDATE_CHECK": "true"}
        self.environment.pop("XDG_DATA_HOME", None)

    def mount(self):
        subprocess.run(["cryfs", self.backing, self.mount_point], input=b"password\n", check=True, capture_output=True,
                       env=self.environment)

    def unmount(self):
        subprocess.run(["fusermount", "-u", self.mount_point], check=False, capture_output=True)
        deadline = time.monotonic() + 20
        while os.path.ismount(self.mount_point) or self.is_running():
            if time.monotonic() > deadline:
                raise TimeoutError("CryFS does not end")
            time.sleep(0.05)

    def is_running(self):
        return subprocess.run(["pgrep", "-f", f"cryfs {self.backing}"], capture_output=True, check=False).returncode == 0

    def blocks(self):
        return {str(file.relative_to(self.backing)): file.read_bytes()
                for file in self.backing.rglob("*") if file.is_file() and file.name != "cryfs.config"}

    def prepare(self):
        self.names = {}
        for name, make in FILES.items():
            known = self.blocks()
            self.mount()
            make(self.mount_point / name)
            self.unmount()
            self.names[name] = sorted(set(self.blocks()) - set(known))
        self.before = self.blocks()

        def change(start, end):
            known = self.blocks()
            self.mount()
            with open(self.mount_point / "a", "r+b") as stream:
                stream.seek(start)
                stream.write(CURRENT[start:end])
            self.unmount()
            return {name for name, data in self.blocks().items() if known.get(name) != data}

        # The block that has page 2, and the one with the end.
        first, second = change(2 * PAGE, 3 * PAGE), change(SIZE - 100, SIZE)
        self.leaf, = first - second
        self.last, = second - first
        change(0, SIZE)
        self.after = self.blocks()

    def write(self, name, data):
        (self.backing / name).write_bytes(data)

    def bit(self):
        data = bytearray(self.after[self.leaf])
        data[len(data) // 2] ^= 1
        self.write(self.leaf, data)

    def zero(self):
        data = self.after[self.leaf]
        self.write(self.leaf, data[:100] + bytes(len(data) - 100))

    def moved(self):
        self.write(self.leaf, self.after[self.last])

    def of_another(self):
        self.write(self.leaf, self.after[self.names["b"][0]])

    def half_earlier(self):
        middle = len(self.after[self.leaf]) // 2
        self.write(self.leaf, self.before[self.leaf][:middle] + self.after[self.leaf][middle:])

    def earlier(self):
        self.write(self.leaf, self.before[self.leaf])

    def cut(self):
        os.unlink(self.backing / self.last)

    extend = None

    def contents_exchanged(self):
        for one, other in zip(self.names["a"], self.names["b"]):
            self.write(one, self.after[other])
            self.write(other, self.after[one])

    def all_earlier(self):
        for name in self.names["a"]:
            self.write(name, self.before[name])

    def whole_earlier(self):
        for name, data in self.before.items():
            self.write(name, data)

    exchanged = None
    keys_earlier = None
    store_earlier = whole_earlier

    def links(self):
        one, other = self.names["s"][0], self.names["t"][0]
        self.write(one, self.after[other])
        self.write(other, self.after[one])


FILES = {
    "a": lambda path: path.write_bytes(EARLIER),
    "b": lambda path: path.write_bytes(OTHER),
    "s": lambda path: path.symlink_to("one"),
    "t": lambda path: path.symlink_to("two"),
}

# In the words of AttackTableTests; `None` where there is no such thing.
ATTACKS = {
    "a bit is changed": "bit",
    "a page of 4096 bytes is made zeros": "zero",
    "a page is put in another's place": "moved",
    "a page of another file is put in its place": "of_another",
    "half a page is as it was before": "half_earlier",
    "a page is as it was before": "earlier",
    "the file is cut": "cut",
    "the file is extended": "extend",
    "the contents of two files are exchanged": "contents_exchanged",
    "all contents are as they were before": "all_earlier",
    "the file is as it was before, with its record": "whole_earlier",
    "two files are exchanged": "exchanged",
    "the targets of two links are exchanged": "links",
    "the record of a directory is as it was before": None,
    "the keybag is as it was before a change of the passcode": "keys_earlier",
    "the keybag and the effaceable secret are as they were before": None,
    "the whole store is as it was before": "store_earlier",
}


def state(path):
    """What a program reads of a file, page by page."""
    try:
        size = path.stat().st_size
    except OSError:
        return "EIO for the file"
    found = [] if size == SIZE else ["another length"]
    failures, pages = 0, -(-size // PAGE)
    for start in range(0, size, PAGE):
        count = min(PAGE, size - start)
        try:
            with open(path, "rb", buffering=0) as stream:
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
                data = os.pread(stream.fileno(), count, start)
        except OSError:
            failures += 1
            continue

        def is_all(*allowed):
            return all(any(one[place:place + 1] == data[place - start:place - start + 1] for one in allowed)
                       for place in range(start, start + count))

        label = (None if is_all(CURRENT) else "earlier contents" if is_all(EARLIER, CURRENT)
                 else "contents of the other" if is_all(OTHER) else "zeros" if is_all(ZEROS, CURRENT) else "garbage")
        if label and label not in found:
            found.append(label)
    if failures:
        found.append("EIO for the file" if failures == pages else "EIO for the page" if failures == 1 else "EIO")
    return ", ".join(found) or "nothing changes"


def target(path):
    try:
        text = os.readlink(path)
    except OSError:
        return "EIO"
    return {"one": "nothing changes", "two": "that of the other"}.get(text, "garbage")


def earlier_password(store):
    """Whether the one from before opens a store that today's does not."""
    today = store.password.read_text()
    try:
        store.password.write_text(store.password_before)
        store.mount()
        store.unmount()
        return "the passcode of then opens it"
    except subprocess.CalledProcessError:
        return "the store does not open"
    finally:
        store.password.write_text(today)


def answer(store, kept, attack):
    """Of a store that is as it was kept."""
    if attack is None or getattr(store, attack) is None:
        return "–"
    for directory in kept.iterdir():
        shutil.rmtree(kept.parent / directory.name)
        shutil.copytree(directory, kept.parent / directory.name, symlinks=True)
    getattr(store, attack)()
    try:
        store.mount()
    except subprocess.CalledProcessError:
        return "the store does not open" if attack != "keys_earlier" else earlier_password(store)
    try:
        return target(store.mount_point / "s") if attack == "links" else state(store.mount_point / "a")
    finally:
        store.unmount()


def main():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="protectfs-attacks."))
    try:
        stores = []
        for peer in (Gocryptfs, CryFS):
            work = directory / peer.__name__
            work.mkdir()
            store = peer(work)
            store.prepare()
            for name in ("backing", "home"):
                if (work / name).exists():
                    shutil.copytree(work / name, work / "kept" / name, symlinks=True)
            stores.append((store, work / "kept"))
        for name, attack in ATTACKS.items():
            print(f"| {name} | {' | '.join(answer(store, kept, attack) for store, kept in stores)} |", flush=True)
    finally:
        shutil.rmtree(directory)


main()
