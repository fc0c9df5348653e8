"""A mounted store, and what is measured of it."""

import hashlib
import json
import os
import re
import subprocess
import sys
import time

PASSCODE = "a passcode"


class Row:
    """A figure beside its bound, which is a largest value unless `at_least`."""

    def __init__(self, name, measured, bound, unit="", at_least=False):
        self.name, self.measured, self.bound, self.unit, self.at_least = name, measured, bound, unit, at_least
        print(f"{name}: {self.shown}", file=sys.stderr, flush=True)

    @property
    def holds(self):
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    @property
    def shown(self):
        return f"{self.measured:,.2f} {self.unit}".strip() if self.measured < 100 else f"{self.measured:,.0f} {self.unit}".strip()

    @property
    def bound_shown(self):
        return f"{'at least' if self.at_least else 'at most'} {self.bound:,g} {self.unit}".strip()


class Mounted:
    """A store made, mounted and unlocked, for as long as the context lasts."""

    def __init__(self, program, root):
        self.program, self.root = program, root
        self.backing, self.directory = f"{root}/backing", f"{root}/mount"
        self.passcode, self.key = f"{root}/passcode", f"{root}/device.key"

    def __enter__(self):
        os.makedirs(self.backing)
        os.makedirs(self.directory)
        with open(self.passcode, "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(PASSCODE + "\n")
        self.run("init", self.backing, "--passcode-file", self.passcode, "--device-key", self.key)
        self.mount()
        self.unlock()
        return self

    def __exit__(self, *_):
        self.unmount()

    def run(self, *arguments):
        return subprocess.run([self.program, *arguments], check=True, capture_output=True, text=True).stdout

    def timed(self, *arguments):
        """Seconds that a command takes."""
        start = time.perf_counter()
        self.run(*arguments)
        return time.perf_counter() - start

    def mount(self):
        seconds = self.timed("mount", self.backing, self.directory, "--device-key", self.key)
        self.pid = self.status()["processID"]
        return seconds

    def unmount(self):
        self.run("unmount", self.directory)

    def unlock(self):
        return self.timed("unlock", self.directory, "--passcode-file", self.passcode)

    def lock(self):
        return self.timed("lock", "--now", self.directory)

    def status(self):
        return json.loads(self.run("status", "--json", self.directory))

    def memory(self):
        """Bytes that the daemon has for itself: not its program, which it shares."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) * 1024

    def key_derivation(self):
        """A function that does the key derivation of the store's passcode with another program, and returns its seconds."""
        information = json.loads(self.run("info", "--json", self.backing, "--device-key", self.key))
        text = next(way["keyDerivation"] for way in information["waysIn"] if way["kind"] == "passcode")
        exponent, size, lanes = map(int, re.fullmatch(r"scrypt N=2\^(\d+) r=(\d+) p=(\d+), .*", text).groups())

        def derive():
            start = time.perf_counter()
            hashlib.scrypt(b"x", salt=b"y" * 16, n=1 << exponent, r=size, p=lanes, maxmem=1 << 30, dklen=32)
            return time.perf_counter() - start
        return derive
