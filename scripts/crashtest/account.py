"""The account of what was done to a mount: a file outside of it, a line of JSON before each operation and one after it,
["begin", time, operation] and ["end", time, error number or 0]; or, where only part of it was done, ["part", time, the
operation that was done]. Times are nanoseconds of the monotonic clock. A crash is thus between an operation's two lines,
or between operations.
"""

import errno
import json
import os
import time

# What is said by a mount whose daemon was killed; with the daemon alive it is a failure, which the reader of the
# account finds by the time. EINTR is of a request that the kernel was copying to a ring when the daemon was killed
# (`fuse_uring_prepare_send` in fs/fuse/dev_uring.c ends it with the error of the copy).
GONE = {errno.ENOTCONN, errno.ECONNABORTED, errno.ECANCELED, errno.EIO, errno.EINTR}
# The class of the file is locked.
REFUSED = {errno.EACCES}


class Gone(Exception):
    """The daemon has died under an operation, of which it is not known whether it was done."""


class Refused(Exception):
    """A class is locked: the operation was not done."""


class Account:
    """The file that a worker tells what it does. It is made before the worker, which may be killed before its first
    step."""

    def __init__(self, path):
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.descriptor)

    def tell(self, *line):
        os.write(self.descriptor, (json.dumps(line) + "\n").encode())

    def run(self, operation, call):
        """Returns what was done: what `call` returns, or the operation."""
        self.tell("begin", time.monotonic_ns(), operation)
        try:
            part = call()
        except OSError as error:
            self.tell("end", time.monotonic_ns(), error.errno)
            if error.errno in GONE:
                raise Gone from error
            if error.errno in REFUSED:
                raise Refused from error
            raise
        if part:
            self.tell("part", time.monotonic_ns(), part)
        else:
            self.tell("end", time.monotonic_ns(), 0)
        return part or operation
