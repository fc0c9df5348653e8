#!/usr/bin/env python3
"""Writes the first inputs of each fuzz target into Fuzz/Corpus, from the test vectors and by hand.

scripts/fuzz.sh minimise then leaves what adds coverage. An input's form is said in Fuzz/Sources/FuzzTargets.
"""

import hashlib
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = ROOT / "Fuzz" / "Corpus"


def vectors(name):
    return json.loads((ROOT / "Tests/StoreFormatTests/Vectors" / f"{name}.json").read_text())["vectors"]


def write(target, *inputs):
    directory = CORPUS / target
    directory.mkdir(parents=True, exist_ok=True)
    for data in inputs:
        data = data.encode() if isinstance(data, str) else data
        (directory / hashlib.sha1(data).hexdigest()).write_bytes(data)


def stores():
    keybags = [bytes.fromhex(vector["keybag"]) for vector in vectors("keybag")]
    write("keybag", *keybags)
    write("keybag-contents", *(bytes([made]) + keybag for made in (0, 8, 14, 15) for keybag in keybags))
    for name in ("file-records", "directory-records"):
        write("records", *(bytes.fromhex(vector["record"]) for vector in vectors(name)))
    write("rekey-batches", *(bytes.fromhex(vector["batch"]) for vector in vectors("rekey-batches")
                             if len(vector["batch"]) < 4096))
    for vector in vectors("hosts"):
        write("host-records", bytes.fromhex(vector["request"]), bytes.fromhex(vector["file"])[:-32],
              bytes.fromhex(vector["lock"]), bytes.fromhex(vector["locked"]))
    record = bytes.fromhex(vectors("attempts")[0]["record"])
    write("attempts", record, record[:10] + b"\xff\xff\xff\xff" + record[14:])


def names():
    write("names", ".protectfs")
    write("sealed-names", b"\1.", b"\1..", b"\1a/b", b"\1a\0", b"\3\xff\xfe")
    for vector in vectors("names"):
        write("names", vector["backing"], bytes.fromhex(vector["sealed"]))
        write("sealed-names", b"\1" + bytes.fromhex(vector["plain"]), b"\0" + bytes.fromhex(vector["sealed"]))
        if vector["sidecar"]:
            write("names", vector["backing"] + ".name")
    for vector in vectors("symbolic-links"):
        write("names", vector["backing"])
        write("sealed-names", b"\1" + bytes.fromhex(vector["plain"]))
    for vector in vectors("attributes"):
        write("attributes", vector["backingName"], bytes.fromhex(vector["backingValue"]))
    keys = vectors("keys")[0]
    write("encodings", keys["storeText"], bytes.fromhex(keys["storeID"]), "0aF9", "AAA", "AAB", "_-8", "a", "")
    classes = ("complete", "completeUnlessOpen", "completeUntilFirstUserAuthentication", "none",
               "completeWhenUserInactive")
    write("attributes", "A", "B", "C", "D", "CX", "Complete", "complete\0", *classes,
          *(f"NSFileProtection{name[0].upper()}{name[1:]}" for name in classes))


def pages():
    """Calls of four bytes: which, a page, a place in it and a count, a value."""
    write(
        "pages", bytes([0, 0, 0o40, 1, 4, 0, 0, 0, 2, 1, 4, 0, 3, 0, 0o40, 0]),
        bytes([0, 5, 0o73, 1, 2, 11, 7, 0, 0, 9, 0o34, 3, 4, 0, 0, 0, 0, 6, 0o20, 2]),
        bytes([0, 0, 0o70, 1, 0, 6, 0o70, 2, 5, 1, 3, 1, 0, 1, 0o40, 3, 4, 0, 0, 0, 0, 2, 0, 4]),
        bytes([0, 0, 0o70, 1, 6, 2, 0, 0, 2, 3, 5, 0, 4, 0, 0, 0, 1, 2, 0o33, 6]),
        bytes([0, 7, 0o70, 5, 7, 6, 4, 1, 4, 0, 0, 0, 0, 8, 0o41, 2, 7, 11, 0, 1, 4, 0, 0, 0]))


