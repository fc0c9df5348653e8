"""Tests packaging/nautilus/protectfs-nautilus.py without Nautilus, but with its library and a real mount.

Run by scripts/desktop-test.sh, which has mounted $HOME/Protected; the argument is its directory.
"""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gi

gi.require_version("Nautilus", "4.0")
from gi.repository import Gio, GLib, GObject, Nautilus

WORK = Path(sys.argv[1])
MOUNT = Path.home() / "Protected"
shown = {}


class File(GObject.GObject, Nautilus.FileInfo):
    """A file as Nautilus has it; 'emblems' are those of the last call of update_file_info()."""

    def __init__(self, path):
        super().__init__()
        self.path, self.emblems, self.updates = str(path), [], 0
        shown[self.do_get_uri()] = self

    def do_get_uri(self):
        return Gio.File.new_for_path(self.path).get_uri()

    def do_get_uri_scheme(self):
        return "file"

    def do_get_location(self):
        return Gio.File.new_for_path(self.path)

    def do_is_directory(self):
        return os.path.isdir(self.path)

    def do_add_emblem(self, name):
        self.emblems.append(name)

    def do_invalidate_extension_info(self):
        self.update()

    def update(self):
        self.emblems, self.updates = [], self.updates + 1
        extension.update_file_info(self)


def protectfs(*arguments):
    return subprocess.run(["protectfs", *arguments], check=True, capture_output=True, text=True).stdout


