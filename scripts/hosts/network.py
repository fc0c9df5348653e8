"""A server and two hosts, each a network namespace; the hosts reach the server, and can be cut off."""

import contextlib
import os
import pathlib
import signal
import subprocess

NAMES = ["a", "b"]


def run(*command, check=True, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stdout}")
    return done


class Network:
    def __init__(self, prefix):
        self.prefix = prefix
        self.made = []

    def namespace(self, name):
        return f"{self.prefix}-{name}"

    def start(self):
        for name in ["server", *NAMES]:
            run("ip", "netns", "add", self.namespace(name))
            self.made.append(name)
            self.ip(name, "link", "set", "lo", "up")
        for number, name in enumerate(NAMES, 1):
            run("ip", "link", "add", "eth0", "netns", self.namespace(name), "type", "veth",
                "peer", "name", f"to-{name}", "netns", self.namespace("server"))
            self.ip(name, "addr", "add", f"10.77.{number}.2/24", "dev", "eth0")
            self.ip("server", "addr", "add", f"10.77.{number}.1/24", "dev", f"to-{name}")
            self.ip(name, "link", "set", "eth0", "up")
            self.ip("server", "link", "set", f"to-{name}", "up")
            # The server has one address for all.
            self.ip(name, "route", "add", "default", "via", f"10.77.{number}.1")

    server_address = "10.77.1.1"

    def ip(self, name, *words):
        run("ip", "-n", self.namespace(name), *words)

    def inside(self, name, *command):
        """The command, in the network namespace alone: what it mounts is seen by all."""
        return ["nsenter", f"--net=/run/netns/{self.namespace(name)}", *command]

    def cut(self, name, is_cut=True):
        self.ip("server", "link", "set", f"to-{name}", "down" if is_cut else "up")

    def restore(self):
        """Ends all cuts."""
        for name in NAMES:
            if name in self.made and "server" in self.made:
                run("ip", "-n", self.namespace("server"), "link", "set", f"to-{name}", "up", check=False)

    def stop(self):
        for name in self.made:
            # What has not ended, with what it has started.
            inside = run("ip", "netns", "pids", self.namespace(name), check=False)
            for number in inside.stdout.split() if inside.returncode == 0 else []:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(number), signal.SIGKILL)
            run("ip", "netns", "del", self.namespace(name), check=False)


class Engine:
    """A file system of several hosts: what its servers and clients run as, and where it is mounted."""

    # Whether nothing comes any more that a client had begun to write when its locks were given away.
    keeps_out = True

    def __init__(self, network, directory):
        self.network, self.directory = network, pathlib.Path(directory)
        self.processes, self.mounted = [], []

    def begin(self, log, host, *command):
        """Starts a process that stays in the foreground."""
        with open(self.directory / f"{log}.log", "w", encoding="utf-8") as output:
            process = subprocess.Popen(self.network.inside(host, *command), stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=output, start_new_session=True)
        self.processes.append(process)
        return process

    def mount_again(self, name):
        """On a host that was cut off. Most clients go on by themselves."""

    def stop(self):
        for point in self.mounted:
            run("umount", "-l", str(point), check=False)
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
