"""Tests the extension in Nautilus itself, on a display of its own, with what Nautilus shows (scripts/desktop/probe.py).

Run by scripts/desktop-test.sh, which has mounted $HOME/Protected; the arguments are its directory, and where to save a
picture.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

WORK = Path(sys.argv[1])
MOUNT = Path.home() / "Protected"
environment = {**os.environ, "GDK_BACKEND": "x11", "GSK_RENDERER": "cairo", "GTK_A11Y": "none", "NO_AT_BRIDGE": "1",
               "GSETTINGS_BACKEND": "memory", "PROBE_SOCKET": str(WORK / "probe")}


def ask(*request):
    """What the probe in Nautilus says; within two seconds, since Nautilus must never be held up."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(2)
        client.connect(environment["PROBE_SOCKET"])
        client.sendall(json.dumps(request).encode() + b"\n")
        reply = client.makefile().readline()
    assert reply, f"{request} failed in Nautilus; its standard error says why"
    return json.loads(reply)


def await_(what, condition, seconds=20):
    end = time.monotonic() + seconds
    while True:
        try:
            found = condition()
            if found:
                print(f"ok      {what}")
                return found
        except (FileNotFoundError, ConnectionRefusedError):
            pass
        assert time.monotonic() < end, f"{what}: {ask('cells')} {ask('texts')}"
        time.sleep(0.1)


def protectfs(*arguments):
    return subprocess.run(["protectfs", *arguments], check=True, capture_output=True, text=True).stdout


def is_running(process):
    """Whether a process is there, and not only waits to be reaped."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def start(stack, *command, **options):
    process = subprocess.Popen(command, env=environment, **options)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def emblems():
    return {name: [icon.removeprefix("emblem-protectfs-") for icon in icons] for name, icons in ask("cells").items()}


def select(*names):
    """Selects files by name, and has Nautilus make their context menu."""
    ask("select", *names)
    ask("act", "view.popup-menu")
    press("key", "Escape")


def action(*labels):
    """The action of an entry of the selection's menu, by its label and those of the menus that it is in."""
    for entries in ask("menus"):
        if ["P_roperties", "view.properties"] not in entries:
            continue
        for label in labels:
            entries = next((entry[1] for entry in entries if entry[0] == label), [])
        if entries:
            return entries


def press(*keys):
    subprocess.run(["xdotool", *keys], env=environment, check=True)
    time.sleep(1)


def take_picture(file):
    """The window with a locked file, and the menu over it."""
    search = ["xdotool", "search", "--name", "^Protected$"]
    window = subprocess.check_output(search, env=environment, text=True).split()[-1]
    press("windowsize", window, "900", "420", "windowmove", window, "10", "10")
    # Until then Nautilus shows the thumbnails that it has in memory.
    ask("act", "win.reload")
    time.sleep(2)
    press("mousemove", "515", "185", "click", "3")
    ask("press", "Protection Class")
    time.sleep(1)
    subprocess.run(["import", "-window", "root", "-crop", "920x440+0+0", "-strip", file], env=environment,
                   check=True)


