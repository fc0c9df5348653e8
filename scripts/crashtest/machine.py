"""A machine whose power can be cut: a file system on a loop device on disk.py."""

import contextlib
import os
import subprocess
import sys
import time

from crashtest.store import Failure

MEBIBYTE = 1 << 20
# Those whose journal keeps the order of names, which the check relies on.
MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
}
# xfs makes none under 300 MiB.
SIZE = {"ext4": 96, "xfs": 300}
CHECK = {
    "ext4": ["e2fsck", "-f", "-n"],
    "xfs": ["xfs_repair", "-n"],
}


def run(*arguments):
    result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise Failure(f"{' '.join(arguments)}: status {result.returncode}: {result.stdout}{result.stderr}")
    return result.stdout


def attach(path):
    """The loop device that a file is on from now on."""
    return run("losetup", "--find", "--show", path).strip()


def detach(loop):
    run("losetup", "--detach", loop)


class Machine:
    """The image lies in `directory`; it is the disk's content at the last power cut."""

    def __init__(self, directory, file_system):
        self.file_system = file_system
        self.image, self.after = f"{directory}/image", f"{directory}/image.after"
        self.disk, self.mount_point = f"{directory}/disk", f"{directory}/backing-file-system"
        self.process = self.loop = None
        os.mkdir(self.mount_point)
        with open(self.disk, "wb"):
            pass
        with open(self.image, "wb") as image:
            image.truncate(SIZE[file_system] * MEBIBYTE)
        run(*MAKE[file_system], self.image)

    def start(self):
        """Powers it on. The file system recovers, and is sound then: else the disk was not one."""
        self.process = subprocess.Popen(
            [sys.executable, f"{os.path.dirname(os.path.abspath(__file__))}/disk.py", self.image, self.disk],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        while not os.path.ismount(self.disk):
            if self.process.poll() is not None:
                raise Failure("the disk does not start")
            time.sleep(0.005)
        self.loop = attach(self.disk)
        self.mount()
        run("umount", self.mount_point)
        run(*CHECK[self.file_system], self.loop)
        self.mount()

    def mount(self):
        run("mount", "-t", self.file_system, self.loop, self.mount_point)

    def make_durable(self):
        run("sync", "-f", self.mount_point)

    def cut_power(self, seed):
        """Keeps what the disk would hold without power from now on. Returns the moment, and the numbers of writes not
        flushed that are there, and are not."""
        return tuple(map(int, self.tell("cut", self.after, seed).split()))

    def tell(self, *words):
        """Gives the disk a command. Returns its answer."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise Failure("the disk has ended")
        return line

    @contextlib.contextmanager
    def recovered(self, pieces):
        """Mounts what the disk would hold with these pieces, as the next start finds it. Not while it is powered on:
        two file systems of one identity are not mounted at a time."""
        copy = f"{self.image}.part"
        run("cp", "--sparse=always", self.image, copy)
        with open(copy, "r+b") as file:
            for start, content in pieces:
                file.seek(start)
                file.write(content)
        self.loop = attach(copy)
        try:
            self.mount()
            try:
                yield self.mount_point
            finally:
                run("umount", self.mount_point)
        finally:
            detach(self.loop)
            self.loop = None
            os.remove(copy)

    def stop(self):
        """Takes it away; what it did since the power cut is forgotten."""
        if self.process is None:
            return
        while os.path.ismount(self.mount_point):
            run("umount", self.mount_point)
        if self.loop:
            detach(self.loop)
        while os.path.ismount(self.disk):
            subprocess.run(["umount", "-l", self.disk], check=True)
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
        self.process = self.loop = None
        if os.path.exists(self.after):
            os.replace(self.after, self.image)
