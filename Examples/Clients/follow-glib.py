#!/usr/bin/env python3
"""Follows a mount in a main loop of GLib, as a GTK application would, and delays each lock until it has put its files
away. usage: follow-glib.py SOCKET; needs python3-gi

SOCKET is the mount's, as Documentation/PROTOCOL.md names it: /run/protectfs/mnt.sock for root's /mnt.
"""
import json
import sys

from gi.repository import Gio, GLib

# A list, since the callbacks set it.
ended = []


class Call:
    """A call with several replies. `receive` returns whether it wants more; the connection ends with the last one."""

    def __init__(self, path, method, receive):
        self.receive = receive
        self.connection = Gio.SocketClient().connect(Gio.UnixSocketAddress.new(path))
        message = {"method": f"org.protectfs.Daemon.{method}", "more": True}
        self.connection.get_output_stream().write_all(json.dumps(message).encode() + b"\0")
        self.received = b""
        self.read()

    def read(self):
        self.connection.get_input_stream().read_bytes_async(4096, GLib.PRIORITY_DEFAULT, None, self.have_read)

    def have_read(self, stream, result):
        data = stream.read_bytes_finish(result).get_data()
        *messages, self.received = (self.received + data).split(b"\0")
        for message in messages:
            if not self.receive(json.loads(message)["parameters"]):
                self.connection.close()
                return
        if data:
            self.read()
        else:
            ended.append("the daemon has ended")
            loop.quit()


def delay(reply):
    """The first reply says that this is registered, the last one that a lock was announced, which waits for it."""
    if "seconds" not in reply:
        return True
    # For the next lock, before this one can take effect.
    Call(path, "DelayLock", delay)
    print("put away", flush=True)
    return False


def event(reply):
    print(reply["event"]["event"], flush=True)
    return True


path = sys.argv[1]
loop = GLib.MainLoop()
# Registered before it listens, so that each lock that it hears of waits for it.
Call(path, "DelayLock", delay)
Call(path, "MonitorEvents", event)
loop.run()
sys.exit(ended[0] if ended else 0)
