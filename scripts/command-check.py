#!/usr/bin/env python3
"""Checks the command: what it prints and with what status it ends, also at a terminal, and as an ordinary user.

usage: command-check.py PROTECTFS

Runs as root, or as an ordinary user who may open /dev/fuse, in a directory of its own under $TMPDIR. Prints one line a
check, and "N passed, N failed" at the end.
"""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

counts = {"passed": 0, "failed": 0}
program = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else sys.exit(__doc__)
root = tempfile.mkdtemp(prefix="protectfs-command-check.")
environment = {**os.environ, "HOME": root, "XDG_CONFIG_HOME": f"{root}/config", "TMPDIR": root}


def check(name, condition, detail=""):
    counts["passed" if condition else "failed"] += 1
    print(f"{'ok  ' if condition else 'FAIL'} {name}{'' if condition else f': {detail}'}", flush=True)


def run(*arguments, stdin="", **options):
    return subprocess.run([program, *arguments], cwd=root, env=environment, input=stdin, text=True,
                          capture_output=True, timeout=60, **options)


def expect(name, status, *arguments, says="", stdin="", **options):
    """Runs the command and checks its status, and a pattern in what it says."""
    result = run(*arguments, stdin=stdin, **options)
    said = result.stdout + result.stderr
    check(name, result.returncode == status and re.search(says, said), f"status {result.returncode}, said {said!r}")
    check(f"{name}: sentences on standard error", status in (0, 64) or all(
        line.startswith(("protectfs: ", "fuse: ")) for line in result.stderr.splitlines()), repr(result.stderr))
    return result


