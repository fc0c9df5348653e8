#!/usr/bin/env python3
"""Proves the control socket with the varlink client from PyPI: pip install varlink.

usage: varlink-check.py SOCKET PASSCODE

SOCKET is that of a mount whose passcode is given; the mount is locked and unlocked, and its passcode changed and
changed back, and the keys of class A erased. Prints one line a check, and "N passed, N failed" at the end.
"""

import sys
import threading
import time

import varlink

INTERFACE = "org.protectfs.Daemon"
CLASSES = ["complete", "completeUnlessOpen", "completeUntilFirstUserAuthentication", "none", "completeWhenUserInactive"]

counts = {"passed": 0, "failed": 0}


def check(name, condition):
    counts["passed" if condition else "failed"] += 1
    print(f"{'ok  ' if condition else 'FAIL'} {name}", flush=True)


def refused(error, call, **arguments):
    """Whether a call is answered with an error of that name."""
    try:
        call(**arguments)
    except varlink.VarlinkError as answer:
        return answer.error() == error
    return False


class Listener(threading.Thread):
    """Collects the events of a mount until one of a kind has come."""

    def __init__(self, client, last):
        super().__init__(daemon=True)
        self.client, self.last, self.events = client, last, []
        self.began = threading.Event()

    def run(self):
        with self.client.open(INTERFACE) as connection:
            for reply in connection.MonitorEvents(_more=True):
                self.events.append(reply["event"])
                self.began.set()
                if reply["event"]["event"] == self.last:
                    return

    def kinds(self):
        return [event["event"] for event in self.events]


def main(socket, passcode):
    with varlink.Client(f"unix:{socket}") as client:
        with client.open("org.varlink.service") as service:
            information = service.GetInfo()
        check("GetInfo names the interfaces", sorted(information["interfaces"]) == [INTERFACE, "org.varlink.service"])
        check("GetInfo names the product", information["product"] == "protectfs" and information["version"] != "")
        definition = client.get_interface(INTERFACE)
        check("the definition can be parsed", definition.name == INTERFACE)
        check("it has the methods", {"GetStatus", "Lock", "Unlock", "ChangePasscode", "MonitorEvents", "AddKey",
                                     "RemoveKey", "LockAll", "RotateClassKey", "EraseClassKeys", "EraseStore", "DelayLock"}
              <= set(definition.members))

        with client.open(INTERFACE) as daemon:
            daemon.Unlock(passcode=passcode)
            status = daemon.GetStatus()["status"]
            check("unlocked", status["state"] == "unlocked")
            check("five classes, all available", [(entry["class"], entry["key"]) for entry in status["classes"]]
                  == [(name, "available") for name in CLASSES])

            listener = Listener(client, "didBecomeAvailable")
            listener.start()
            check("events begin with the state", listener.began.wait(10)
                  and listener.events[0] == {"event": "monitoringBegan", "state": "unlocked"})

            daemon.Lock(gracePeriod=0.2)
            status = daemon.GetStatus()["status"]
            keys = {entry["class"]: entry["key"] for entry in status["classes"]}
            check("Lock returns when it has taken effect", status["state"] == "locked"
                  and keys["complete"] == "unavailable" and keys["completeUnlessOpen"] == "publicOnly")
            check("class CX is still there", keys["completeWhenUserInactive"] == "available"
                  and status["secondsUntilInactive"] > 0)

            check("wrong passcode", refused(f"{INTERFACE}.WrongPasscode", daemon.Unlock, passcode=passcode + "x"))
            check("mistyped recovery key", refused(f"{INTERFACE}.WrongPasscode", daemon.Unlock, recoveryKey="A-B"))
            check("no passcode at all", refused("org.varlink.service.InvalidParameter", daemon.Unlock))
            check("negative period", refused("org.varlink.service.InvalidParameter", daemon.Lock, gracePeriod=-1.0))
            check("still locked", daemon.GetStatus()["status"]["state"] == "locked")
            daemon.Unlock(passcode=passcode)
            listener.join(10)
            check("events come in order", listener.kinds()
                  == ["monitoringBegan", "willBecomeUnavailable", "didBecomeUnavailable", "didBecomeAvailable"])
            check("the announcement says when and what", listener.events[1]["seconds"] == 0.2
                  and listener.events[1]["classes"] == ["complete", "completeUnlessOpen"])

            with client.open(INTERFACE) as holder:
                replies = holder.DelayLock(_more=True)
                check("a delay is registered", next(replies) == {})
                daemon.Lock(gracePeriod=0.1, wait=False)
                check("and told how long the lock waits", next(replies)["seconds"] >= 0.1)
                time.sleep(0.5)
                status = daemon.GetStatus()["status"]
                check("which waits beyond the grace period", status["state"] == "gracePeriod"
                      and status["delayingClients"] == 1 and status["secondsUntilRevoked"] > 0)
            daemon.Lock()
            check("until the client goes", daemon.GetStatus()["status"]["state"] == "locked")
            check("a delay answers with more only", refused("org.varlink.service.ExpectedMore", daemon.DelayLock))
            daemon.Unlock(passcode=passcode)

            cancelled = []
            with client.open(INTERFACE) as other:
                waiter = threading.Thread(target=lambda: cancelled.append(
                    refused(f"{INTERFACE}.LockCancelled", other.Lock, gracePeriod=30.0)))
                waiter.start()
                while daemon.GetStatus()["status"]["state"] != "gracePeriod":
                    pass
                remaining = daemon.GetStatus()["status"]["secondsUntilRevoked"]
                check("the grace period runs", 0 < remaining <= 30)
                daemon.Unlock(passcode=passcode)
                waiter.join(10)
            check("an unlock cancels the lock", cancelled == [True])

            odd = 'pä"ss\\wörd \u0001 😀'
            daemon.ChangePasscode(passcode=passcode, newPasscode=odd)
            check("the old passcode has gone", refused(f"{INTERFACE}.WrongPasscode", daemon.Unlock, passcode=passcode))
            daemon.Unlock(passcode=odd)
            daemon.ChangePasscode(passcode=odd, newPasscode=passcode)
            daemon.Unlock(passcode=passcode)
            check("the passcode was changed and changed back", True)

            key = "5a" * 32
            daemon.AddKey(passcode=passcode, newKeyFile=key, label="a stick")
            daemon.Lock(gracePeriod=0.0)
            daemon.Unlock(keyFile=key)
            check("a key file was added, and unlocks", daemon.GetStatus()["status"]["state"] == "unlocked")
            check("two secrets at once", refused("org.varlink.service.InvalidParameter", daemon.Unlock,
                                                 passcode=passcode, keyFile=key))
            check("no such way in", refused(f"{INTERFACE}.InvalidRequest", daemon.RemoveKey, passcode=passcode,
                                            id="00" * 16))
            replies = list(daemon.RotateClassKey(_more=True, passcode=passcode, **{"class": "complete"}))
            check("a class key was rotated", replies[-1]["isFinished"] and replies[-1]["damaged"] == 0)
            check("a rotation answers with more only", refused(
                "org.varlink.service.ExpectedMore", daemon.RotateClassKey, passcode=passcode, **{"class": "complete"}))
            daemon.EraseClassKeys(passcode=passcode, **{"class": "complete"})
            daemon.Unlock(keyFile=key)
            check("the keys of a class were erased", True)

    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