def test(stack):
    read, write = os.pipe()
    start(stack, "Xvfb", "-displayfd", str(write), "-screen", "0", "1000x700x24", "-nolisten", "tcp", pass_fds=[write],
          stderr=subprocess.DEVNULL)
    environment["DISPLAY"] = f":{os.read(read, 16).decode().strip()}"
    bus = start(stack, "dbus-daemon", "--session", "--nofork", "--print-address", stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL)
    environment["DBUS_SESSION_BUS_ADDRESS"] = bus.stdout.readline().decode().strip()
    for command in ("openbox", "xcompmgr"):
        start(stack, command)
    subprocess.run(["xsetroot", "-solid", "#c8c8c8"], env=environment, check=True)
    nautilus = start(stack, "nautilus", "--new-window", MOUNT, stderr=subprocess.DEVNULL)

    await_("Nautilus shows the classes", lambda: emblems() == {
        "diary.txt": ["a"], "Letters": ["b"], "photo.png": ["a"], "song.ogg": ["c"]})
    select("diary.txt")
    set_class = await_("the menu has them", lambda: action("Protection Class", "D: always"))
    await_("with the present one marked", lambda: action("Protection Class", "✓ A: while unlocked"))
    ask("act", set_class)
    await_("it sets a class", lambda: emblems()["diary.txt"] == ["d"])
    assert protectfs("class", "get", str(MOUNT / "diary.txt")) == "none\n"
    protectfs("class", "set", "A", str(MOUNT / "diary.txt"))
    await_("a class that is set elsewhere is shown too", lambda: emblems()["diary.txt"] == ["a"])

    select("Letters")
    cx = "CX: while unlocked, and for a period after the lock"
    set_class = await_("a directory has a menu for all in it",
                       lambda: action("Protection Class of Everything Inside", cx))
    ask("act", set_class)
    await_("which sets it", lambda: emblems()["Letters"] == ["cx"])
    assert protectfs("class", "get", str(MOUNT / "Letters" / "one")) == "completeWhenUserInactive\n"

    (thumbnail,) = await_("the picture has a thumbnail", lambda: list(MOUNT.glob(".thumbnails/large/*.png")))
    protectfs("lock", "--now", str(MOUNT))
    await_("a lock is shown", lambda: emblems() == {
        "diary.txt": ["a", "locked"], "Letters": ["cx"], "photo.png": ["a", "locked"], "song.ogg": ["c"]})
    try:
        thumbnail.read_bytes()
        raise AssertionError("a thumbnail of class A is readable after the lock")
    except PermissionError:
        print("ok      and locks thumbnails too, where they are in class A")
    select("diary.txt")
    ask("act", "view.properties")
    await_("the properties have a page", lambda: "Protection" in ask("texts"))
    ask("press", "Protection")
    page = {"Class", "complete (A)", "Usable", "while unlocked", "Now", "locked: it becomes usable with an unlock",
            "Mount", f"{MOUNT}, locked"}
    await_("it says class and state", lambda: page <= set(ask("texts")))
    press("key", "Escape")
    ask("act", action("Protection Class", "C: from the first unlock until unmounted"))
    await_("what fails is shown", lambda: "The protection class could not be changed everywhere" in ask("texts"))
    press("key", "Escape")
    if len(sys.argv) > 2:
        take_picture(sys.argv[2])
        press("key", "Escape", "key", "Escape")
    protectfs("unlock", "--passcode-file", str(WORK / "passcode"), str(MOUNT))
    await_("an unlock is shown", lambda: emblems()["diary.txt"] == ["a"])

    # 'ask' ends the test where Nautilus does not answer.
    daemon = int(protectfs("status", "--json", str(MOUNT)).split('"processID" : ')[1].split(",")[0])
    os.kill(daemon, signal.SIGSTOP)
    try:
        ask("select", "song.ogg", "diary.txt")
        ask("act", "view.properties")
        for _ in range(20):
            ask("cells")
            time.sleep(0.1)
        print("ok      a daemon that hangs does not hold Nautilus up")
    finally:
        os.kill(daemon, signal.SIGCONT)

    (follower,) = subprocess.check_output(["pgrep", "-P", str(nautilus.pid)], text=True).split()
    nautilus.kill()
    await_("what follows the state ends with Nautilus, also killed", lambda: not is_running(follower))


(MOUNT / "Letters").mkdir()
for name in ("diary.txt", "song.ogg", "Letters/one"):
    (MOUNT / name).write_text(name)
subprocess.run(["convert", "-size", "300x200", "plasma:purple-gold", MOUNT / "photo.png"], check=True)
# As Documentation/DESKTOP.md has it.
(MOUNT / ".thumbnails").mkdir()
(Path.home() / ".cache").mkdir(exist_ok=True)
(Path.home() / ".cache" / "thumbnails").symlink_to(MOUNT / ".thumbnails")
protectfs("class", "set", "A", *(str(MOUNT / name) for name in (".thumbnails", "diary.txt", "photo.png")))
protectfs("class", "set", "-R", "B", str(MOUNT / "Letters"))
with ExitStack() as stack:
    test(stack)
