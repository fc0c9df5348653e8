"""A store of a test, its mount, and the command."""

import json
import os
import signal
import subprocess
import time

# What a crash may leave for the check to find: notes, each of which the mount passes over or puts right.
HARMLESS = {"orphan-sidecar", "empty-file-without-record", "empty-directory-without-record", "keybag-leftover",
            "rekey-pending"}


class Failure(Exception):
    """The command or the mount did not do what it has to."""


class Store:
    """Everything lies in `directory`, but the backing directory where another is named."""

    def __init__(self, program, directory, backing=None):
        self.program, self.directory = program, directory
        self.backing = backing or f"{directory}/backing"
        self.mount_point = f"{directory}/mount"
        self.key = f"{directory}/device.key"
        self.daemon = None
        self.log = open(f"{directory}/log", "ab")
        os.makedirs(self.mount_point, exist_ok=True)

    def passcode_file(self, passcode):
        path = f"{self.directory}/passcode.{passcode}"
        if not os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(passcode)
        return path

    def arguments(self, *arguments):
        return [self.program, *arguments]

    def run(self, *arguments, statuses=(0,), timeout=120):
        result = subprocess.run(
            self.arguments(*arguments), capture_output=True, text=True, timeout=timeout, check=False)
        if result.returncode not in statuses:
            raise Failure(f"{' '.join(arguments[:2])}: status {result.returncode}: {result.stdout}{result.stderr}")
        return result

    def init(self, passcode):
        self.run("init", self.backing, "--passcode-file", self.passcode_file(passcode), "--device-key", self.key,
                 *(["--authenticated"] if "PROTECTFS_TEST_AUTHENTICATED" in os.environ else []))

    def mount(self):
        self.daemon = subprocess.Popen(
            self.arguments("mount", self.backing, self.mount_point, "--foreground", "--device-key", self.key),
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        end = time.monotonic() + 120
        while not os.path.ismount(self.mount_point):
            if self.daemon.poll() is not None or time.monotonic() > end:
                raise Failure(f"the mount does not come up; see {self.log.name}")
            time.sleep(0.005)

    def unlock(self, passcode):
        """Whether the passcode opens the mount."""
        result = self.run("unlock", "--passcode-file", self.passcode_file(passcode), self.mount_point, statuses=(0, 3))
        return result.returncode == 0

    def unlock_with_one(self, passcodes):
        """Unlocks; exactly one of the passcodes may do. Returns it."""
        opening = [passcode for passcode in passcodes if self.unlock(passcode)]
        if len(opening) != 1:
            raise Failure(f"of the passcodes {passcodes}, these open the store: {opening}")
        return opening[0]

    def kill(self):
        """Kills the daemon, and returns when it is dead."""
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait()

    def clear_mount(self):
        """Takes away a mount whose daemon is dead."""
        while os.path.ismount(self.mount_point) or is_dead_mount(self.mount_point):
            unmount(self.mount_point, lazy=True)

    def unmount(self):
        unmount(self.mount_point, lazy=False)
        if self.daemon.wait(60) != 0:
            raise Failure(f"the daemon ended with status {self.daemon.returncode}; see {self.log.name}")

    def check(self, passcodes):
        """Runs fsck with the one of the passcodes that opens the store. Returns its notes, a set of (code, backing name);
        not the path, since directories are renamed."""
        for passcode in passcodes:
            result = self.run("fsck", "--json", "--passcode-file", self.passcode_file(passcode), "--device-key",
                              self.key, self.backing, statuses=(0, 4, 8))
            if result.returncode != 8:
                break
        findings = json.loads(result.stdout)["findings"] if result.returncode != 8 else None
        if result.returncode != 0 or any(finding["code"] not in HARMLESS for finding in findings):
            raise Failure(f"fsck: status {result.returncode}: {result.stdout}{result.stderr}")
        return {(finding["code"], os.path.basename(finding["backingPath"])) for finding in findings}

    def tear_down(self):
        if self.daemon is not None and self.daemon.poll() is None:
            self.kill()
        self.clear_mount()
        self.log.close()


def unmount(path, lazy):
    if os.geteuid() == 0:
        subprocess.run(["umount", *(["-l"] if lazy else []), path], check=True)
    else:
        subprocess.run(["fusermount3", "-uz" if lazy else "-u", path], check=True)


def is_dead_mount(path):
    try:
        os.stat(path)
        return False
    except OSError:
        return True
