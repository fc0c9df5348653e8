"""Holds what a crash left against the account of what was done.

Names, classes and attributes must be those of a moment of the worker's own: all its operations up to one of them, at
least those that were promised. Contents must be what was last synchronised, with any part of what was written after.
"""

import json
import os
import stat

from crashtest.tree import Node, Tree, data, resized, written


class Difference(Exception):
    """What a crash left is not what may be."""


class Event:
    """An operation of the account. `done` is whether it was acknowledged, else it was cut short by the crash."""

    def __init__(self, operation):
        self.operation = operation
        self.done = False


class Crash:
    """When it was. A power cut leaves what was done before `moment`, and of what was acknowledged only what is durable.
    A daemon that is killed at `moment` or somewhat later leaves all that it has acknowledged."""

    def __init__(self, moment, is_power_cut):
        self.moment, self.is_power_cut = moment, is_power_cut


def read_account(path, crash, gone):
    """The operations that were begun before the crash and not refused. An error that a mount has only when its daemon
    is dead, but that was told before, is a difference."""
    events, begun = [], None
    with open(path, encoding="ascii") as lines:
        for line in lines:
            word, time, what = json.loads(line)
            if crash.is_power_cut and time >= crash.moment:
                break
            if word == "said":
                continue
            if word == "begin":
                begun = Event(tuple(what))
                events.append(begun)
            elif word == "part":
                begun.operation, begun.done = tuple(what), True
            elif what == 0:
                begun.done = True
            elif what in gone and time >= crash.moment:
                pass
            elif what in gone:
                raise Difference(f"{path}: {begun.operation}: status {what}, before the crash")
            else:
                events.pop()
    return events


def promised(events, crash):
    """How many of the events, from the first, must have their effect on names and attributes.

    When only the daemon has died, that is every one that was answered. After a power cut it is what fsync(2) was asked
    for: the last change of a file or directory that was synchronised afterwards, and what was done before it, since the
    journal keeps the order.
    """
    if not crash.is_power_cut:
        return sum(event.done for event in events)
    count, last = 0, {}
    for index, event in enumerate(events):
        kind, *arguments = event.operation
        if kind == "fsync" and event.done:
            count = max(count, last.get(arguments[0], 0))
        for identity in touched(event.operation):
            last[identity] = index + 1
    return count


def touched(operation):
    """The files and directories whose fsync(2) covers an operation."""
    kind, *arguments = operation
    match kind:
        case "create" | "mkdir": return [arguments[0], arguments[2]]
        case "symlink" | "unlink" | "rmdir": return [arguments[0]]
        case "link": return [arguments[0], arguments[1]]
        case "rename": return [arguments[0], arguments[2]]
        case "class" | "setxattr" | "removexattr": return [arguments[0]]
        case _: return []


def names_in(operation):
    kind, *arguments = operation
    match kind:
        case "create" | "mkdir" | "symlink" | "unlink" | "rmdir": return {arguments[1]}
        case "link": return {arguments[2]}
        case "rename": return {arguments[1], arguments[3]}
        case _: return set()


def observe(directory, possible_names):
    """The tree that the mount shows. Everything that is listed must be there and readable, and what is not listed must
    not be there."""
    tree = Tree()
    identities = {}

    def visit(path, identity):
        node = tree.nodes[identity]
        with os.scandir(path) as entries:
            listed = sorted((entry.name, entry.inode(), entry.is_dir(follow_symlinks=False)) for entry in entries)
        for name, inode, is_directory in listed:
            child = f"{path}/{name}"
            status = os.lstat(child)
            if status.st_ino != inode or stat.S_ISDIR(status.st_mode) != is_directory:
                raise Difference(f"{child}: listed as another than it is")
            if status.st_ino in identities:
                node.entries[name] = identities[status.st_ino]
                continue
            new = identities[status.st_ino] = f"seen.{directory}.{status.st_ino}"
            node.entries[name] = new
            tree.nodes[new] = look_at(child, status)
            if is_directory:
                visit(child, new)
        for name in possible_names - node.entries.keys():
            if os.path.lexists(f"{path}/{name}"):
                raise Difference(f"{path}/{name}: is there, but is not listed")

    tree.nodes["/"] = look_at(directory, os.lstat(directory))
    visit(directory, "/")
    return tree


def look_at(path, status):
    if stat.S_ISLNK(status.st_mode):
        return Node("link", target=os.readlink(path))
    node = Node("directory" if stat.S_ISDIR(status.st_mode) else "file")
    node.cls = os.getxattr(path, "user.protectfs.class").decode()
    for name in os.listxattr(path):
        if name == "user.protectfs.class":
            node.explicit = True
        elif name.startswith("user."):
            node.xattrs[name] = os.getxattr(path, name).hex()
    if node.kind == "file":
        # One whose creation was cut short has no record yet, and is given one, with its directory's class, when it is opened
        # for writing: before it is moved elsewhere.
        with open(path, "rb" if status.st_size else "r+b") as file:
            node.content = file.read()
        if len(node.content) != status.st_size:
            raise Difference(f"{path}: {len(node.content)} bytes read, {status.st_size} told")
    return node