def await_(what, condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        GLib.MainContext.default().iteration(False)
        time.sleep(0.002)
    print(f"ok      {what}")


def check(what, condition):
    assert condition, what
    print(f"ok      {what}")


def labels(menu_items):
    return {item.props.label: [below.props.label for below in item.props.menu.get_items()] for item in menu_items}


def rows(file):
    (model,) = extension.get_models([file])
    await_("the property page is filled", lambda: model.props.model.get_n_items() > 0)
    return {row.props.name: row.props.value for row in model.props.model}


specification = importlib.util.spec_from_file_location("extension", "packaging/nautilus/protectfs-nautilus.py")
module = importlib.util.module_from_spec(specification)
specification.loader.exec_module(module)
# Nautilus sets what answers this; outside of it there is nothing to be asked.
Nautilus.FileInfo.lookup_for_uri = staticmethod(shown.get)
extension = module.ProtectFS()

# Elsewhere nothing is asked, nor shown.
beside = Path(f"{MOUNT} too")
beside.mkdir()
for path in (Path.home(), beside, Path.home() / "Elsewhere" / "file"):
    file = File(path)
    file.update()
    assert file.emblems == [] and extension.get_file_items([file]) == [] and extension.get_models([file]) == []
check("files elsewhere are left alone", all(not m.asked and not m.classes for m in extension.mounts.values()))

(MOUNT / "letters" / "old").mkdir(parents=True)
for name in ("diary", "song", "letters/one", "letters/old/two"):
    (MOUNT / name).write_text(name)
diary, song, letters = (File(MOUNT / name) for name in ("diary", "song", "letters"))
for file in (diary, song, letters):
    file.update()
    check("the first answer is at once, and empty", file.emblems == [])
await_("then the class is shown", lambda: all(f.emblems == ["protectfs-c"] for f in (diary, song, letters)))

menu = extension.get_file_items([diary])
check("the menu of a file has the classes", labels(menu) == {"Protection Class": [
    "A: while unlocked", "B: opened while unlocked, then until closed", "✓ C: from the first unlock until unmounted",
    "CX: while unlocked, and for a period after the lock", "D: always"]})
menu[0].props.menu.get_items()[0].emit("activate")
await_("the menu sets a class", lambda: diary.emblems == ["protectfs-a"])
check("which is that of the command", protectfs("class", "get", diary.path) == "complete\n")
check("others keep theirs", song.emblems == ["protectfs-c"])

menu = extension.get_file_items([letters, song])
check("a selection with directories has two menus", list(labels(menu)) == [
    "Protection Class of Everything Inside", "Protection Class of New Files"])
check("a directory's background too", len(extension.get_background_items(letters)) == 2)
menu[1].props.menu.get_items()[1].emit("activate")
await_("for new files, only directories change", lambda: letters.emblems == ["protectfs-b"])
check("not what they hold", "First" in protectfs("class", "get", str(MOUNT / "letters/one")))
menu[0].props.menu.get_items()[0].emit("activate")
await_("inside, everything changes", lambda: letters.emblems == song.emblems == ["protectfs-a"])
check("down to the last", protectfs("class", "get", str(MOUNT / "letters/old/two")) == "complete\n")
protectfs("class", "set", "C", song.path)
song.update()
await_("a change from elsewhere is seen when Nautilus asks", lambda: song.emblems == ["protectfs-c"])

check("the property page", rows(diary) == {
    "Class": "complete (A)", "Usable": "while unlocked", "Now": "usable", "Mount": f"{MOUNT}, unlocked"})
check("of the mount itself", rows(File(MOUNT))["Mount"] == f"{MOUNT}, unlocked")
check("none for several files", extension.get_models([diary, song]) == [])

await_("the state of the mount is known", lambda: extension.mounts[str(MOUNT)].usable)
protectfs("lock", "--now", str(MOUNT))
await_("a lock is shown", lambda: diary.emblems == ["protectfs-a", "protectfs-locked"])
check("of its class alone", song.emblems == ["protectfs-c"])
check("in the property page too", rows(diary)["Now"] == module.OBSTACLES["classLocked"])
reports = []
module.report = lambda title, text: reports.append(text)
extension.get_file_items([diary])[0].props.menu.get_items()[4].emit("activate")
await_("a class that cannot be set is reported", lambda: reports)
check("in the words of the command", "diary" in reports[0])
protectfs("unlock", "--passcode-file", str(WORK / "passcode"), str(MOUNT))
await_("an unlock is shown", lambda: diary.emblems == ["protectfs-a"])

# A daemon that hangs: nothing here waits for it.
daemon = json.loads(protectfs("status", "--json", str(MOUNT)))["processID"]
os.kill(daemon, signal.SIGSTOP)
try:
    begin, many = time.monotonic(), [File(MOUNT / str(number)) for number in range(1000)]
    for file in many:
        file.update()
    module.PATIENCE = "1"
    (model,) = extension.get_models([diary])
    for _ in range(100):
        GLib.MainContext.default().iteration(False)
    check("a daemon that hangs holds nothing up", time.monotonic() - begin < 1)
    check("and few threads", extension.mounts[str(MOUNT)].asked == module.QUESTIONS)
    await_("the property page says so", lambda: model.props.model.get_n_items() == 1)
finally:
    os.kill(daemon, signal.SIGCONT)
await_("when it answers, all get theirs", lambda: not extension.mounts[str(MOUNT)].questions)

protectfs("unmount", str(MOUNT))
await_("nothing is shown of what was unmounted", lambda: diary.emblems == [] and not extension.mounts)
protectfs("mount", "--unlock", "--passcode-file", str(WORK / "passcode"), str(WORK / "store"), str(MOUNT))
await_("the new mount is found", lambda: str(MOUNT) in extension.mounts)
diary.update()
await_("and shown", lambda: diary.emblems == ["protectfs-a"])
await_("with its state", lambda: extension.mounts[str(MOUNT)].usable)
os.kill(int(subprocess.check_output(["pgrep", "-P", str(os.getpid())])), signal.SIGTERM)
await_("a follower that ends is replaced", lambda: extension.mounts[str(MOUNT)].usable is None)
diary.update()
await_("when Nautilus asks again", lambda: extension.mounts[str(MOUNT)].usable)

# A mount of another user: the daemon answers nobody else.
os.environ["PATH"] = f"{WORK / 'refused'}:{os.environ['PATH']}"
(WORK / "refused").mkdir()
(WORK / "refused" / "protectfs").write_text(f"#!/bin/sh\necho $1 >>{WORK}/refused/calls\nexit 1\n")
(WORK / "refused" / "protectfs").chmod(0o755)
os.kill(int(subprocess.check_output(["pgrep", "-P", str(os.getpid())])), signal.SIGTERM)
await_("without an answer", lambda: extension.mounts[str(MOUNT)].usable is None)
for _ in range(3):
    diary.update()
    song.update()
    await_("the class is shown, not the state", lambda: diary.emblems + song.emblems == ["protectfs-a", "protectfs-c"])
check("and the daemon is asked once", (WORK / "refused" / "calls").read_text() == "events\n")
