"""The keeper: does to the mount as a whole what its owner does, while workers change files. It locks and unlocks,
changes the passcode, and sets the class of a tree.
"""

import os
import random
import signal
import subprocess
import sys
import time

from crashtest.load import CLASSES

TREE_FILES = 40


def make_tree(directory):
    """The tree whose class is set as a whole."""
    for number in range(TREE_FILES):
        folder = f"{directory}/{number % 3}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{number}", "wb") as file:
            file.write(tree_content(number))


def tree_content(number):
    return random.Random(number).randbytes(100 * number)


class Keeper:
    def __init__(self, store, passcode, account, seed):
        self.store, self.account = store, account
        self.random = random.Random(seed)
        self.passcode, self.seed, self.count = passcode, seed, 0

    def run(self, operation, *arguments):
        """Runs the command as one operation of the account; ends when it fails, as it does with the daemon dead."""
        self.account.tell("begin", time.monotonic_ns(), operation)
        result = subprocess.run(self.store.arguments(*arguments), stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, check=False)
        self.account.tell("end", time.monotonic_ns(), result.returncode)
        if result.returncode != 0:
            self.account.tell("said", time.monotonic_ns(), result.stderr)
            raise SystemExit(0)

    def lock(self):
        self.run(["lock"], "lock", "--now", self.store.mount_point)
        time.sleep(self.random.random() * 0.05)
        self.run(["unlock"], "unlock", "--passcode-file", self.store.passcode_file(self.passcode),
                 self.store.mount_point)

    def change_passcode(self):
        self.count += 1
        new = f"passcode-{self.seed}-{self.count}"
        self.run(["passcode", new], "passcode", "change", "--passcode-file", self.store.passcode_file(self.passcode),
                 "--new-passcode-file", self.store.passcode_file(new), self.store.mount_point)
        self.passcode = new

    def set_tree(self):
        new = self.random.choice(CLASSES)
        self.run(["tree", new], "class", "set", "-R", new, f"{self.store.mount_point}/tree")

    def work(self):
        while True:
            self.random.choice([self.lock, self.change_passcode, self.set_tree])()
            time.sleep(self.random.random() * 0.1)


def start(store, passcode, account, seed):
    """Forks the keeper, as the leader of a session of its own; returns its process ID."""
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        Keeper(store, passcode, account, seed).work()
    except SystemExit:
        pass
    except BaseException as error:
        print(f"keeper: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(0)
