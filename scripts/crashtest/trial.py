"""One store through many crashes: the load before each, and the check of everything after it."""

import collections
import os
import random
import signal

from crashtest import keeper, load, verify
from crashtest.account import GONE, Account
from crashtest.store import Failure
from crashtest.tree import Tree

FIRST_PASSCODE = "passcode-0"


class Trial:
    def __init__(self, store, directory, workers, seed):
        self.store, self.directory = store, directory
        self.random = random.Random(seed)
        self.passcode = FIRST_PASSCODE
        self.trees = {f"worker{number}": None for number in range(workers)}
        self.tree_class = None
        self.notes = set()
        self.processes = {}
        self.operations = self.synchronised = 0
        # What was under way when a crash came, and how often.
        self.interrupted = collections.Counter()

    def prepare(self):
        """Gives each worker a directory on the new mount."""
        for name in self.trees:
            os.mkdir(f"{self.store.mount_point}/{name}")
            self.trees[name] = Tree("completeUntilFirstUserAuthentication")
        os.mkdir(f"{self.store.mount_point}/tree")
        keeper.make_tree(f"{self.store.mount_point}/tree")
        self.tree_class = {self.class_of("tree")}

    def class_of(self, path):
        return os.getxattr(f"{self.store.mount_point}/{path}", "user.protectfs.class").decode()

    # The load.

    def start(self):
        for name, tree in self.trees.items():
            with Account(self.account(name)) as account:
                self.processes[name] = load.start(
                    f"{self.store.mount_point}/{name}", tree.copy(), account, self.random.getrandbits(32))
        with Account(self.account("keeper")) as account:
            self.processes["keeper"] = keeper.start(self.store, self.passcode, account, self.random.getrandbits(32))

    def account(self, name):
        return f"{self.directory}/{name}.account"

    def stop(self):
        """Ends the load. The keeper leads a group, with the command that it runs."""
        for name, process in self.processes.items():
            try:
                os.kill(process, signal.SIGKILL)
                if name == "keeper":
                    os.killpg(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for name, process in self.processes.items():
            _, status = os.waitpid(process, 0)
            if not (os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0):
                self.processes = {}
                raise Failure(f"{name} ended with status {os.WEXITSTATUS(status)}")
        self.processes = {}

    # What a crash left.

    def check_backing(self, crash):
        """Checks the store that is not mounted. A crash leaves no more than each process had under its hands."""
        notes = self.store.check(self.candidates(crash))
        # Of those that are on the way to new keys there may be any number.
        new = {note for note in notes - self.notes if note[0] != "rekey-pending"}
        if len(new) > len(self.trees) + 2:
            raise Failure(f"more leftovers than there were operations: {sorted(new)}")
        self.notes = notes
        return new

    def keeper_events(self, crash):
        """What the keeper had begun; its commands do not fail before a crash."""
        return verify.read_account(self.account("keeper"), crash, gone=set(range(1, 256)))

    def candidates(self, crash):
        """The passcodes of which one opens the store: the last that was changed to, and one being changed to."""
        passcodes = [self.passcode]
        for event in self.keeper_events(crash):
            if event.operation[0] == "passcode":
                passcodes = [event.operation[1]] if event.done else [*passcodes, event.operation[1]]
        return passcodes

    def check_mounted(self, crash):
        """Checks the store on a fresh mount, and takes what is there as the state before the next crash."""
        candidates = self.candidates(crash)
        old = self.passcode
        self.passcode = self.store.unlock_with_one(candidates)
        if self.passcode != old and old not in candidates and self.store.unlock(old):
            raise Failure(f"an old passcode, {old}, still opens the store")
        for name, base in self.trees.items():
            events = verify.read_account(self.account(name), crash, GONE)
            self.operations += len(events)
            self.interrupted.update(event.operation[0] for event in events if not event.done)
            self.synchronised += sum(event.operation[0] in ("fsync", "fdatasync") for event in events)
            self.trees[name] = verify.check(f"{self.store.mount_point}/{name}", base, events, crash)
        self.check_tree(crash)
        self.interrupted.update(event.operation[0] for event in self.keeper_events(crash) if not event.done)

    def check_tree(self, crash):
        """The tree whose class was set: contents as ever, each class old or new."""
        classes = set(self.tree_class)
        for event in self.keeper_events(crash):
            if event.operation[0] == "tree":
                new = event.operation[1]
                classes = {new} if event.done and not crash.is_power_cut else classes | {new}
        self.tree_class = set()
        for number in range(keeper.TREE_FILES):
            path = f"tree/{number % 3}/{number}"
            with open(f"{self.store.mount_point}/{path}", "rb") as file:
                if file.read() != keeper.tree_content(number):
                    raise Failure(f"{path}: contents changed with the class")
            self.tree_class.add(self.class_of(path))
        if not self.tree_class <= classes:
            raise Failure(f"tree: classes {self.tree_class}, not among {classes}")
