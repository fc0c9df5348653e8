#!/usr/bin/env python3
"""Has two hosts use one store on a file system that serves both, and prints what was seen. Called by hosts-test.sh.

Exits with 1 if something was not as it must be. Times are of one run on one machine: they say what to expect of the file
system, and only bounds that the documents name are held.
"""

import argparse
import contextlib
import errno
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from hosts.cephfs import CephFS
from hosts.glusterfs import GlusterFS
from hosts.moosefs import MooseFS
from hosts.network import Network, run

ENGINES = {"cephfs": CephFS, "glusterfs": GlusterFS, "moosefs": MooseFS}
PATIENCE = 180
# A file that is overwritten in place while its host is cut off.
WRITTEN = 4 << 20
OVERWRITE = """
import os, sys
file = os.open(sys.argv[1], os.O_RDWR)
number = 0
while True:
    number += 1
    os.pwrite(file, b"%08d" % number * 8192, number * 65536 % (4 << 20))
    if number % 5 == 0: os.fsync(file)
    if number == 100: print("begun", flush=True)
"""


def await_that(condition, seconds=PATIENCE):
    """The seconds until something holds; None if it does not come to that."""
    start = time.monotonic()
    while time.monotonic() < start + seconds:
        if condition():
            return time.monotonic() - start
        time.sleep(0.02)
    return None