def at_terminal(arguments, answers):
    """Runs the command at a terminal of its own; answers each prompt that ends in ': '. Returns status and output."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(root)
        os.execve(program, [program, *arguments], environment)
    output, rest, deadline = b"", list(answers), time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                chunk = os.read(terminal, 4096)
            except OSError:
                break
            if not chunk:
                break
            output += chunk
            if chunk.rstrip(b" ").endswith(b":") and rest:
                time.sleep(0.1)
                os.write(terminal, rest.pop(0).encode())
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), output.decode(errors="replace")


def write(name, text, mode="w"):
    path = f"{root}/{name}"
    with open(path, mode) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
    return path


def daemon_process(mount="m"):
    return json.loads(run("status", "--json", mount).stdout)["processID"]


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def memory_holds(process, needle):
    """Whether a process has those bytes anywhere in its memory."""
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
        for line in maps:
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
            if not match or "[v" in line:
                continue
            start, end = (int(part, 16) for part in match.groups())
            try:
                memory.seek(start)
                if needle in memory.read(end - start):
                    return True
            except (OSError, ValueError):
                continue
    return False


def check_usage():
    expect("no such command", 64, "frobnicate")
    expect("argument missing", 64, "lock")
    expect("contradicting options", 64, "lock", "--now", "--grace", "1", "m")
    expect("two places for a passcode", 64, "unlock", "--passcode-file", "x", "--passcode-fd", "3", "m")
    expect("no new key for what", 64, "rotate", "m", says="--class or --data")
    expect("two kinds of new key", 64, "rotate", "--class", "A", "--data", "m")
    expect("a class on two mounts", 64, "rotate", "--class", "A", "m", "m2")
    expect("nothing to wait for", 64, "rotate", "--class", "A", "--no-wait", "m")
    expect("a manifest is not rewrapped", 64, "class", "set", "--rewrap", "--from", "x")
    expect("new file keys need no passcode", 64, "rotate", "--data", "--passcode-file", "x", "m")
    expect("restore from nowhere", 64, "restore", "m")
    expect("orphans in two formats", 64, "orphans", "list", "--json", "-0", "m")
    expect("a class from two places", 64, "class", "set", "--from", "x", "A", "m")
    expect("no class at all", 64, "class", "set", says="Give a class")
    expect("another directory for nothing", 64, "class", "set", "--directory", "m", "A", "m/a")
    expect("default class none", 64, "init", "--default-class", "none", "x")
    for command in ["", "init", "mount", "unmount", "unlock", "lock", "status", "class get", "class set",
                    "passcode change", "events", "hooks", "manifest", "info", "orphans list", "orphans purge", "restore",
                    "rotate"]:
        result = expect(f"help of '{command}'", 0, *command.split(), "--help", says="OVERVIEW")
        check(f"help of '{command}' has an example", "protectfs" in result.stdout.split("OPTIONS")[0], result.stdout)
        wide = [line for line in result.stdout.splitlines() if len(line) > 80 and not line.startswith("USAGE")]
        check(f"help of '{command}' fits a terminal", not wide, wide)


def check_init():
    expect("passcode empty", 1, "init", "--passcode-file", write("empty", "\n"), "b", says="empty")
    expect("passcode no text", 1, "init", "--passcode-file", write("binary", b"\xff\xfe", "wb"), "b", says="UTF-8")
    expect("passcode too long", 1, "init", "--passcode-file", write("long", "x" * 1025), "b", says="longer")
    expect("passcode file missing", 1, "init", "--passcode-file", "nothing", "b", says="nothing: No such file")
    made = expect("init", 0, "init", "--passcode-file", "pw", "b", says=r"\n    ([0-9A-Z]{4}-){8}[0-9A-Z]{4}\n")
    write("rk", re.search(r"(?:[0-9A-Z]{4}-){8}[0-9A-Z]{4}", made.stdout)[0].lower().replace("-", " "))
    expect("init twice", 5, "init", "--passcode-file", "pw", "b", says="already")
    os.mkdir(f"{root}/full")
    write("full/x", "")
    expect("init where something is", 5, "init", "--passcode-file", "pw", "full", says="not empty")
    expect("recovery key file there already", 1, "init", "--passcode-file", "pw", "--recovery-key-file", "pw", "b2")
    expect("recovery key in a file", 0, "init", "--passcode-file", "-", "--recovery-key-file", "rk2", "b2",
           "--default-class", "A", stdin="secret\n")
    check("the file is closed to others", os.stat(f"{root}/rk2").st_mode & 0o777 == 0o600)
    with open("/dev/full", "w") as full:
        result = subprocess.run([program, "init", "--passcode-file", "pw", "b5"], cwd=root, env=environment, stdout=full,
                                stderr=subprocess.PIPE, text=True, timeout=60)
    check("a recovery key that cannot be shown", result.returncode == 1 and "nobody has it" in result.stderr, result)
    os.mkdir(f"{root}/b6")
    other = os.open(f"{root}/b6", os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    expect("init where another init is at work", 7, "init", "--passcode-file", "pw", "b6")
    os.close(other)
    if os.geteuid() != 0:
        os.makedirs(f"{root}/searched/inside")
        os.chmod(f"{root}/searched", 0o100)
        expect("a device key below what can only be searched", 0, "init", "--passcode-file", "pw", "--device-key",
               "searched/inside/key", "b6")
        os.chmod(f"{root}/searched", 0o700)
    status, output = at_terminal(["init", "b3"], ["typed\x7f\x7fed\r", "typed\r"])
    check("init at a terminal", status == 0 and "typed" not in output, (status, output))
    status, output = at_terminal(["init", "b4"], ["one\r", "two\r"])
    check("passcodes that differ", status == 1 and "not the same" in output, (status, output))
    status, output = at_terminal(["init", "b4"], ["\x03"])
    check("interrupted", status == 1 and "nothing was entered" in output, (status, output))


def check_info():
    result = expect("info", 0, "info", "--json", "b2")
    information = json.loads(result.stdout)
    check("info says what there is", information["defaultClass"] == "complete" and len(information["classes"]) == 5
          and information["authenticity"] == "authentic", result.stdout)
    expect("info for people", 0, "info", "b", says="scrypt N=2")
    expect("info of no store", 4, "info", "full", says="no store")
    expect("info of nothing", 4, "info", "nothing", says="protectfs init")


def check_mount():
    for directory in ["m", "m2", "b/inside"]:
        os.mkdir(f"{root}/{directory}")
    expect("backing missing", 4, "mount", "nothing", "m")
    expect("no store", 4, "mount", "m2", "m", says="protectfs init")
    expect("mount point missing", 14, "mount", "b", "nothing", says="mkdir")
    expect("mount point a file", 14, "mount", "b", "pw", says="not a directory")
    expect("mount point not empty", 14, "mount", "b", "full", says="not empty")
    expect("mount point inside", 14, "mount", "b", "b/inside", says="inside the backing directory")
    expect("backing inside", 14, "mount", "b", ".", says="would hide it")
    os.rmdir(f"{root}/b/inside")
    expect("option with a bad value", 64, "mount", "-o", "grace=soon", "b", "m", says="grace=soon")
    expect("unknown option", 1, "mount", "-o", "frobnicate", "b", "m", says="-o")
    expect("log file that cannot be", 1, "mount", "--log-file", "nothing/log", "b", "m", says="nothing/log")
    expect("device key missing", 9, "mount", "--device-key", "nothing", "b", "m", says="recovery key")
    write("foreign", os.urandom(32), "wb")
    os.chmod(f"{root}/foreign", 0o644)
    expect("device key open to others", 9, "mount", "--device-key", "foreign", "b", "m", says="0600")
    os.chmod(f"{root}/foreign", 0o600)
    expect("device key foreign", 10, "mount", "--device-key", "foreign", "b", "m", says="recovery key")

    expect("mount", 0, "mount", "-o", "grace=1,noauto,nofail,x-test,_netdev", "--log-file", "log", "b", "m")
    expect("mount point twice", 7, "mount", "b2", "m", says="already")
    expect("store twice", 7, "mount", "b", "m2", says="already")
    expect("store twice, once read-only", 0, "mount", "-o", "ro", "b", "m2")
    expect("unmount the read-only one", 0, "unmount", "m2")
    check("logged to the file", "notice: mounted" in open(f"{root}/log").read())


def check_locking():
    expect("wrong passcode", 3, "unlock", "--passcode-file", write("wrong", "wrong"), "m", says="wrong")
    expect("no terminal", 1, "unlock", "m", says="--passcode-file", start_new_session=True)
    expect("passcode command that fails", 1, "unlock", "--passcode-command", "cat pw; false", "m")
    expect("passcode command", 0, "unlock", "--passcode-command", "cat pw", "m")
    with open(f"{root}/pw") as file:
        expect("passcode descriptor", 0, "unlock", "--passcode-fd", str(file.fileno()), "m", pass_fds=[file.fileno()])
    status, output = at_terminal(["unlock", "m"], ["secret\r"])
    check("unlock at a terminal", status == 0 and "secret" not in output, (status, output))
    expect("lock with no wait", 0, "lock", "--no-wait", "--grace", "60", "m")
    status = json.loads(run("status", "--json", "m").stdout)
    check("the grace period is reported", status["state"] == "gracePeriod" and status["secondsUntilRevoked"] > 50)
    waiting = subprocess.Popen([program, "lock", "--grace", "50", f"{root}/m"], env=environment,
                               stderr=subprocess.PIPE, text=True)
    shorter = lambda: json.loads(run("status", "--json", "m").stdout)["secondsUntilRevoked"] <= 50
    check("a shorter period takes its place", wait_until(shorter))
    expect("unlock in the grace period", 0, "unlock", "--passcode-file", "pw", "m")
    check("the lock that waited was cancelled", waiting.wait(10) == 16, waiting.stderr.read())
    write("m/a", "text")
    began = time.monotonic()
    expect("lock with the mount's period", 0, "lock", "m")
    check("which was 1 s", 0.9 < time.monotonic() - began < 5, time.monotonic() - began)
    expect("unlock by recovery key", 0, "unlock", "--recovery-key-file", "rk", "m")
    status, output = at_terminal(["unlock", "--recovery-key", "m"], [open(f"{root}/rk").read() + "\r"])
    check("recovery key at a terminal", status == 0, (status, output))
    expect("recovery key of another", 3, "unlock", "--recovery-key-file", "rk2", "m")
    expect("recovery key mistyped", 3, "unlock", "--recovery-key-file", "pw", "m", says="mistyped")
    if os.geteuid() == 0:
        secret = "Passcode-that-is-nowhere-else-" + os.urandom(8).hex()
        expect("a passcode to look for", 3, "unlock", "--passcode-command", f"echo '{secret}'", "m")
        check("memory can be searched", memory_holds(daemon_process(), b"org.protectfs.Daemon"))
        check("no passcode is left in the daemon", not memory_holds(daemon_process(), secret.encode()))


def check_classes():
    expect("class of one path", 0, "class", "get", "m/a", says=r"\AcompleteUntilFirstUserAuthentication\n\Z")
    expect("set a class", 0, "class", "set", "A", "m/a")
    expect("class of two", 0, "class", "get", "m/a", "m", says=r"\Acomplete\tm/a\n.*\tm\n\Z")
    expect("no such class", 64, "class", "set", "E", "m/a")
    expect("class elsewhere", 6, "class", "get", "pw", says="not on a protectfs mount")
    expect("class set elsewhere", 6, "class", "set", "A", "pw")
    os.makedirs(f"{root}/m/tree/below")
    for number in range(30):
        write(f"m/tree/below/{number}", "x")
    os.symlink(f"{root}/m/a", f"{root}/m/tree/link")
    expect("set a tree", 0, "class", "set", "-R", "CX", "m/tree")
    result = expect("get a tree", 0, "class", "get", "-R", "--json", "m/tree")
    entries = [json.loads(line) for line in result.stdout.splitlines()]
    check("all of it was set", len(entries) == 32 and {entry["class"] for entry in entries}
          == {"completeWhenUserInactive"}, result.stdout)
    expect("what a link names was not", 0, "class", "get", "m/a", says="complete\n")
    status = json.loads(run("status", "--json", "m/a").stdout)
    check("status of a file", status["class"] == "complete" and status["isUsable"], status)

    expect("lock now", 0, "lock", "--now", "m")
    status = json.loads(run("status", "--json", "m/a").stdout)
    check("status of a locked file", not status["isUsable"] and status["obstacle"] == "classLocked", status)
    expect("status for people", 0, "status", "m/a", says="class A is not available")
    expect("set the class of a locked file", 12, "class", "set", "C", "m/a", says="unlock the mount")
    expect("some of several", 15, "class", "set", "D", "m/a", "m/tree", says="1 of 2")
    expect("class of a locked file", 0, "class", "get", "m/a", says="complete\n")
    expect("unlock again", 0, "unlock", "--passcode-file", "pw", "m")


def check_orphans():
    """Files that lose their class key, and are brought back."""
    os.makedirs(f"{root}/copy/sub")
    write("copy/sub/old", "contents")
    write("copy/second", "more")
    os.mkdir(f"{root}/m/o")
    expect("dry run", 0, "restore", "--dry-run", "--from", "copy", "m/o", says=r"copy\tsub/old\n")
    check("which does nothing", not os.listdir(f"{root}/m/o"))
    expect("restore", 0, "restore", "--from", "copy", "m/o", says=r"\A2 files copied, 0 replaced, 0 there already")
    expect("restore again", 0, "restore", "--from", "copy", "m/o", says="2 there already")
    expect("no orphans", 0, "orphans", "list", "m", says=r"\A\Z")
    expect("give them a class", 0, "class", "set", "-R", "CX", "m/o")
    expect("erase a part", 64, "erase", "--yes", "m/o", says="inside the mount at")
    expect("erase a class of a part", 64, "erase", "--yes", "--class", "CX", "--passcode-file", "pw", "m/o/second")
    expect("erase it", 0, "erase", "--yes", "--class", "CX", "--passcode-file", "pw", "m")
    expect("status of an orphan", 0, "status", "m/o/second", says="erased, reset or rotated away")
    result = expect("list orphans", 0, "orphans", "list", "m/o")
    check("one path a line", sorted(result.stdout.splitlines()) == ["m/o/second", "m/o/sub/old"], result.stdout)
    result = expect("list orphans for programs", 0, "orphans", "list", "--json", "m/o/second")
    check("an object a line", json.loads(result.stdout) == {
        "path": "m/o/second", "class": "completeWhenUserInactive", "size": 4}, result.stdout)
    expect("orphans ended by NUL", 0, "orphans", "list", "-0", "m/o/second", says=r"\Am/o/second\0\Z")
    status, output = at_terminal(["orphans", "list", "m/o"], [])
    check("counted at a terminal", status == 0 and "2 of 2 files cannot be opened" in output, (status, output))
    expect("purge with nobody to ask", 1, "orphans", "purge", "m/o/second", says="--yes", start_new_session=True)
    status, output = at_terminal(["orphans", "purge", "m/o/second"], ["no\r"])
    check("purge that is not wanted", status == 1 and "4 bytes" in output and "nothing was changed" in output,
          (status, output))
    status, output = at_terminal(["orphans", "purge", "m/o/second"], ["yes\r"])
    check("purge", status == 0 and "1 file removed" in output and not os.path.exists(f"{root}/m/o/second"),
          (status, output))
    expect("orphans elsewhere", 6, "orphans", "list", "pw", says="not on a protectfs mount")
    expect("orphans of nothing", 6, "orphans", "purge", "--yes", "nothing")
    result = expect("restore both", 0, "restore", "--json", "--from", "copy", "m/o")
    summary = json.loads(result.stdout)
    check("one missing, one an orphan", summary["copied"] == 1 and summary["replaced"] == 1 and summary["isComplete"]
          and summary["bytes"] == 12, summary)
    check("with its contents", open(f"{root}/m/o/sub/old").read() == "contents")
    write("m/o/second", "mine")
    expect("something else is there", 15, "restore", "--from", "copy", "m/o", says="there and different")
    check("and stays", open(f"{root}/m/o/second").read() == "mine")
    expect("unless told", 0, "restore", "--overwrite", "--from", "copy", "m/o")

    expect("restore to elsewhere", 6, "restore", "--from", "copy", "copy")
    expect("restore from nothing", 1, "restore", "--from", "nothing", "m/o", says="No such file")
    expect("restore from itself", 64, "restore", "--from", "m/o", "m/o")
    expect("restore from inside", 64, "restore", "--from", "m/o", "m")
    expect("restore from around", 64, "restore", "--from", ".", "m/o")
    expect("restore from its own store", 64, "restore", "--from", "b", "m", says="give a copy")
    expect("restore from plaintext with a passcode", 4, "restore", "--passcode-file", "pw", "--from", "copy", "m/o")
    expect("restore from another store", 0, "restore", "--passcode-file", "pw", "--from", "b2", "m/o")
    expect("which nothing opens", 3, "restore", "--passcode-file", "wrong", "--from", "b2", "m/o")
    expect("or no device key", 10, "restore", "--device-key", "foreign", "--passcode-file", "pw", "--from", "b2", "m/o")
    check("sources are put away", not [name for name in os.listdir(root) if name.startswith("protectfs-restore.")])

    expect("new file keys", 0, "rotate", "--data", "m/o", says="2 files got a new key")
    expect("new file keys, for programs", 0, "rotate", "--data", "--json", "m/o/second", says='"rotated":1')
    with open(f"{root}/m/o/second"):
        expect("of what is open too", 0, "rotate", "--data", "m/o", says="2 files got a new key")
    expect("without a wait", 0, "rotate", "--data", "--no-wait", "m/o")
    expect("a raise", 0, "class", "set", "A", "m/o/second")
    expect("a class without a new key", 0, "class", "set", "--rewrap", "C", "m/o/second")
    expect("new file keys elsewhere", 6, "rotate", "--data", "pw")
    expect("lock it", 0, "lock", "--now", "m")
    expect("restore to a locked mount", 12, "restore", "--from", "copy", "m/o", says="unlock it first")
    expect("orphans of a locked mount", 0, "orphans", "list", "m/o")
    expect("unlock it again", 0, "unlock", "--passcode-file", "pw", "m")
    shutil.rmtree(f"{root}/m/o")


def check_manifest():
    """What is protected in a tree, and the same given to a copy of it."""
    os.makedirs(f"{root}/m/t/sub")
    write("m/t/chosen", "a")
    write("m/t/sub/inherited", "b")
    expect("a class that is chosen", 0, "class", "set", "A", "m/t/chosen", "m/t/sub")
    os.setxattr(f"{root}/m/t/chosen", "user.author", b"me")
    expect("lock for a manifest", 0, "lock", "--now", "m")
    expect("manifest for people", 0, "manifest", "m/t", says=r"A\*   chosen  user\.author\nA\*   sub/\nC    sub/inherited\n")
    document = expect("manifest while locked", 0, "manifest", "--json", "m/t").stdout
    items = {item["path"]: item for item in json.loads(document)["items"]}
    check("every file and directory", set(items) == {".", "chosen", "sub", "sub/inherited"}, items)
    check("a file that was given a class", items["chosen"] == {
        "path": "chosen", "kind": "file", "class": "complete", "isExplicit": True, "isEncrypted": True,
        "fields": [{"name": "user.author", "isEncrypted": True}]}, items["chosen"])
    check("one that was not", not items["sub/inherited"]["isExplicit"] and not items["."]["isEncrypted"], items)
    write("manifest.json", document)
    expect("what is right is left alone", 0, "class", "set", "--from", "manifest.json", says=r"\A0 of 4 ")
    expect("unlock after a manifest", 0, "unlock", "--passcode-file", "pw", "m")
    expect("all in another class", 0, "class", "set", "-R", "D", "m/t")
    expect("classes of a manifest", 0, "class", "set", "--from", "manifest.json", says=r"\A4 of 4 ")
    again = expect("manifest again", 0, "manifest", "--json", "m/t").stdout
    check("the same as before", json.loads(again) == json.loads(document), again)
    shutil.copytree(f"{root}/m/t", f"{root}/m/u", copy_function=shutil.copyfile)
    expect("classes for a copy", 0, "class", "set", "--from", "manifest.json", "--directory", "m/u", says=r"\A\d of 4 ")
    again = expect("manifest of the copy", 0, "manifest", "--json", "m/u").stdout

    def classes(text):
        return {(item["path"], item["class"], item["isExplicit"]) for item in json.loads(text)["items"]}

    check("a copy has them", classes(again) == classes(document), again)
    os.remove(f"{root}/m/u/chosen")
    expect("what is missing is told", 15, "class", "set", "--from", "manifest.json", "--directory", "m/u", says="chosen")
    write("hostile.json", document.replace('"path":"chosen"', '"path":"../a"'))
    expect("paths stay below", 15, "class", "set", "--from", "hostile.json", says=r"\.\./a")
    # To some these two names are the same text, or one the end of the other.
    os.makedirs(f"{root}/m/t/odd")
    for name in ["abc", "\u0301abc", "\u00e9", "e\u0301"]:
        write(f"m/t/odd/{name}", name)
    expect("two of four", 0, "class", "set", "A", "m/t/odd/\u0301abc", "m/t/odd/e\u0301")
    odd = expect("manifest of odd names", 0, "manifest", "--json", "m/t/odd").stdout
    check("each with its own class", {item["path"]: item["class"] == "complete" for item in json.loads(odd)["items"]} == {
        ".": False, "abc": False, "\u0301abc": True, "\u00e9": False, "e\u0301": True}, odd)
    write("odd.json", odd)
    expect("of odd names nothing changes", 0, "class", "set", "--from", "odd.json", says=r"\A0 of 5 ")
    write("twice.json", odd.replace('"path":"abc"', '"path":"\u0301abc"'))
    expect("a path twice", 1, "class", "set", "--from", "twice.json", says="twice")
    with open(os.fsencode(f"{root}/m/t/odd/") + b"\xff", "w"):
        pass
    expect("a name that is no text", 15, "manifest", "--json", "m/t/odd")
    expect("no manifest", 1, "class", "set", "--from", "pw", says="is no manifest")
    write("later.json", document.replace('"version":1', '"version":2'))
    expect("a later manifest", 1, "class", "set", "--from", "later.json", says="version 2")
    expect("manifest elsewhere", 6, "manifest", "b")
    shutil.rmtree(f"{root}/m/t")
    shutil.rmtree(f"{root}/m/u")


def check_events():
    listener = subprocess.Popen([program, "events", "--json", f"{root}/m"], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = json.loads(listener.stdout.readline())
    check("events begin", first["event"] == "monitoringBegan" and first["state"] == "unlocked" and "time" in first)
    run("lock", "--now", "m")
    subprocess.run(["cat", f"{root}/m/a"], stderr=subprocess.DEVNULL, check=False)
    run("unlock", "--passcode-file", "pw", "m")
    events = [json.loads(listener.stdout.readline()) for _ in range(4)]
    check("events in order", [event["event"] for event in events] == [
        "willBecomeUnavailable", "didBecomeUnavailable", "accessDenied", "didBecomeAvailable"], events)
    check("a refusal is told", events[2]["code"] == 257 and events[2]["class"] == "complete"
          and events[2]["path"] == "/a" and events[2]["pid"] > 0, events[2])
    listener.send_signal(signal.SIGINT)
    listener.wait(10)


def check_hooks():
    os.mkdir(f"{root}/hooks", 0o755)
    for event in ["pre-lock", "post-lock", "post-unlock"]:
        os.mkdir(f"{root}/hooks/{event}.d", 0o755)
        script = f"#!/bin/sh\necho $PROTECTFS_EVENT $PROTECTFS_CLASSES >>'{root}/noted'\n"
        os.chmod(write(f"hooks/{event}.d/note", script), 0o755)
    expect("hooks of what is not mounted", 6, "hooks", "--directory", "hooks", "hooks")
    expect("hooks from nowhere", 1, "hooks", "--directory", "nothing", "m", says="nothing")
    runner = subprocess.Popen([program, "hooks", "--directory", f"{root}/hooks", f"{root}/m"], env=environment,
                              stderr=subprocess.PIPE, text=True)

    def noted():
        return open(f"{root}/noted").read().splitlines() if os.path.exists(f"{root}/noted") else []

    def hears_of_a_lock():
        run("lock", "--now", "m")
        run("unlock", "--passcode-file", "pw", "m")
        return wait_until(lambda: noted()[-1:] == ["post-unlock A B"], 1)

    check("hooks begin", wait_until(hears_of_a_lock), noted())
    expect("lock with hooks", 0, "lock", "--grace", "0.5", "m")
    check("they are run", wait_until(lambda: noted()[-2:] == ["pre-lock A B", "post-lock A B"]), noted())
    expect("unlock with hooks", 0, "unlock", "--passcode-file", "pw", "m")
    check("after an unlock too", wait_until(lambda: noted()[-1] == "post-unlock A B"), noted())
    runner.terminate()
    check("hooks end when they are told to", runner.wait(10) == 0, runner.stderr.read())


def check_passcode():
    write("new", "new passcode 😀\n")
    expect("change with a wrong passcode", 3, "passcode", "change", "--passcode-file", "wrong", "--new-passcode-file",
           "new", "m")
    expect("change on the mount", 0, "passcode", "change", "--passcode-file", "pw", "--new-passcode-file", "new", "m")
    expect("the old one has gone", 3, "unlock", "--passcode-file", "pw", "m")
    expect("the new one works", 0, "unlock", "--passcode-file", "new", "m")
    expect("change by the backing directory while mounted", 0, "passcode", "change", "--passcode-file", "new",
           "--new-passcode-file", "pw", "b")
    expect("the daemon knows", 0, "unlock", "--passcode-file", "pw", "m")
    expect("change by recovery key", 0, "passcode", "change", "--recovery-key-file", "rk2", "--new-passcode-file",
           "new", "b2")
    status, output = at_terminal(["passcode", "change", "b2"], ["new passcode 😀\r", "secret\r", "secret\r"])
    check("change at a terminal", status == 0 and "secret" not in output, (status, output))


def has_ended(process):
    """Whether a process is gone, or waits only for its parent to notice."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def check_unmount():
    file = open(f"{root}/m/a")
    expect("unmount in use", 19, "unmount", "m", says="in use")
    file.close()
    process = daemon_process()
    expect("unmount", 0, "unmount", "m")
    check("the daemon has ended", has_ended(process))
    expect("unmount twice", 6, "unmount", "m")
    expect("lock what is not mounted", 6, "lock", "m")
    expect("lock by the backing directory of what is not mounted", 6, "lock", "b")
    expect("status of what is not mounted", 6, "status", "m")
    expect("status of nothing", 6, "status", "nothing")

    expect("mount and unlock", 0, "mount", "--passcode-file", "pw", "b", "m")
    expect("status by the backing directory", 0, "status", "b", says="unlocked")
    expect("lock by the backing directory", 0, "lock", "--now", "b")
    expect("it is locked", 0, "status", "m", says="m: locked")
    expect("unlock by the backing directory", 0, "unlock", "--passcode-file", "pw", "b")
    os.kill(daemon_process(), signal.SIGKILL)
    check("a dead mount says so", wait_until(lambda: run("status", "m").returncode == 13))
    expect("mounting again cleans up", 0, "mount", "--unlock", "--passcode-file", "pw", "b", "m", says="cleaned up")
    os.kill(daemon_process(), signal.SIGKILL)
    expect("unmounting cleans up", 0, "unmount", "m")
    expect("mounted but locked", 3, "mount", "--passcode-file", "wrong", "b", "m", says="mounted, but locked")
    expect("unmount it", 0, "unmount", "m")
    status, output = at_terminal(["mount", "--unlock", "b", "m"], ["bad\r", "bad\r", "secret\r"])
    check("a terminal is asked three times", status == 0, (status, output))
    expect("unmount it too", 0, "unmount", "m")