def check(directory, base, events, crash):
    """Checks a worker's directory after a crash, and returns the tree that is there now."""
    names = {name for node in base.nodes.values() for name in node.entries}
    for event in events:
        names |= names_in(event.operation)
    seen = observe(directory, names)
    shape = seen.shape()
    least = promised(events, crash)
    state, reason = base.copy(), None
    for event in events[:least]:
        state.apply(event.operation)
    for position in range(least, len(events) + 1):
        partial = state.partial(events[position].operation) if position < len(events) else ()
        for candidate in [state, *partial]:
            if candidate.shape() != shape:
                continue
            try:
                check_contents(candidate, seen, base, events, crash)
                return seen
            except Difference as difference:
                reason = difference
        if position < len(events):
            state.apply(events[position].operation)
    if reason is None:
        reason = describe(directory, shape, base, events, least)
    raise Difference(f"{directory}: {reason}")


def describe(directory, shape, base, events, least):
    """How what was seen differs from the state after all operations."""
    state = base.copy()
    for event in events:
        state.apply(event.operation)
    expected = state.shape()
    lines = [f"none of the {len(events) - least + 1} states that may be"]
    lines += [f"  seen, and not in the last state: {line}" for line in shape if line not in expected]
    lines += [f"  in the last state, and not seen: {line}" for line in expected if line not in shape]
    lines += [f"  {'done' if event.done else 'begun'}: {event.operation}" for event in events[-12:]]
    return "\n".join(lines)


def check_contents(candidate, seen, base, events, crash):
    for path, identity, _ in candidate.walk():
        if candidate.nodes[identity].kind != "file":
            continue
        found, node = None, seen.nodes["/"]
        for name in path:
            found = node.entries[name]
            node = seen.nodes[found]
        states, stale = contents(identity, base, events)
        node.has_stale_end = crash.is_power_cut and (len(states) > 1 or bool(stale))
        try:
            check_content("/".join(path), node.content, states, stale if crash.is_power_cut else [])
        except Difference as difference:
            history = [f"  {'done' if event.done else 'begun'}: {event.operation}" for event in events
                       if identity in event.operation]
            raise Difference("\n".join([str(difference), *history])) from difference


def contents(identity, base, events):
    """What a file held from when it was last synchronised on, one after each write; and where, behind an end that it had,
    the disk may hold something else: what a shrink cut off, or what was written before an earlier power cut."""
    old = base.nodes.get(identity, Node("file"))
    # What it holds: with and without each write that was perhaps lost.
    current = [old.content]
    states = [old.content]
    stale = [range(len(old.content), unit_end(len(old.content)) + 16)] if old.has_stale_end else []
    is_cleared = False
    for event in events:
        kind, *arguments = event.operation
        if not arguments or arguments[0] != identity:
            continue
        if kind == "write":
            is_cleared |= arguments[1] + arguments[2] >= len(current[0])
            current = [written(content, arguments[1], data(arguments[3], arguments[2])) for content in current]
            states += current
        elif kind == "perhaps_write":
            current += [written(content, arguments[1], data(arguments[3], arguments[2])) for content in current]
            states += current
        elif kind == "truncate":
            is_cleared |= arguments[1] != len(current[0])
            if arguments[1] < len(current[0]):
                # The rest of the block, and the one behind it, by which the length is told.
                stale.append(range(arguments[1], block_end(arguments[1]) + (16 if arguments[1] % 16 else 0)))
            current = [resized(content, arguments[1]) for content in current]
            states += current
        elif kind in ("fsync", "fdatasync") and event.done:
            states = list(current)
            if is_cleared:
                stale = []
    return states, stale


def check_content(path, seen, states, stale):
    """Each byte is one of those that were there since the file was last synchronised, or zero where there was none; the
    length is between those that it had. Two exceptions follow from how contents are stored, see ARCHITECTURE.md."""
    if seen in states:
        return
    shortest, longest = min(map(len, states)), max(whole_unit(len(state)) for state in states)
    if not shortest <= len(seen) <= longest:
        raise Difference(f"{path}: {len(seen)} bytes, not {shortest} to {longest}")
    for start in range(0, len(seen), 16):
        block = seen[start:start + 16]
        if any(state[start:start + 16] == block for state in states):
            continue
        for position, byte in enumerate(block, start):
            if any(position in free for free in stale):
                continue
            # Zeros where at some time there was nothing: what was to come there was not written yet.
            if not any(position < len(state) and state[position] == byte for state in states) and not (
                    byte == 0 and any(position >= len(state) for state in states)):
                raise Difference(
                    f"{path}: byte {position} of {len(seen)} was never there; {len(states) - 1} writes since it was "
                    f"synchronised, lengths {[len(state) for state in states]}")


def block_end(length):
    return (length + 15) // 16 * 16


def unit_end(length):
    return (length + 4095) // 4096 * 4096


def whole_unit(length):
    """What the length can be taken for when the bytes that tell it, which lie in the next unit, are not there."""
    return block_end(length) if block_end(length) % 4096 == 0 else length