class Host:
    """A host with a mount of the store."""

    def __init__(self, test, name):
        self.test, self.name = test, name
        self.backing = test.engine.mount(name) / "store"
        self.bare = self.backing.parent / "bare"
        self.mount_point = test.directory / f"mount.{name}"
        self.mount_point.mkdir()
        self.device_key, self.passcode = test.device_key, test.passcode
        self.daemon = None
        # What is mounted besides.
        self.others = []

    def start(self, *options):
        """Starts a daemon in the foreground, which unlocks; does not wait for it."""
        log = open(self.test.directory / f"log.{self.name}", "a", encoding="utf-8")
        self.daemon = subprocess.Popen(
            [self.test.protectfs, "mount", "--foreground", "-o", ",".join(("push_timeout=1", *options)),
             "--device-key", self.device_key, "--passcode-file", self.passcode, self.backing, self.mount_point],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def status(self):
        shown = run(self.test.protectfs, "status", "--json", self.mount_point, check=False, timeout=60)
        try:
            return json.loads(shown.stdout)
        except ValueError:
            return {}

    def state(self):
        return self.status().get("state")

    def is_unlocked(self):
        return os.path.ismount(self.mount_point) and self.state() == "unlocked"

    def mount(self, *options):
        self.start(*options)
        return await_that(self.is_unlocked)

    def unlock(self):
        return run(self.test.protectfs, "unlock", "--passcode-file", self.passcode, self.mount_point, check=False,
                   timeout=60).returncode == 0

    def awaits_word(self):
        return "has not given it up" in (self.test.directory / f"log.{self.name}").read_text().rsplit("mounted", 1)[-1]

    def backing_file(self, name):
        """Found by its number, which is that of the file on the mount."""
        number = (self.mount_point / name).stat().st_ino
        return next(entry for entry in self.backing.iterdir() if entry.lstat().st_ino == number)

    def unmount(self):
        run(self.test.protectfs, "unmount", self.mount_point)
        return self.daemon.wait(60)

    def clean_up(self):
        for point in [self.mount_point, *self.others]:
            run("umount", "-l", point, check=False)
        if self.daemon and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait(60)


def save_and_read(writer, reader, count):
    """One saves a file by rename again and again, while another reads it. Returns the seconds until the other has seen
    each, and what it has seen besides."""
    writer.mkdir(exist_ok=True)
    saved, seen = {}, {}
    torn = stale = gone = failed = 0
    ended = threading.Event()

    def save():
        try:
            for number in range(count):
                (writer / "new").write_bytes(b"%08d" % number * 1024)
                os.rename(writer / "new", writer / "file")
                saved[number] = time.monotonic()
                time.sleep(0.02)
        finally:
            ended.set()

    thread = threading.Thread(target=save)
    thread.start()
    last = False
    while not last:
        last = ended.is_set() and (count - 1 in seen or time.monotonic() > saved.get(count - 1, 0) + 30)
        try:
            content = (reader / "file").read_bytes()
        except FileNotFoundError:
            # A name that is replaced is there at any time.
            gone += bool(seen)
            continue
        except OSError as error:
            stale, failed = stale + (error.errno == 116), failed + (error.errno != 116)
            continue
        if len(content) != 8192 or content != content[:8] * 1024:
            torn += 1
        else:
            seen.setdefault(int(content[:8]), time.monotonic())
    thread.join()
    # What was replaced before it was looked at was seen with its successor.
    delays, later = [], None
    for number in reversed(range(count)):
        later = seen.get(number, later)
        if later is not None:
            delays.append(max(0, later - saved[number]))
    return delays, {"torn": torn, "stale": stale, "gone": gone, "failed": failed, "unseen": count - len(delays)}


def read(path):
    """What a file has, or why that cannot be read."""
    try:
        return path.read_text()
    except OSError as error:
        return error.errno


class Test:
    def __init__(self, options, directory):
        self.protectfs, self.quick = options.protectfs, options.quick
        self.rotations = options.rotations
        # An even number, so that the hosts have their parts again.
        self.takeovers = 0 if options.quick else options.takeovers // 2 * 2
        self.saves = options.saves or (100 if options.quick else 1000)
        self.kind = ["--authenticated"] if options.authenticated else []
        self.directory = pathlib.Path(directory)
        self.network = Network(f"protectfs-{os.getpid()}")
        self.engine = ENGINES[options.engine](self.network, directory)
        self.passcode, self.device_key = self.directory / "passcode", self.directory / "device.key"
        self.rows, self.hosts = [], []

    def note(self, what, holds, figure=""):
        self.rows.append((what, holds, figure))
        print(f"{'ok    ' if holds else 'FAILED'} {what}{': ' if figure else ''}{figure}", flush=True)

    def note_time(self, what, seconds, most=PATIENCE):
        self.note(what, seconds is not None and seconds <= most, f"{seconds:.1f} s" if seconds is not None else "never")

    def run(self):
        try:
            self.network.start()
            self.engine.start()
            a, b = (Host(self, name) for name in ["a", "b"])
            self.hosts = [a, b]
            self.passcode.touch(0o600)
            self.passcode.write_text("correct horse battery staple\n")
            a.backing.mkdir()
            run(self.protectfs, "init", a.backing, "--passcode-file", self.passcode, "--device-key", self.device_key,
                *self.kind)
            self.note_time("mount to write, and unlock", a.mount())
            for check in [self.second_writer, self.reader, self.own_keys, self.killed, self.rotating, self.left]:
                check(a, b)
            if self.quick:
                self.erasure(b, a)
            else:
                self.cut_off(a, b)
                self.erasure(a, b)
        except BaseException:
            for log in sorted(self.directory.glob("log.*")):
                print(f"-- {log.name}", *log.read_text().splitlines()[-20:], sep="\n", file=sys.stderr)
            raise
        finally:
            self.clean_up()

    def clean_up(self):
        """Does all of it, whatever fails."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.network.stop)
            stack.callback(self.engine.stop)
            for host in self.hosts:
                stack.callback(host.clean_up)
            # What waits for the server goes on.
            stack.callback(self.network.restore)

    def second_writer(self, a, b):
        b.start()
        self.note("a second writer is refused", b.daemon.wait(60) == 7)

    def reader(self, a, b):
        self.note_time("another host reads", b.mount("ro"))
        places = {"bare": (a.bare, b.bare), "protectfs": (a.mount_point, b.mount_point)}
        if not self.quick and shutil.which("gocryptfs"):
            places["gocryptfs -sharedstorage"] = self.start_gocryptfs(a), self.start_gocryptfs(b)
        for name, (writer, reader) in places.items():
            delays, faults = save_and_read(writer, reader, self.saves)
            # What the file system itself does not promise is not asked of a store on it; of a peer nothing is.
            unkept = {"bare": ["gone", "stale"], "protectfs": self.engine.unkept}.get(name, faults)
            times = f"median {statistics.median(delays):.3f} s, most {max(delays):.3f} s, " if delays else ""
            self.note(f"{self.saves} saves by rename, seen by the other host, {name}",
                      not any(count for fault, count in faults.items() if fault not in unkept),
                      times + ", ".join(f"{count} {fault}" for fault, count in faults.items()))
        b.unmount()

    def start_gocryptfs(self, host):
        """Mounts one of its stores, which the first host makes; returns where."""
        backing, point = host.backing.parent / "gocryptfs", self.directory / f"gocryptfs.{host.name}"
        passcode = ["-quiet", "-passfile", self.passcode]
        if not backing.exists():
            backing.mkdir()
            run("gocryptfs", "-init", "-scryptn", "10", *passcode, backing)
        point.mkdir()
        run("gocryptfs", "-sharedstorage", *passcode, backing, point)
        host.others.append(point)
        return point

    def own_keys(self, a, b):
        """The other host has a passcode of its own, and class C alone."""
        b.device_key, b.passcode = self.directory / "b.host", self.directory / "passcode.b"
        b.passcode.touch(0o600)
        b.passcode.write_text("another one, of host b\n")
        code = self.directory / "code"
        run(self.protectfs, "host", "add", "--name", "b", "--classes", "C", "--device-key", b.device_key,
            "--new-passcode-file", b.passcode, "--code-file", code, b.backing)
        run(self.protectfs, "host", "accept", "--code-file", code, "--passcode-file", a.passcode, a.mount_point)
        for letter in "AC":
            (a.mount_point / letter).write_text(letter)
            run(self.protectfs, "class", "set", letter, a.mount_point / letter)
        self.note_time("a host with keys of its own reads", b.mount("ro"))
        self.note("the class that it was given", read(b.mount_point / "C") == "C")
        self.note("and not another", read(b.mount_point / "A") == errno.EACCES)
        run(self.protectfs, "lock", "--now", b.mount_point)
        self.note("it locks for itself", (b.state(), a.state()) == ("locked", "unlocked"))
        b.unlock()
        times = []
        for number in range(3 if self.quick else self.rotations):
            run(self.protectfs, "rotate", "--class", "C", "--passcode-file", a.passcode, a.mount_point)
            (a.mount_point / f"after {number}").write_text(f"{number}")
            times.append(await_that(lambda: read(b.mount_point / f"after {number}") == f"{number}", 30))
        seen = [time for time in times if time is not None]
        self.note(f"{len(times)} rotations, each gone on with by the other host", len(seen) == len(times),
                  f"median {statistics.median(seen):.1f} s, most {max(seen):.1f} s" if seen else "never")
        self.note("and no file is lost to it",
                  all(read(b.mount_point / f"after {number}") == f"{number}" for number in range(len(times))))
        self.set_classes(a, "A,C")
        b.unlock()
        self.note("a class that it is given comes with its next unlock", read(b.mount_point / "A") == "A")
        self.set_classes(a, "C")
        self.note_time("one that is taken from it goes",
                       await_that(lambda: read(b.mount_point / "A") in (errno.EACCES, errno.ENOKEY)),
                       30 if self.quick else 5)
        self.all_lock(a, b)
        run(self.protectfs, "host", "remove", "--passcode-file", a.passcode, a.mount_point, "b")
        self.note_time("a host that is removed wipes its keys",
                       await_that(lambda: read(b.mount_point / "C") in (errno.EACCES, errno.ENOKEY)),
                       30 if self.quick else 5)
        self.note("and cannot unlock again", not b.unlock())
        b.unmount()
        b.device_key, b.passcode = self.device_key, self.passcode

    def set_classes(self, a, classes):
        run(self.protectfs, "host", "set", "--classes", classes, "--passcode-file", a.passcode, a.mount_point, "b")

    def all_lock(self, a, b):
        start = time.monotonic()
        run(self.protectfs, "lock", "--all-hosts", "--every-class", a.mount_point)
        self.note("all hosts lock", (a.state(), b.state()) == ("beforeFirstUnlock", "beforeFirstUnlock"),
                  f"{time.monotonic() - start:.1f} s")
        a.unlock(), b.unlock()
        start = time.monotonic()
        run(self.protectfs, "lock", "--all-hosts", b.mount_point)
        self.note("also when another asks than the one that writes", (a.state(), b.state()) == ("locked", "locked"),
                  f"{time.monotonic() - start:.1f} s")
        a.unlock(), b.unlock()
        if self.quick:
            return
        self.network.cut("b")
        shown = run(self.protectfs, "lock", "--all-hosts", "--timeout", "5", a.mount_point, check=False)
        self.note("one that is cut off is named", shown.returncode == 15 and "elsewhere: b." in shown.stdout)
        self.note("and the one that asks has locked", a.state() == "locked")
        self.network.cut("b", False)
        # One that the file system has given up meanwhile has no keys either.
        self.note_time("it locks, or ends, when it is there again",
                       await_that(lambda: b.daemon.poll() == 30 or b.state() == "locked"))
        if b.daemon.poll() is not None:
            run("umount", "-l", b.mount_point)
            self.engine.mount_again("b")
            self.note_time("and reads from the file system mounted anew", b.mount("ro"))
        a.unlock(), b.unlock()

    def killed(self, a, b):
        """The daemon alone: the file system's client lives."""
        (a.mount_point / "mine").write_text("a")
        os.sync()
        b.start("standby")
        time.sleep(2)
        self.note("a standby waits", not b.is_unlocked() and b.daemon.poll() is None)
        a.daemon.kill()
        a.daemon.wait()
        if not self.engine.keeps_out:
            self.said_to_be_off(b)
        self.note_time("after kill -9 of the writer, the standby takes over", await_that(b.is_unlocked))
        self.note("and finds what was written", (b.mount_point / "mine").read_text() == "a")
        run("umount", "-l", a.mount_point)

    def rotating(self, a, b):
        """The one that writes is killed in the middle of a rotation, again and again; the other finishes it."""
        def damaged(host):
            return sum(read(host.mount_point / "rotated" / name) != name for name in names)

        if not self.takeovers:
            return
        writer, standby, names = b, a, [f"{number}" for number in range(100)]
        (writer.mount_point / "rotated").mkdir()
        for name in names:
            (writer.mount_point / "rotated" / name).write_text(name)
        os.sync()
        lost = interrupted = 0
        for _ in range(self.takeovers):
            standby.start("standby")
            rotation = ["rotate", "--class", "C", "--passcode-file", writer.passcode]
            first = subprocess.Popen([self.protectfs, *rotation, writer.mount_point], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            # The passcode alone takes most of a second.
            time.sleep(random.uniform(0, 2))
            writer.daemon.kill()
            writer.daemon.wait()
            interrupted += first.wait() != 0
            run("umount", "-l", writer.mount_point)
            if not self.engine.keeps_out:
                await_that(standby.awaits_word)
                run(self.protectfs, "takeover", "--old-host-is-off", standby.backing)
            if await_that(standby.is_unlocked) is None:
                raise RuntimeError("the standby does not take over")
            lost += damaged(standby)
            run(self.protectfs, *rotation, standby.mount_point)
            lost += damaged(standby)
            writer, standby = standby, writer
        self.note(f"{self.takeovers} takeovers in the middle of rotations lose no file", lost == 0,
                  f"{interrupted} rotations were interrupted, {lost} files of {len(names)} lost")

    def said_to_be_off(self, standby):
        """A standby does not take a claim that was not given up, until somebody says that its host is off."""
        self.note_time("the standby waits for who says that the host is off", await_that(standby.awaits_word))
        run(self.protectfs, "takeover", "--old-host-is-off", standby.backing)

    def left(self, a, b):
        a.start("standby", *([] if self.quick else ["isolation=5"]))
        time.sleep(2)
        b.unmount()
        self.note_time("after an unmount, the standby takes over", await_that(a.is_unlocked))

    def cut_off(self, a, b):
        b.start("standby")
        (a.mount_point / "open").write_bytes(b"a" * WRITTEN)
        overwriting = subprocess.Popen([sys.executable, "-c", OVERWRITE, a.mount_point / "open"],
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        # It has begun, and is in the middle of it.
        overwriting.stdout.readline()
        self.network.cut("a")
        late = subprocess.Popen(["mkdir", a.mount_point / "late"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.note_time("a writer that is cut off locks itself (isolation=5)",
                       await_that(lambda: a.state() == "beforeFirstUnlock"))
        if not self.engine.keeps_out:
            return self.there_again(a, b, late, overwriting)
        self.note_time(f"a standby takes over (locks are kept for {self.engine.sustain} s)", await_that(b.is_unlocked))
        (b.mount_point / "mine").write_text("b")
        with open(b.mount_point / "open", "r+b") as stream:
            stream.write(b"b" * WRITTEN)
            os.fsync(stream.fileno())
        backing = b.backing_file("open")
        written = backing.read_bytes()
        self.network.cut("a", False)
        self.note_time("it is there again, and ends", await_that(lambda: a.daemon.poll() is not None))
        self.note("with exit status 30", a.daemon.poll() == 30, f"{a.daemon.poll()}")
        self.note("its late request fails", late.wait(60) != 0)
        time.sleep(2)
        self.note("and is not in the store", not (b.mount_point / "late").exists())
        self.note("what the other wrote is", (b.mount_point / "mine").read_text() == "b")
        overwriting.wait(60)
        self.note("also where the first was writing", backing.read_bytes() == written)
        run("umount", "-l", a.mount_point)
        self.engine.mount_again("a")
        self.note_time("its file system is there again", await_that(lambda: os.path.isdir(a.backing)))

    def there_again(self, a, b, late, overwriting):
        """No standby has taken over, and the writer goes on."""
        self.note_time(f"the standby does not take over (locks are kept for {self.engine.sustain} s)",
                       await_that(b.awaits_word))
        self.network.cut("a", False)
        self.note_time("it is there again, and has the store", await_that(a.unlock))
        (a.mount_point / "mine").write_text("again")
        overwriting.kill()
        overwriting.wait()
        late.wait(60)
        a.unmount()
        self.note_time("after an unmount, the standby takes over", await_that(b.is_unlocked))
        self.note("and finds what was written", (b.mount_point / "mine").read_text() == "again")

    def erasure(self, reader, writer):
        self.note_time("another host reads", reader.mount("ro"))
        run(self.protectfs, "erase", "--yes", writer.mount_point)
        self.note_time("an erasure reaches the reader", await_that(lambda: reader.status().get("erased")),
                       60 if self.quick else 5)
        reader.unmount()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", nargs="?", default="moosefs", choices=ENGINES)
    parser.add_argument("--protectfs", required=True)
    parser.add_argument("--quick", action="store_true", help="a tenth of the saves, and no host is cut off")
    parser.add_argument("--saves", type=int, help="how often a file is saved while another host reads it")
    parser.add_argument("--rotations", type=int, default=30, help="how often a class is rotated while a host reads")
    parser.add_argument("--takeovers", type=int, default=30,
                        help="how often the one that writes is killed in the middle of a rotation")
    parser.add_argument("--authenticated", action="store_true", help="the store's contents are authenticated")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    directory = tempfile.mkdtemp(prefix="protectfs-hosts.")
    test = Test(options, directory)
    try:
        test.run()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    failed = [what for what, holds, _ in test.rows if not holds]
    print(f"{len(test.rows)} checks, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
