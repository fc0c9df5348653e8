#!/usr/bin/env python3
"""Saves a file in many ways while its class is locked, and checks that the old version or the new one is there.

Called by scripts/save-test.sh. Each way is a shell command: $1 is the new version, on another file system, $2 the old
one, $LOCK a program that locks the mount. A version that is only there under a backup's name counts as kept.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

from crashtest.store import Store

EMACS = ("emacs -Q --batch --eval '(setq {})' --eval '(progn (find-file (getenv \"OLD\")) {} (erase-buffer) "
         "(insert \"new\\n\") (save-buffer))'")
LOCK_IN_EMACS = "(call-process (getenv \"LOCK\"))"
VIM = "vim.tiny -u NONE -es -c 'set {}' {} -c '%s/.*/new/' -c 'w!' -c 'q!' \"$2\""
QT = "/usr/bin/python3 -c 'import sys; from PyQt5.QtCore import *; f = {}(sys.argv[2]); " \
     "sys.exit(not (f.open({}) and f.write(b\"new\\n\") == 4 and {}))' \"$1\" \"$2\""

# Ways that read nothing of the old version.
REPLACING = {
    "cp": 'cp "$1" "$2"',
    "cp -f": 'cp -f "$1" "$2"',
    "cp --remove-destination": 'cp --remove-destination "$1" "$2"',
    "cp --backup": 'cp --backup "$1" "$2"',
    "mv": 'mv -f "$1" "$2"',
    "mv --backup": 'mv --backup "$1" "$2"',
    "install": 'install -m 644 "$1" "$2"',
    "install -C": 'install -C -m 644 "$1" "$2"',
    "rm, then >": 'rm -f "$2" && cat "$1" >"$2"',
    ">": 'cat "$1" >"$2"',
    "dd": 'dd if="$1" of="$2" status=none',
    "busybox cp -f": 'busybox cp -f "$1" "$2"',
    "busybox mv": 'busybox mv -f "$1" "$2"',
    "tar": 'tar -C "${1%/*}" -cf - file | tar -C "${2%/*}" -xf -',
    "tar --overwrite": 'tar -C "${1%/*}" -cf - file | tar -C "${2%/*}" --overwrite -xf -',
    "tar --unlink-first": 'tar -C "${1%/*}" -cf - file | tar -C "${2%/*}" --unlink-first -xf -',
    "bsdtar": 'tar -C "${1%/*}" -cf - file | bsdtar -C "${2%/*}" -xf -',
    "bsdtar -U": 'tar -C "${1%/*}" -cf - file | bsdtar -C "${2%/*}" -xUf -',
    "cpio -u": 'cd "${1%/*}" && echo file | cpio -o 2>/dev/null | (cd "${2%/*}" && cpio -idu)',
    "unzip -o": 'cd "${1%/*}" && zip -q a.zip file && unzip -qo a.zip -d "${2%/*}"',
    "7z x -y": 'cd "${1%/*}" && 7z a a.7z file >/dev/null && 7z x -y -o"${2%/*}" a.7z',
    "rsync": 'rsync -a "$1" "$2"',
    "rsync --inplace": 'rsync -a --inplace "$1" "$2"',
    "rsync --delay-updates": 'rsync -a --delay-updates "$1" "$2"',
    "rsync --backup": 'rsync -a --backup "$1" "$2"',
    "rsync --remove-source-files": 'rsync -a --remove-source-files "$1" "$2"',
    "curl -o": 'curl -s -o "$2" "file://$1"',
    "gio copy": 'gio copy "$1" "$2"',
    "gio copy --backup": 'gio copy --backup "$1" "$2"',
    "gio move": 'gio move "$1" "$2"',
    "gio save": 'gio save "$2" <"$1"',
    "gio save --backup": 'gio save --backup "$2" <"$1"',
    "QSaveFile": QT.format("QSaveFile", "QIODevice.WriteOnly", "f.commit()"),
    "QSaveFile, direct": QT.replace("f = {}(sys.argv[2]);", "f = {}(sys.argv[2]); f.setDirectWriteFallback(True);")
    .format("QSaveFile", "QIODevice.WriteOnly", "f.commit()"),
    "QFile": QT.format("QFile", "QIODevice.WriteOnly | QIODevice.Truncate", "f.flush()"),
    "os.replace": "python3 -c 'import os, sys; t = sys.argv[2] + \".new\"; open(t, \"w\").write(\"new\\n\"); "
                  "os.replace(t, sys.argv[2])' \"$1\" \"$2\"",
    "shutil.move": "python3 -c 'import shutil, sys; shutil.move(*sys.argv[1:])' \"$1\" \"$2\"",
    # It writes a name that ends in .txt.
    "LibreOffice": 'mv "$2" "$2.txt"; soffice -env:UserInstallation="file://$HOME" --headless '
                   '--convert-to txt:Text:UTF8 --outdir "${2%/*}" "$1"; mv "$2.txt" "$2"',
    "git checkout": 'cd "${2%/*}" && export GIT_DIR="${1%/*}/git" GIT_WORK_TREE="$PWD" && git checkout -q -f new -- file',
    "git stash": 'cd "${2%/*}" && export GIT_DIR="${1%/*}/git" GIT_WORK_TREE="$PWD" && git reset -q --hard new',
}

# Ways that have read the old version, with and without a lock in between.
EDITING = {
    **{f"vim {name}": VIM.format(options, "-c 'silent !$LOCK'") for name, options in {
        "nowritebackup": "nobackup nowritebackup", "backupcopy=no": "backup backupcopy=no",
        "backupcopy=yes": "backup backupcopy=yes", "writebackup": "writebackup", "patchmode": "patchmode=.orig"}.items()},
    **{f"emacs {name}": EMACS.format(options, LOCK_IN_EMACS) for name, options in {
        "without backup": "make-backup-files nil", "rename": "backup-by-copying nil",
        "copy": "backup-by-copying t", "precious": "file-precious-flag t",
        "break links": "backup-by-copying-when-linked t"}.items()},
    "ed": "printf '%s\\n' '!$LOCK' '1c' new . w q | ed -s \"$2\"",
    "sed -i": "{ cat \"$2\" >/dev/null; $LOCK; } && sed -i s/old/new/ \"$2\"",
    "sed -i.bak": "{ cat \"$2\" >/dev/null; $LOCK; } && sed -i.bak s/old/new/ \"$2\"",
    "perl -i": "perl -i -pe 'BEGIN { system $ENV{LOCK} } s/old/new/' \"$2\"",
    "patch": "{ printf -- '--- file\\n+++ file\\n@@ -1 +1 @@\\n-old\\n+new\\n'; $LOCK; } | patch -s \"$2\"",
    "descriptor": "exec 3<>\"$2\"; $LOCK; cat \"$1\" >&3",
}

# The class of the directory and of the file, and what is done before: with "nothing", the new version must be there.
PLACES = {
    "unlocked": ("complete", "complete", "nothing"),
    "A in A": ("complete", "complete", "lock"),
    "A in C": ("completeUntilFirstUserAuthentication", "complete", "lock"),
    "C in A": ("complete", "completeUntilFirstUserAuthentication", "lock"),
    "C, before": ("completeUntilFirstUserAuthentication", None, "remount"),
    "open, A in A": ("complete", "complete", None),
    "open, A in C": ("completeUntilFirstUserAuthentication", "complete", None),
}


def set_class(path, name):
    os.setxattr(path, "user.protectfs.class", name.encode())


def make_repository(directory):
    """With the new version in a commit that 'new' names."""
    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=directory, check=True)
    git("init", "-q", "--separate-git-dir", f"{directory}/git")
    git("add", "file")
    git("commit", "-qm", "new")
    git("tag", "new")


class Trial:
    """One store, and a file in it for each way."""

    def __init__(self, program, directory):
        self.store = Store(program, directory)
        self.store.init("passcode")
        self.directory = directory
        self.count = 0
        self.lock = f"{directory}/lock"
        with open(self.lock, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\nexec '{program}' lock --now '{self.store.mount_point}'\n")
        os.chmod(self.lock, 0o755)
        home = f"{directory}/home"
        os.mkdir(home)
        self.environment = {**os.environ, "HOME": home}
        self.remount()
        self.store.unlock("passcode")

    def remount(self):
        if self.store.daemon:
            self.store.run("unmount", self.store.mount_point)
            self.store.daemon.wait()
        self.store.mount()

    def outcome(self, command, place):
        """What is left of a file that is saved by a command: a word, and its exit status."""
        directory_class, file_class, before = place
        self.count += 1
        old_directory, new_directory = f"{self.store.mount_point}/{self.count}", f"{self.directory}/{self.count}"
        for directory, text in ((old_directory, "old\n"), (new_directory, "new\n")):
            os.mkdir(directory)
            if text == "old\n":
                set_class(directory, directory_class)
            with open(f"{directory}/file", "w", encoding="ascii") as file:
                file.write(text)
        if file_class and file_class != directory_class:
            set_class(f"{old_directory}/file", file_class)
        if "GIT_DIR" in command:
            make_repository(new_directory)
        if before == "lock":
            self.store.run("lock", "--now", self.store.mount_point)
        elif before == "remount":
            self.remount()
        old, new = f"{old_directory}/file", f"{new_directory}/file"
        # Some programs compare times and lengths.
        os.utime(new, (1_000_000_000, 1_000_000_000))
        lock = "true" if before == "nothing" else self.lock
        result = subprocess.run(
            ["sh", "-c", command, "sh", new, old], env={**self.environment, "OLD": old, "LOCK": lock}, stdin=subprocess.DEVNULL,
            stdout=self.store.log, stderr=self.store.log, timeout=180, check=False)
        self.store.unlock("passcode")
        return self.left(old_directory), result.returncode

    @staticmethod
    def left(directory):
        found = {}
        for name in os.listdir(directory):
            if os.path.isdir(f"{directory}/{name}"):
                continue
            with open(f"{directory}/{name}", encoding="utf-8-sig", errors="replace") as file:
                found[name] = file.read().strip()
        if found.get("file") in ("old", "new"):
            return found["file"]
        return "backup" if "old" in found.values() else f"LOST ({found})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--protectfs", required=True, help="the command")
    parser.add_argument("--only", nargs="+", help="names of ways")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="protectfs-save.")
    trial = None
    wrong = []
    print(f"{'':28}" + "".join(f"{name:>15}" for name in PLACES))
    try:
        trial = Trial(options.protectfs, directory)
        for name, command in {**REPLACING, **EDITING}.items():
            if options.only and name not in options.only:
                continue
            line = f"{name:28}"
            for place, classes in PLACES.items():
                if classes[2] is None and name not in EDITING:
                    word = "–"
                else:
                    word, status = trial.outcome(command, classes)
                    if word.startswith("LOST") or classes[2] == "nothing" and word != "new":
                        wrong.append(f"{name}, {place}: {word}")
                    word = f"{word[:6]} {status}"
                line += f"{word:>15}"
            print(line, flush=True)
    finally:
        if trial and trial.store.daemon:
            trial.store.run("unmount", trial.store.mount_point)
            trial.store.daemon.wait()
        shutil.rmtree(directory)
    print("The number is the exit status.")
    for line in wrong:
        print(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
