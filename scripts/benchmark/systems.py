"""The file systems that are measured."""

import os
import subprocess
import time

from benchmark.kernel import forget_peak
from benchmark.workloads import run


# protectfs, by the way in which requests come and whether processors are kept from deep sleep meanwhile.
PROTECTFS = {"device": "transport=device,latency=system", "device+hold": "transport=device,latency=low",
             "io_uring": "transport=io_uring,latency=system", "io_uring+hold": "transport=io_uring,latency=low"}
# Measured besides, and in no picture.
OPTIONS = PROTECTFS | {"auto": "transport=auto,latency=system", "authenticated": "transport=device,latency=system"}
# What needs FUSE over io_uring.
RINGS = {"passthrough+io_uring", "io_uring", "io_uring+hold"}
ALL = ["ext4", "passthrough", "passthrough+io_uring", *OPTIONS, "gocryptfs", "securefs", "encfs"]


def offers_rings():
    """Whether the kernel offers FUSE over io_uring."""
    try:
        with open("/sys/module/fuse/parameters/enable_uring", encoding="ascii") as file:
            return file.read().strip() == "Y"
    except FileNotFoundError:
        return False


class FileSystem:
    """A file system under test: how it is mounted over a directory of its own, and who serves it."""

    def __init__(self, name, root):
        self.name, self.root = name, f"{root}/{name}"
        self.backing, self.directory = f"{self.root}/backing", f"{self.root}/mount"
        os.makedirs(self.backing)
        os.makedirs(self.directory)
        self.process = None

    def mount(self, options):
        passcode, backing, directory = options.passcode, self.backing, self.directory
        if self.name == "ext4":
            self.directory = backing
        elif self.name.startswith("passthrough"):
            rings = self.name in RINGS
            self.serve(options.passthrough_io_uring if rings else options.passthrough, "-f", "-o",
                       f"source={backing},writeback,cache=always,timeout=3600{',io_uring' if rings else ''}", directory)
        elif self.name in OPTIONS:
            key = f"{self.root}/device.key"
            run(options.protectfs, "init", backing, "--passcode-file", passcode, "--device-key", key,
                *["--authenticated"] * (self.name == "authenticated"))
            self.serve(options.protectfs, "mount", "-f", backing, directory, "--device-key", key, "-o", OPTIONS[self.name])
            run(options.protectfs, "unlock", directory, "--passcode-file", passcode)
        elif self.name == "gocryptfs":
            run("gocryptfs", "-q", "-init", "-passfile", passcode, backing)
            self.serve("gocryptfs", "-q", "-fg", "-passfile", passcode, backing, directory)
        elif self.name == "securefs":
            run("securefs", "create", "--format", "4", "--pass", "a passcode", backing)
            self.serve("securefs", "mount", "--pass", "a passcode", backing, directory)
        elif self.name == "encfs":
            self.serve("encfs", "-f", "--standard", "--extpass", f"cat {passcode}", backing, directory)

    def serve(self, *arguments):
        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        for _ in range(200):
            if os.path.ismount(self.directory):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"{self.name} did not mount")

    def forget_peak(self):
        """Starts the peak of the daemon's memory anew: that of the key derivation says nothing about serving files."""
        if self.process:
            forget_peak(self.process.pid)

    def cost(self):
        """CPU seconds of the daemon so far, and its peak memory in MiB since it was mounted."""
        if not self.process:
            return None
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        with open(f"/proc/{self.process.pid}/status") as file:
            peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), peak / 1024

    def unmount(self):
        if self.process:
            subprocess.run(["umount", self.directory], check=False)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                subprocess.run(["umount", "-l", self.directory], check=False)
                self.process.kill()
