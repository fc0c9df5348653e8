#!/usr/bin/env python3
"""Prints the events of a mount, with asyncio. usage: follow-asyncio.py SOCKET

SOCKET is the mount's, as Documentation/PROTOCOL.md names it: /run/protectfs/mnt.sock for root's /mnt.
"""
import asyncio
import json
import sys


async def main(path):
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(json.dumps({"method": "org.protectfs.Daemon.MonitorEvents", "more": True}).encode() + b"\0")
    while True:
        reply = json.loads((await reader.readuntil(b"\0"))[:-1])
        event = reply["parameters"]["event"]
        print(event["event"], event.get("state", ""), *event.get("classes", []), flush=True)


try:
    asyncio.run(main(sys.argv[1]))
except asyncio.IncompleteReadError:
    sys.exit("the daemon has ended")