def check_foreground():
    daemon = subprocess.Popen([program, "mount", "--foreground", "--passcode-file", "pw", "b", "m"], cwd=root,
                              env=environment, stderr=subprocess.PIPE, text=True)
    check("foreground", wait_until(lambda: '"unlocked"' in run("status", "--json", "m").stdout))
    daemon.send_signal(signal.SIGTERM)
    check("ends when it is told to", daemon.wait(20) == 0)
    check("and logs to standard error", "notice: mounted" in daemon.stderr.read())


def check_recovery():
    directory = "/etc/protectfs" if os.geteuid() == 0 else f"{root}/config/protectfs"
    kept = json.loads(run("info", "--json", "b").stdout)["storeID"] + ".key"
    expect("mount with the recovery key", 0, "mount", "--recovery-key-file", "rk", "--unlock", "b", "m")
    check("where the device key is, no other is kept", not os.path.exists(f"{directory}/{kept}"))
    expect("unmount from it", 0, "unmount", "m")
    os.rename(f"{directory}/device.key", f"{directory}/device.key.aside")
    expect("recover the device key", 0, "mount", "--recovery-key-file", "rk", "--unlock", "b", "m", says="recovered")
    check("it is kept", os.path.exists(f"{directory}/{kept}"))
    check("and it is unlocked", '"unlocked"' in run("status", "--json", "m").stdout)
    expect("unmount after recovery", 0, "unmount", "m")
    expect("the device key serves later mounts", 0, "mount", "--passcode-file", "pw", "b", "m")
    expect("and unmounts", 0, "unmount", "m")
    os.unlink(f"{directory}/{kept}")
    os.rename(f"{directory}/device.key.aside", f"{directory}/device.key")


def check_helper():
    """As mount(8) calls a helper."""
    os.symlink(program, f"{root}/mount.fuse.protectfs")
    result = subprocess.run([f"{root}/mount.fuse.protectfs", "b", "m", "-s", "-n", "-v", "-o", "rw,noauto"], cwd=root,
                            env=environment, capture_output=True, text=True, timeout=60, check=False)
    check("called as a helper of mount(8)", result.returncode == 0, result.stderr)
    expect("unmount the helper's", 0, "unmount", "m")


def main():
    # Where a shell started this in the background, it is ignored, also by what is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    write("pw", "secret\n")
    for part in [check_usage, check_init, check_info, check_mount, check_locking, check_classes, check_manifest,
                 check_orphans, check_events, check_hooks, check_passcode, check_unmount, check_foreground, check_recovery,
                 check_helper]:
        part()


try:
    main()
finally:
    for name in ["m", "m2"]:
        if os.path.ismount(f"{root}/{name}"):
            run("unmount", "--lazy", name)
    shutil.rmtree(root, ignore_errors=True)
    print(f"{counts['passed']} passed, {counts['failed']} failed")
sys.exit(1 if counts["failed"] else 0)
