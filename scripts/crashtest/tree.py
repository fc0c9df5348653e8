"""A tree of files as it should be: what each operation of the load does to it.

An operation is a tuple of its kind and its arguments. Files and directories are told apart by identities that the load
gives them, so that a path may change while an operation is told to the log.
"""

import copy
import random


def data(tag, count):
    """The bytes that a write with this tag writes: none twice. Those of a shorter one are the first of a longer one."""
    return random.Random(tag).randbytes((count + 3) // 4 * 4)[:count]


class Node:
    __slots__ = ("kind", "cls", "explicit", "xattrs", "target", "entries", "content", "has_stale_end", "is_doubtful")

    def __init__(self, kind, cls=None, target=None):
        self.kind, self.cls, self.target = kind, cls, target
        self.explicit = False
        # An earlier power cut has perhaps left the length without what was written behind it, or cleared.
        self.has_stale_end = False
        # A write through a mapping was perhaps lost, or a part of it, by a lock.
        self.is_doubtful = False
        self.xattrs, self.entries, self.content = {}, {}, b""


class Tree:
    """The nodes by identity; the root is "/"."""

    # What belongs to names and attributes, not to contents: it changes on disk in the order of the operations.
    structural = {"create", "mkdir", "rmdir", "unlink", "link", "rename", "symlink", "class", "setxattr", "removexattr"}

    def __init__(self, cls=None):
        self.nodes = {"/": Node("directory", cls)}

    def copy(self):
        return copy.deepcopy(self)

    def apply(self, operation):
        getattr(self, "do_" + operation[0])(*operation[1:])

    def partial(self, operation):
        """The states that a crash in the middle of one operation may leave: a file that is about to replace one with a
        chosen class has that class already."""
        if operation[0] != "rename":
            return
        state = self.copy()
        if state.take_class(*operation[1:]):
            yield state

    # Names.

    def do_create(self, directory, name, identity):
        self.add(directory, name, identity, Node("file", self.nodes[directory].cls))

    def do_mkdir(self, directory, name, identity):
        self.add(directory, name, identity, Node("directory", self.nodes[directory].cls))

    def do_symlink(self, directory, name, identity, target):
        self.add(directory, name, identity, Node("link", target=target))

    def add(self, directory, name, identity, node):
        self.nodes[identity] = node
        self.nodes[directory].entries[name] = identity

    def do_link(self, identity, directory, name):
        self.nodes[directory].entries[name] = identity

    def do_unlink(self, directory, name):
        del self.nodes[directory].entries[name]

    do_rmdir = do_unlink

    def do_rename(self, source, name, target, new_name):
        moved = self.nodes[source].entries[name]
        # Two names of one file: rename(2) does nothing.
        if self.nodes[target].entries.get(new_name) == moved:
            return
        self.take_class(source, name, target, new_name)
        del self.nodes[source].entries[name]
        self.nodes[target].entries[new_name] = moved

    def take_class(self, source, name, target, new_name):
        """A file that replaces one with a chosen class takes it over. Returns whether this one did."""
        identity = self.nodes[source].entries[name]
        replaced = self.nodes.get(self.nodes[target].entries.get(new_name))
        moved = self.nodes[identity]
        if replaced is None or replaced is moved or replaced.kind != "file" or moved.kind != "file":
            return False
        if not replaced.explicit or moved.explicit:
            return False
        moved.cls, moved.explicit = replaced.cls, True
        return True

    # Attributes.

    def do_class(self, identity, cls):
        self.nodes[identity].cls, self.nodes[identity].explicit = cls, True

    def do_setxattr(self, identity, name, value):
        self.nodes[identity].xattrs[name] = value

    def do_removexattr(self, identity, name):
        del self.nodes[identity].xattrs[name]

    # Contents.

    def do_write(self, identity, offset, count, tag):
        node = self.nodes[identity]
        node.content = written(node.content, offset, data(tag, count))

    def do_perhaps_write(self, identity, *_):
        self.nodes[identity].is_doubtful = True

    def do_truncate(self, identity, length):
        node = self.nodes[identity]
        node.content = resized(node.content, length)

    def do_fsync(self, identity):
        pass

    def do_fdatasync(self, identity):
        pass

    # Questions.

    def walk(self, identity="/", path=()):
        """All entries below a directory: (path, identity, directory's identity), parents first, sorted."""
        for name, child in sorted(self.nodes[identity].entries.items()):
            yield (*path, name), child, identity
            if self.nodes[child].kind == "directory":
                yield from self.walk(child, (*path, name))

    def shape(self):
        """All that is to be seen but contents, in a form that can be compared; hard links by the order they are met."""
        numbers, shape = {}, []
        root = self.nodes["/"]
        shape.append(("/", root.kind, root.cls, root.explicit))
        for path, identity, _ in self.walk():
            node = self.nodes[identity]
            shape.append(("/".join(path), node.kind, node.cls, node.explicit, node.target, sorted(node.xattrs.items()),
                          numbers.setdefault(identity, len(numbers))))
        return shape


def written(content, offset, new):
    return content[:offset].ljust(offset, b"\0") + new + content[offset + len(new):]


def resized(content, length):
    return content[:length].ljust(length, b"\0")