def secrets():
    keys = vectors("keys")[0]
    text = keys["recoveryText"]
    key = bytes.fromhex(keys["recoveryKey"])
    write("recovery-key", text, text.replace("-", ""), text.lower().replace("0", "o").replace("1", "l"), text + "\n",
          " ".join(text), text[:-1] + "Z", text + "U", b"\1" + key, b"\1" + key + bytes(range(7, 51)) * 1,
          b"\1" + key + bytes([0xC0] * 44), b"\1" + key + bytes([0xFF] * 44))
    area = bytes.fromhex("002E0008000B000000000052000000100020") + bytes([0xA5] * 32)
    for count in (1, 160, 974, 975, 0):
        for flags in (0, 4):
            protected = area[:8] + bytes([flags]) + area[9:]
            write("sealed-object", protected + count.to_bytes(2, "big") + bytes([0x5A] * count))


def calls():
    def call(method, parameters, more=""):
        return f'{{"method":"org.protectfs.Daemon.{method}","parameters":{{{parameters}}}{more}}}'

    write(
        "control", "{}", '{"method":"org.varlink.service.GetInfo"}', call("GetStatus", ""),
        call("Lock", '"gracePeriod":1.5e0,"wait":true'), call("Lock", '"gracePeriod":null,"wait":1'),
        call("Unlock", '"passcode":"pass\\u0077ord \\ud83d\\ude00"'), call("Unlock", '"recoveryKey":"1D0R"'),
        call("Unlock", '"keyFile":"00ff"'), call("ChangePasscode", '"passcode":"a\\n","newPasscode":"b\\"\\\\"'),
        call("AddKey", '"passcode":"a","newKeyFile":"00","label":"x"'), call("AddKey", '"newRecoveryKey":"a"'),
        call("EraseClassKeys", '"class":"complete"'), call("MonitorEvents", "", ',"more":true'),
        call("Unlock", '"p\\u0061sscode":"abc"'), '{"passcode":"abc","a":[{"passcode":"d"},-1,false,null,[]]}',
        '{"a":{"b":{"c":{"d":{"e":{"f":{"g":1}}}}}}}', ' {\n"a"\t: "\u00e9" ,"passcode" :1\r}',
        call("Unlock", '"passcode":"a","passcode":"b"'), '{"parameters":{"recovery\u212aey":"a"}}',
        '{"method":"a","oneway":true,"parameters":null}', '{"a":1e999,"b":01,"c":-}')


def mounts():
    write(
        "mount-options", "grace=2.5,inactive=30,replace_class=move,shared,ro", "allow_other,nonempty,latency=low",
        "threads=3\nlog_file=/l,device_key=/k", "defaults,noauto,_netdev,user=me,x-a=b,dev,nosuid,max_read=4096",
        "log_file=/a\\,b,ro", "a\\\\,b", "context=a\\,b,exec", "grace=nan", "threads=0", "latency=0", "device_key=",
        "replace_class=keep", "\u0301", "ro,\u0301shared", "grace=0x1p3", "a=b=c", "=", ",,", "log_file=\u0301a")
    write(
        "mount-lines",
        "412 29 0:51 / /home/me/a\\040b rw,nosuid shared:9 - fuse.protectfs /home/me/x\\134y rw,user_id=1000,group_id=1",
        "412 29 0:51 / /mnt rw - fuse.protectfs /b rw,user_id=0,group_id=0,allow_other",
        "412 29 0:51 / /mnt rw shared:1 master:2 - fuse.protectfs /b rw", "412 29 0:51 / /mnt rw - ext4 /dev/sda rw",
        "- - - - - - - - -", "1 2 3 / /\\400\\+12\\8 rw - fuse.protectfs \\ rw,user_id=-1", "a b\tc\nd\\e#f", b"\xff\xfe")


stores()
names()
pages()
secrets()
calls()
mounts()
