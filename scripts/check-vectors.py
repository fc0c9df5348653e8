#!/usr/bin/env python3
"""Checks the test vectors of the store's format by a second implementation of it.

usage: check-vectors.py [--write]

Every output in the vector files is computed again from the inputs beside it. With --write, the vectors whose source is
"protectfs" are made anew; published ones are never changed. Libraries give AES of one block (the Python package
`cryptography`), hashes and scrypt (Python itself). Modes, key wrap, derivations, X25519 and encodings are written out
below, after Documentation/FORMAT.md and the standards it names.
"""
import base64
import hashlib
import hmac
import json
import pathlib
import struct
import sys
import uuid

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

TESTS = pathlib.Path(__file__).resolve().parent.parent / "Tests"
CRYPTOGRAPHY = TESTS / "CryptographyTests" / "Vectors"
FORMAT = TESTS / "StoreFormatTests" / "Vectors"
OWN = "protectfs"


# --- Cryptography ----------------------------------------------------------------------------------------------------

def aes(key, block):
    context = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return context.update(block)


def xor(a, b):
    return bytes(x ^ y for x, y in zip(a, b))


def xts(key, first_unit, data):
    """IEEE 1619, over units of 4096 bytes; whole blocks only."""
    half = len(key) // 2
    out = b""
    for start in range(0, len(data), 4096):
        tweak = aes(key[half:], (first_unit + start // 4096).to_bytes(16, "little"))
        for position in range(start, min(start + 4096, len(data)), 16):
            out += xor(aes(key[:half], xor(data[position:position + 16], tweak)), tweak)
            doubled = int.from_bytes(tweak, "little") << 1
            tweak = ((doubled ^ (0x87 if doubled >> 128 else 0)) & (1 << 128) - 1).to_bytes(16, "little")
    return out


def ghash(subkey, *parts):
    """NIST SP 800-38D, section 6.4, over parts that are each padded with zeros."""
    y = 0
    for part in parts:
        for start in range(0, len(part), 16):
            y ^= int.from_bytes(part[start:start + 16].ljust(16, b"\0"), "big")
            z, v = 0, subkey
            for bit in range(127, -1, -1):
                z ^= v if y >> bit & 1 else 0
                v = v >> 1 ^ (0xE1 << 120 if v & 1 else 0)
            y = z
    return y


def gcm(key, nonce, associated_data, plain):
    """NIST SP 800-38D, section 7.1, with a nonce of 12 bytes; the ciphertext and a tag of 16 bytes."""
    counters = (nonce + count.to_bytes(4, "big") for count in range(1, 2**32))
    mask = aes(key, next(counters))
    ciphertext = b"".join(
        xor(plain[start:start + 16], aes(key, next(counters))) for start in range(0, len(plain), 16))
    lengths = struct.pack(">QQ", 8 * len(associated_data), 8 * len(plain))
    tag = ghash(int.from_bytes(aes(key, bytes(16)), "big"), associated_data, ciphertext, lengths)
    return ciphertext, xor(tag.to_bytes(16, "big"), mask)


def wrap(key, secret):
    """RFC 3394, section 2.2.1."""
    a = 0xA6A6A6A6A6A6A6A6
    r = [secret[i:i + 8] for i in range(0, len(secret), 8)]
    for j in range(6):
        for i in range(len(r)):
            b = aes(key, a.to_bytes(8, "big") + r[i])
            a = int.from_bytes(b[:8], "big") ^ (len(r) * j + i + 1)
            r[i] = b[8:]
    return a.to_bytes(8, "big") + b"".join(r)


def double(block):
    value = int.from_bytes(block, "big") << 1
    return ((value ^ (0x87 if value >> 128 else 0)) & (1 << 128) - 1).to_bytes(16, "big")


def cmac(key, message):
    """NIST SP 800-38B, section 6.2."""
    k1 = double(aes(key, bytes(16)))
    blocks = [message[i:i + 16] for i in range(0, len(message), 16)] or [b""]
    last = blocks.pop()
    last = xor(last, k1) if len(last) == 16 else xor((last + b"\x80").ljust(16, b"\0"), double(k1))
    state = bytes(16)
    for block in blocks + [last]:
        state = aes(key, xor(state, block))
    return state


def siv(key, associated_data, text):
    """RFC 5297, section 2.6; associated_data is None or bytes."""
    half = len(key) // 2
    state = cmac(key[:half], bytes(16))
    if associated_data is not None:
        state = xor(double(state), cmac(key[:half], associated_data))
    if len(text) >= 16:
        last = text[:-16] + xor(text[-16:], state)
    else:
        last = xor(double(state), (text + b"\x80").ljust(16, b"\0"))
    vector = cmac(key[:half], last)
    counter = int.from_bytes(vector, "big") & ~(1 << 63 | 1 << 31)
    stream = b"".join(
        aes(key[half:], ((counter + i) % (1 << 128)).to_bytes(16, "big")) for i in range((len(text) + 15) // 16))
    return vector + xor(text, stream)


def mac(key, message):
    return hmac.new(key, message, hashlib.sha256).digest()


def hkdf(ikm, salt, info, count):
    """RFC 5869."""
    prk = mac(salt or bytes(32), ikm)
    out, block, index = b"", b"", 1
    while len(out) < count:
        block = mac(prk, block + info + bytes([index]))
        out += block
        index += 1
    return out[:count]


def counter_mode(key, fixed_data, count):
    """NIST SP 800-108r1, section 4.1, with HMAC-SHA256."""
    blocks = (mac(key, i.to_bytes(4, "big") + fixed_data) for i in range(1, count // 32 + 2))
    return b"".join(blocks)[:count]


def labelled_counter_mode(key, label, context, count):
    return counter_mode(key, label + b"\0" + context + (8 * count).to_bytes(4, "big"), count)


def concatenation(secret, info, count):
    """NIST SP 800-56C, section 4.1, option 1, with SHA-256."""
    blocks = (hashlib.sha256(i.to_bytes(4, "big") + secret + info).digest() for i in range(1, count // 32 + 2))
    return b"".join(blocks)[:count]


def x25519(private, public):
    """RFC 7748, section 5."""
    p = 2**255 - 19
    k = int.from_bytes(private, "little") & ~7 & (1 << 254) - 1 | 1 << 254
    x1 = int.from_bytes(public, "little") & (1 << 255) - 1
    x2, z2, x3, z3 = 1, 0, x1, 1
    for t in reversed(range(255)):
        if k >> t & 1:
            x2, x3, z2, z3 = x3, x2, z3, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb, aa, bb = d * a, c * b, a * a, b * b
        e = aa - bb
        x3, z3 = (da + cb)**2 % p, x1 * (da - cb)**2 % p
        x2, z2 = aa * bb % p, e * (aa + 121665 * e) % p
        if k >> t & 1:
            x2, x3, z2, z3 = x3, x2, z3, z2
    return (x2 * pow(z2, p - 2, p) % p).to_bytes(32, "little")


NINE = (9).to_bytes(32, "little")


def one_pass_wrap(file_key, class_public, ephemeral_private):
    ephemeral_public = x25519(ephemeral_private, NINE)
    shared = x25519(ephemeral_private, class_public)
    return ephemeral_public + wrap(concatenation(shared, ephemeral_public + class_public, 32), file_key)


def scrypt(passcode, salt, log_n, r, p, count=32):
    return hashlib.scrypt(passcode, salt=salt, n=1 << log_n, r=r, p=p, maxmem=(1 << 31) - 1, dklen=count)


# --- Format ----------------------------------------------------------------------------------------------------------

def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def volume_key(device_key, store):
    return hkdf(device_key, store, b"protectfs volume device key", 32)


USES = {
    "names": 64, "symbolic links": 64, "attribute names": 64, "attribute name hash": 32, "directory attributes": 64,
    "records": 32, "class none": 32, "keybag": 32, "attempts": 32, "host locks": 32,
    "device key identifier": 16,
}


def use_key(volume, store, use):
    return hkdf(volume, store, b"protectfs " + use.encode(), USES[use])


def passcode_key(passcode, salt, log_n, r, p, volume, store):
    return hkdf(scrypt(passcode, salt, log_n, r, p) + volume, store, b"protectfs passcode key", 32)


CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def recovery_text(key):
    checksum = hkdf(key, b"", b"protectfs recovery key checksum", 3)
    bits = int.from_bytes(key, "big") << 20 | int.from_bytes(checksum, "big") >> 4
    text = "".join(CROCKFORD[bits >> shift & 31] for shift in range(175, -1, -5))
    return "-".join(text[i:i + 4] for i in range(0, 36, 4))


def recovery_key_key(key, store):
    return hkdf(key, store, b"protectfs recovery key", 32)


def content_keys(file_key):
    return (labelled_counter_mode(file_key, b"protectfs xts", b"", 64),
            labelled_counter_mode(file_key, b"protectfs attribute", b"", 64))


def backing_length(length):
    return length if length % 16 == 0 else length + 16


def contents(file_key, plain):
    padded = plain + bytes(-len(plain) % 16)
    return xts(content_keys(file_key)[0], 0, padded) + bytes(backing_length(len(plain)) - len(padded))


def page(file_key, number, kind, epoch, nonce, payload):
    """A page of an authenticated store; `kind` is 1 for data and 2 for ends."""
    pages_key = labelled_counter_mode(file_key, b"protectfs pages", b"", 32)
    key = labelled_counter_mode(pages_key, b"protectfs epoch", struct.pack("<I", epoch), 32)
    ciphertext, tag = gcm(key, nonce, b"protectfs page\0" + struct.pack("<QB", number, kind), payload.ljust(4064, b"\0"))
    return ciphertext + nonce + struct.pack("<I", epoch) + tag


GROUP = 127 * 4096


def page_backing_length(length):
    if length == 0:
        return 0
    group = (length - 1) // GROUP
    rest = length - group * GROUP
    return 128 * 4096 * group + (4096 + rest if rest <= 4064 else 4096 * (1 + -(-rest // 4096)) + rest % 4096)


def page_contents(file_key, plain, epoch, nonce):
    """The backing file of contents without holes; `nonce` gives that of a page by its number."""
    out = bytearray(page_backing_length(len(plain)))
    for group in range(-(-len(plain) // GROUP)):
        parts = [plain[start:start + 4096] for start in range(group * GROUP, min((group + 1) * GROUP, len(plain)), 4096)]
        pages = {0 if index == 0 else index + 1: (1, part[:4064]) for index, part in enumerate(parts)}
        if len(parts) > 1 or len(parts[0]) > 4064:
            pages[1] = (2, b"".join(part[4064:].ljust(32, b"\0") for part in parts))
        for index, (kind, payload) in pages.items():
            number = 128 * group + index
            out[number * 4096:(number + 1) * 4096] = page(file_key, number, kind, epoch, nonce(number), payload)
    return bytes(out)


def record(kind, key, body, tag_size=16, covered=b""):
    return body + mac(key, b"protectfs " + kind + b" record\0" + body + covered)[:tag_size]


def file_record(v):
    pending = v.get("pending")
    shift = v.get("timeShift")
    clean = v.get("clean")
    version = 1 | (0x40 if shift else 0) | (0x80 if pending else 0)
    if clean:
        version |= 0x30 if clean["dense"] else 0x20
    flags = v["explicit"] | (pending["followed"] << 1 if pending else 0) | (shift["seconds"] << 2 if shift else 0)
    body = struct.pack("<BBHI", version, v["class"], flags, v["classKeyID"])
    body += bytes.fromhex(v["wrappedKey"])
    if pending:
        body += wrapped_old_key(pending) + struct.pack("<Q", pending["boundary"])
    if shift:
        body += struct.pack("<I", shift["nanoseconds"])
    length = struct.pack("<Q", clean["length"]) if clean else b""
    return record(b"file", bytes.fromhex(v["recordsKey"]), body, tag_size=12 if shift else 16, covered=length)


def shifted_time(v):
    """The backing file's time for users to see this one."""
    seconds, nanoseconds = v["shown"]
    mark = v["seconds"] * 1000 + 787
    if nanoseconds == v["nanoseconds"]:
        return [seconds + v["seconds"], mark]
    return [seconds, nanoseconds - (nanoseconds == mark)]


def wrapped_old_key(v):
    rekey_key = labelled_counter_mode(bytes.fromhex(v["newKey"]), b"protectfs rekey", b"", 32)
    return wrap(rekey_key, bytes.fromhex(v["oldKey"]))


def rekey_batch(v):
    body = b"protkrek" + struct.pack("<HQI", 1, v["number"], len(v["chunks"]))
    for chunk in v["chunks"]:
        ciphertext = bytes.fromhex(chunk["ciphertext"])
        body += bytes.fromhex(chunk["wrappedOldKey"])
        body += struct.pack("<QQQI", chunk["boundary"], chunk["firstUnit"], chunk["nextBoundary"], len(ciphertext))
        body += ciphertext
    return body + mac(bytes.fromhex(v["recordsKey"]), b"protectfs rekey batch\0" + body)[:16]


def directory_record(v):
    body = struct.pack("<BBHI", 1, v["class"], v["explicit"], 0) + bytes.fromhex(v["directoryID"])
    return record(b"directory", bytes.fromhex(v["recordsKey"]), body)


def backing_name(key, directory, name):
    sealed = siv(key, directory, name)
    if len(sealed) <= 191:
        return base64url(sealed), None, sealed
    short = "~" + base64url(hashlib.sha256(sealed).digest())
    return short, short + ".name", sealed


FEATURES = {"authenticated": 0, "effaceable": 3, "eraseAfter": 4}
HOSTS = 1 << 2
LETTERS = {1: b"A", 2: b"B", 3: b"C", 7: b"CX"}


def class_wrapping_key(v, b, number, volume):
    """The key under which a class key is wrapped."""
    key = use_key(volume, b["storeID"], "class none") if number == 4 else b["keybagKey"]
    if "effaceable" not in v:
        return key
    label = b"protectfs class none keys" if number == 4 else b"protectfs class keys"
    return hkdf(key + b["effaceable"], b["storeID"], label, 32)


def host_bits(classes):
    return sum(1 << number - 1 for number in classes)


def host(p, v, b, volume, store, before):
    """The protector of a host, in a keybag that begins with these bytes."""
    key, code = bytes.fromhex(p["hostKey"]), bytes.fromhex(p["pairingCode"])
    label = p["label"].encode()
    body = bytes.fromhex(p["id"]) + bytes([6, len(label)]) + label
    body += wrap(hkdf(b["keybagKey"], store, b"protectfs host keys", 32), key) + bytes([host_bits(p["classes"])])
    body += wrap(hkdf(code, store, b"protectfs host delivery", 32), volume)
    for entry in v["classKeys"]:
        if entry["class"] in p["classes"]:
            wrapping = hkdf(key, store, b"protectfs host class " + LETTERS[entry["class"]], 32)
            if "effaceable" in v:
                wrapping = hkdf(wrapping + b["effaceable"], store, b"protectfs class keys", 32)
            body += wrap(wrapping, bytes.fromhex(entry["key"]))
    return body + mac(hkdf(key, store, b"protectfs keybag seal", 32), before + body)


def host_file(v):
    """A host's own file."""
    b = {name: bytes.fromhex(v[name]) for name in ["storeID", "id", "hostKey", "pairingCode", "passcode", "salt"]}
    delivery = hkdf(b["pairingCode"], b["storeID"], b"protectfs host delivery", 32)
    cost = (v["logN"], v["r"], v["p"])
    key = hkdf(scrypt(b["passcode"], b["salt"], *cost) + delivery, b["storeID"], b"protectfs host passcode key", 32)
    return (b"protkhst" + struct.pack("<H", 1) + b["storeID"] + b["id"] + bytes(cost) + b["salt"]
            + wrap(key, b["hostKey"]) + delivery)


def host_request(v):
    """The request of a machine that wants to be a host."""
    b = {name: bytes.fromhex(v[name]) for name in ["storeID", "id", "hostKey", "pairingCode"]}
    label = v["label"].encode()
    body = b"protkreq" + struct.pack("<H", 1) + b["storeID"] + b["id"] + bytes([len(label)]) + label
    body += bytes([host_bits(v["classes"])])
    body += wrap(hkdf(b["pairingCode"], b["storeID"], b"protectfs host request", 32), b["hostKey"])
    return body + mac(hkdf(b["pairingCode"], b["storeID"], b"protectfs host request tag", 32), body)


def host_lock(v, host, content):
    """A request that all hosts lock, or what says that one has."""
    store = bytes.fromhex(v["storeID"])
    body = b"protklck" + struct.pack("<H", 1) + store + struct.pack("<Q", int(v["lockRequest"], 16)) + host
    body += bytes([content])
    return body + mac(use_key(volume_key(bytes.fromhex(v["deviceKey"]), store), store, "host locks"), body)


def protector(p, b, volume, store):
    label = p["label"].encode()
    kind = {"passcode": 1, "recovery key": 2, "key file": 3, "TPM": 4, "backup": 5}[p["type"]]
    body = bytes.fromhex(p["id"]) + bytes([kind, len(label)]) + label
    cost = (p.get("logN"), p.get("r"), p.get("p"))
    salt = bytes.fromhex(p.get("salt", ""))
    if kind == 1:
        key = passcode_key(bytes.fromhex(p["passcode"]), salt, *cost, volume, store)
        return body + bytes(cost) + salt + wrap(key, b["keybagKey"])
    if kind == 2:
        key = recovery_key_key(bytes.fromhex(p["recoveryKey"]), store)
        return body + wrap(key, b["keybagKey"]) + wrap(key, volume)
    if kind == 3:
        key = hkdf(bytes.fromhex(p["keyFile"]) + volume, store, b"protectfs key file", 32)
        return body + wrap(key, b["keybagKey"])
    stretched = scrypt(bytes.fromhex(p["passcode"]), salt, *cost)
    if kind == 4:
        sealed = bytes.fromhex(p["sealedObject"])
        key = hkdf(stretched + volume + bytes.fromhex(p["sealedSecret"]), store, b"protectfs tpm passcode key", 32)
        return body + bytes(cost) + salt + struct.pack("<H", len(sealed)) + sealed + wrap(key, b["keybagKey"])
    key = hkdf(stretched, store, b"protectfs backup passcode key", 32)
    return body + bytes(cost) + salt + wrap(key, b["keybagKey"]) + wrap(key, volume)


def keybag(v):
    """The bytes of a keybag, from all of its secrets."""
    b = {name: bytes.fromhex(value) for name, value in v.items() if isinstance(value, str) and name != "name"
         and name != "source" and name != "recoveryText"}
    store = b["storeID"]
    volume = volume_key(b["deviceKey"], store)
    bits = sum(1 << bit for name, bit in FEATURES.items() if name in v)
    bits |= HOSTS if any(p["type"] == "host" for p in v["protectors"]) else 0
    body = b"protkbag" + struct.pack("<HQ", 2, bits) + store + struct.pack("<QB", v["generation"], v["defaultClass"])
    body += use_key(volume, store, "device key identifier") + struct.pack("<Q", v["creationTime"])
    if "effaceable" in v:
        body += hkdf(b["effaceable"], store, b"protectfs effaceable secret identifier", 16)
    if "eraseAfter" in v:
        body += bytes([v["eraseAfter"]])
    body += bytes([len(v["classKeys"])])
    for entry in v["classKeys"]:
        number = entry["class"]
        body += struct.pack("<BBI", number, int(number == 2), entry["id"])
        secret = bytes.fromhex(entry["key"])
        body += bytes([1 if number == 4 else 2]) + wrap(class_wrapping_key(v, b, number, volume), secret)
        body += x25519(secret, NINE) if number == 2 else b""
    body += struct.pack("<H", len(v["formerKeys"]))
    for key in v["formerKeys"]:
        body += struct.pack("<IBQ", key["id"], {"rotated": 1, "erased": 2, "reset": 3}[key["end"]], key["time"])
    before = body
    body += bytes([len(v["protectors"])])
    for p in v["protectors"]:
        is_host = p["type"] == "host"
        body += host(p, v, b, volume, store, before) if is_host else protector(p, b, volume, store)
    seal = mac(hkdf(b["keybagKey"], store, b"protectfs keybag seal", 32), body) if v["protectors"] else bytes(32)
    body += seal
    return body + mac(use_key(volume, store, "keybag"), body)


def attempts(v):
    """The record of wrong passcodes."""
    store = bytes.fromhex(v["storeID"])
    volume = volume_key(bytes.fromhex(v["deviceKey"]), store)
    body = b"protkatt" + struct.pack("<HIQ", 2, v["count"], v["lastTime"])
    return body + mac(use_key(volume, store, "attempts"), body)


# --- The files -------------------------------------------------------------------------------------------------------
# For each file, what is computed of a vector: the names of the outputs and their values.

def h(v, name):
    return bytes.fromhex(v[name])


def pattern(count):
    return bytes(i * i % 251 for i in range(count))


def compute_keys(v):
    store = h(v, "storeID")
    volume = volume_key(h(v, "deviceKey"), store)
    out = {"storeText": str(uuid.UUID(bytes=store)), "volumeDeviceKey": volume,
           "uses": {use: use_key(volume, store, use).hex() for use in USES}}
    out["passcodeKey"] = passcode_key(h(v, "passcode"), h(v, "salt"), v["logN"], v["r"], v["p"], volume, store)
    out["recoveryText"] = recovery_text(h(v, "recoveryKey"))
    out["recoveryWrappingKey"] = recovery_key_key(h(v, "recoveryKey"), store)
    out["contentsKey"], out["attributeKey"] = content_keys(h(v, "fileKey"))
    return out


def compute_name(v):
    short, sidecar, sealed = backing_name(h(v, "key"), h(v, "directoryID"), h(v, "plain"))
    return {"backing": short, "sidecar": sidecar, "sealed": sealed}


def compute_symbolic_link(v):
    plain = h(v, "plain")
    sealed = siv(h(v, "key"), None, plain)
    if len(plain) <= 3055:
        return {"backing": base64url(sealed)}
    return {"backing": "~" + base64url(h(v, "token") + struct.pack("<H", len(plain))), "targetFile": sealed}


def compute_attribute(v):
    name, value = h(v, "plainName"), h(v, "plainValue")
    associated = h(v, "directoryID") + name if v["directoryID"] else name
    return {
        "backingName": "user.protectfs.x." + base64url(mac(h(v, "hashKey"), name)[:16]),
        "backingValue": bytes([len(name)]) + siv(h(v, "nameKey"), None, name) + siv(h(v, "valueKey"), associated, value),
    }


def compute_contents(v):
    plain = pattern(v["length"])
    backing = contents(h(v, "fileKey"), plain)
    return {"backingLength": len(backing), "backingStart": backing[:64], "backingDigest": hashlib.sha256(backing).digest()}


def compute_gcm(v):
    ciphertext, tag = gcm(h(v, "key"), h(v, "nonce"), h(v, "associatedData"), h(v, "plain"))
    return {"ciphertext": ciphertext, "tag": tag}


def compute_page_contents(v):
    backing = page_contents(h(v, "fileKey"), pattern(v["length"]), v["epoch"],
                            lambda number: bytes.fromhex(own("nonce", v["length"], number, 12)))
    return {"backingLength": len(backing), "pages": backing[:len(backing) // 4096 * 4096]}


def compute_siv(v):
    return {"sealed": siv(h(v, "key"), None if v["associatedData"] is None else h(v, "associatedData"), h(v, "plain"))}


def compute_counter_mode(v):
    if "fixedData" in v:
        return {"output": counter_mode(h(v, "key"), h(v, "fixedData"), len(v["output"]) // 2 if "output" in v else 64)}
    return {"output": labelled_counter_mode(h(v, "key"), v["label"].encode(), h(v, "context"), v["count"])}


FILES = {
    CRYPTOGRAPHY / "xts.json": lambda v: {"ciphertext": xts(h(v, "key"), v["firstUnit"], h(v, "plain"))},
    CRYPTOGRAPHY / "gcm.json": compute_gcm,
    CRYPTOGRAPHY / "key-wrap.json": lambda v: {"wrapped": wrap(h(v, "key"), h(v, "secret"))},
    CRYPTOGRAPHY / "siv.json": compute_siv,
    CRYPTOGRAPHY / "x25519.json": lambda v: {"shared": x25519(h(v, "privateKey"), h(v, "publicKey"))},
    CRYPTOGRAPHY / "hkdf.json": lambda v: {"output": hkdf(h(v, "ikm"), h(v, "salt"), h(v, "info"), v["count"])},
    CRYPTOGRAPHY / "counter-mode.json": compute_counter_mode,
    CRYPTOGRAPHY / "concatenation.json": lambda v: {"output": concatenation(h(v, "secret"), h(v, "info"), v["count"])},
    CRYPTOGRAPHY / "scrypt.json": lambda v: {
        "output": scrypt(h(v, "passcode"), h(v, "salt"), v["logN"], v["r"], v["p"], v["count"])},
    CRYPTOGRAPHY / "one-pass-dh.json": lambda v: {
        "classPublicKey": x25519(h(v, "classPrivateKey"), NINE),
        "wrapped": one_pass_wrap(h(v, "fileKey"), x25519(h(v, "classPrivateKey"), NINE), h(v, "ephemeralPrivateKey"))},
    FORMAT / "keys.json": compute_keys,
    FORMAT / "file-records.json": lambda v: {
        "record": file_record(v), **({"wrappedOldKey": wrapped_old_key(v["pending"])} if "pending" in v else {})},
    FORMAT / "rekey-batches.json": lambda v: {"batch": rekey_batch(v)},
    FORMAT / "shifted-times.json": lambda v: {"backing": shifted_time(v)},
    FORMAT / "directory-records.json": lambda v: {"record": directory_record(v)},
    FORMAT / "names.json": compute_name,
    FORMAT / "symbolic-links.json": compute_symbolic_link,
    FORMAT / "attributes.json": compute_attribute,
    FORMAT / "lengths.json": lambda v: {"backing": backing_length(v["plain"])},
    FORMAT / "contents.json": compute_contents,
    FORMAT / "page-lengths.json": lambda v: {"backing": page_backing_length(v["plain"])},
    FORMAT / "page-contents.json": compute_page_contents,
    FORMAT / "keybag.json": lambda v: {"keybag": keybag(v)},
    FORMAT / "hosts.json": lambda v: {
        "file": host_file(v), "request": host_request(v),
        # Asked for by the machine that the store was made on.
        "lock": host_lock(v, bytes(16), v["lockContent"]), "locked": host_lock(v, bytes.fromhex(v["id"]), 3)},
    FORMAT / "attempts.json": lambda v: {"record": attempts(v)},
}


def own(*parts):
    """Bytes for inputs of our own vectors: SHA-256 in counter mode over a name, so that anyone can make them again."""
    label, count = "/".join(str(part) for part in parts[:-1]).encode(), parts[-1]
    stream = b"".join(hashlib.sha256(b"protectfs vector " + label + bytes([i])).digest() for i in range(count // 32 + 1))
    return stream[:count].hex()


def own_vectors():
    store = "0f1e2d3c4b5a49788796a5b4c3d2e1f0"
    volume = volume_key(bytes.fromhex(own("device key", 32)), bytes.fromhex(store))
    use = {name: use_key(volume, bytes.fromhex(store), name).hex() for name in USES}
    contents_key, attribute_key = (key.hex() for key in content_keys(bytes.fromhex(own("file key", 32))))
    directory = own("directory", 16)
    passcode = "correct horse battery staple".encode().hex()
    yield CRYPTOGRAPHY / "xts.json", [
        {"name": f"{size} bytes from unit {unit}", "key": own("xts", 64), "firstUnit": unit, "plain": pattern(size).hex()}
        for size, unit in [(16, 0), (32, 1), (4096, 2**40 - 1), (4096 + 48, 7)]]
    yield CRYPTOGRAPHY / "siv.json", [
        {"name": f"{size} bytes, {'no' if data is None else len(data) // 2} associated data", "key": own("siv", 64),
         "associatedData": data, "plain": own("text", size)}
        for size, data in [(0, None), (0, directory), (1, directory), (15, directory), (16, directory), (17, None),
                           (31, ""), (32, directory), (175, directory), (255, directory), (3055, None)]]
    yield CRYPTOGRAPHY / "counter-mode.json", [
        {"name": label, "key": own("file key", 32), "label": label, "context": "", "count": 64}
        for label in ["protectfs xts", "protectfs attribute"]] + [
        {"name": "protectfs epoch", "key": own("pages key", 32), "label": "protectfs epoch", "context": "fcfdfeff",
         "count": 32}]
    yield CRYPTOGRAPHY / "concatenation.json", [
        {"name": f"{count} bytes", "secret": own("secret", 32), "info": own("info", 64), "count": count}
        for count in [32, 80]]
    yield CRYPTOGRAPHY / "one-pass-dh.json", [
        {"name": f"wrapping {i}", "classPrivateKey": own("class B", i, 32), "ephemeralPrivateKey": own("ephemeral", i, 32),
         "fileKey": own("file key", i, 32)} for i in range(3)]
    yield FORMAT / "keys.json", [
        {"name": "the hierarchy", "storeID": store, "deviceKey": own("device key", 32), "passcode": passcode,
         "salt": own("salt", 32), "logN": 16, "r": 8, "p": 1, "recoveryKey": own("recovery key", 20),
         "fileKey": own("file key", 32)}]
    wrapped = wrap(bytes.fromhex(own("class key", 32)), bytes.fromhex(own("file key", 32))).hex()
    one_pass = one_pass_wrap(*(bytes.fromhex(own(name, 32)) for name in ["file key", "public", "ephemeral"])).hex()
    yield FORMAT / "file-records.json", [
        {"name": f"class {number}", "recordsKey": use["records"], "class": number, "explicit": explicit,
         "classKeyID": identifier, "wrappedKey": one_pass if number == 2 else wrapped}
        for number, explicit, identifier in [(1, 1, 1), (2, 0, 0xfffefdfc), (3, 0, 2**32 - 1), (4, 1, 7), (7, 0, 0x01020304)]] + [
        {"name": f"class {number}, a rekey pending", "recordsKey": use["records"], "class": number, "explicit": explicit,
         "classKeyID": 0x01020304, "wrappedKey": one_pass if number == 2 else wrapped,
         "pending": {"newKey": own("new file key", 32), "oldKey": own("old file key", 32), "boundary": boundary,
                     "followed": followed}}
        for number, explicit, boundary, followed in [(1, 1, 0, 0), (2, 0, 3, 1), (3, 0, 2**51, 0)]] + [
        {"name": f"class {number}, its time shifted" + (", a rekey pending" if pending else ""),
         "recordsKey": use["records"], "class": number, "explicit": explicit,
         "classKeyID": 0x01020304, "wrappedKey": one_pass if number == 2 else wrapped,
         "timeShift": {"seconds": seconds, "nanoseconds": nanoseconds}, **pending}
        for number, explicit, seconds, nanoseconds, pending in [
            (1, 1, 1, 123_456_789, {}), (2, 0, 16_383, 0, {}),
            (3, 1, 258, 999_999_999, {"pending": {"newKey": own("new file key", 32), "oldKey": own("old file key", 32),
                                                  "boundary": 3, "followed": 1}})]] + [
        {"name": f"class {number}, clean" + (" and dense" if dense else "") + also,
         "recordsKey": use["records"], "class": number, "explicit": 0,
         "classKeyID": 0x01020304, "wrappedKey": one_pass if number == 2 else wrapped,
         "clean": {"length": length, "dense": dense}, **more}
        for number, length, dense, also, more in [
            (1, 0, 0, "", {}), (2, 4097, 1, "", {}),
            (3, 520_193, 1, ", its time shifted, a rekey pending",
             {"timeShift": {"seconds": 258, "nanoseconds": 999_999_999},
              "pending": {"newKey": own("new file key", 32), "oldKey": own("old file key", 32), "boundary": 3,
                          "followed": 1}})]]
    yield FORMAT / "shifted-times.json", [
        {"name": name, "seconds": seconds, "nanoseconds": nanoseconds, "shown": shown}
        for name, seconds, nanoseconds, shown in [
            ("one second", 1, 123_456_789, [1_750_000_000, 123_456_789]),
            ("the most seconds", 16_383, 0, [-1, 0]),
            ("a time that was set since", 1, 123_456_789, [1_750_000_000, 5])]]
    yield FORMAT / "rekey-batches.json", [
        {"name": name, "recordsKey": use["records"], "number": number, "chunks": [
            {"wrappedOldKey": own("wrapped old key", which, 40), "boundary": boundary, "firstUnit": first,
             "nextBoundary": following, "ciphertext": own("ciphertext", which, first, count)}
            for which, boundary, first, following, count in chunks]}
        for name, number, chunks in [
            ("a short file", 1, [(1, 0, 0, 1, 48)]),
            ("two files, one with holes", 0x0102030405060708,
             [(1, 0, 2, 4, 4096), (1, 4, 4, 6, 4112), (2, 7, 7, 8, 16)])]]
    yield FORMAT / "directory-records.json", [
        {"name": f"class {number}", "recordsKey": use["records"], "class": number, "explicit": explicit,
         "directoryID": directory} for number, explicit in [(1, 1), (2, 0), (3, 0), (4, 1), (7, 1)]]
    names = [b"a", b"hello.txt", "Grüße.txt".encode(), b"\xff\x01not UTF-8", b"x" * 175, b"x" * 176, b"y" * 255]
    yield FORMAT / "names.json", [
        {"name": f"{len(name)} bytes", "key": use["names"], "directoryID": directory, "plain": name.hex()} for name in names]
    yield FORMAT / "symbolic-links.json", [
        {"name": f"{len(target)} bytes", "key": use["symbolic links"], "plain": target.hex(),
         **({"token": own("token", 16)} if len(target) > 3055 else {})}
        for target in [b"a", b"../hello.txt", b"/" + b"z" * 3054, b"/" + b"z" * 3055, b"/" + b"z" * 4094]]
    yield FORMAT / "attributes.json", [
        {"name": kind, "hashKey": use["attribute name hash"], "nameKey": use["attribute names"], "valueKey": key,
         "directoryID": identifier, "plainName": b"user.comment".hex(), "plainValue": value.hex()}
        for kind, key, identifier, value in [
            ("of a file", attribute_key, None, b"a remark"), ("of a file, empty", attribute_key, None, b""),
            ("of a directory", use["directory attributes"], directory, b"a remark")]]
    yield FORMAT / "lengths.json", [
        {"name": str(length), "plain": length}
        for length in [0, 1, 15, 16, 17, 20, 4095, 4096, 4097, 8192, 2**40 + 5]]
    yield FORMAT / "contents.json", [
        {"name": f"{length} bytes", "fileKey": own("file key", 32), "length": length}
        for length in [0, 1, 16, 20, 4095, 4096, 4097, 8212]]
    yield FORMAT / "page-lengths.json", [
        {"name": str(length), "plain": length}
        for length in [0, 1, 4064, 4065, 4095, 4096, 4097, 8192, 12289, GROUP - 4095, GROUP - 1, GROUP, GROUP + 1,
                       GROUP + 4064, GROUP + 4065, GROUP + 4097, 2 * GROUP, 2**40 + 5]]
    yield FORMAT / "page-contents.json", [
        {"name": f"{length} bytes", "fileKey": own("file key", 32), "length": length, "epoch": 0xfffefdfc}
        for length in [1, 4064, 4065, 4097]]
    keys = [{"class": number, "id": int(own("class key identifier", number, which, 4), 16),
             "key": own("class key", number, which, 32)}
            for number, which in [(1, 1), (2, 1), (3, 1), (3, 2), (4, 1), (7, 1)]]
    former = [{"id": int(own("former key", which, 4), 16), "end": end, "time": 1_760_000_000 + which}
              for which, end in enumerate(["rotated", "erased"])]
    ids = sorted(own("protector", i, 16) for i in range(2))
    first = {
        "name": "a passcode, a recovery key, two keys of class C", "storeID": store,
        "deviceKey": own("device key", 32), "keybagKey": own("keybag key", 32), "generation": 5, "defaultClass": 3,
        "creationTime": 1_750_000_000, "classKeys": keys, "formerKeys": [], "recoveryText": recovery_text(bytes.fromhex(own("recovery key", 20))),
        "protectors": [
            {"id": ids[0], "type": "passcode", "label": "passcode", "passcode": passcode, "salt": own("salt", 32),
             "logN": 16, "r": 8, "p": 1},
            {"id": ids[1], "type": "recovery key", "label": "recovery key", "recoveryKey": own("recovery key", 20)}]}
    more = sorted(own("protector", i, 16) for i in range(2, 7))
    low = {"logN": 16, "r": 8, "p": 1}
    hosts = [
        {"id": own("host", which, 16), "type": "host", "label": label, "classes": classes,
         "hostKey": own("host key", which, 32), "pairingCode": own("pairing code", which, 20)}
        for which, (label, classes) in enumerate([("web1", [3]), ("all", [1, 2, 3, 7])])]
    yield FORMAT / "hosts.json", [
        {"name": p["label"], "storeID": store, "passcode": passcode, "salt": own("host salt", which, 32), **low,
         **{k: x for k, x in p.items() if k != "type"},
         "deviceKey": own("device key", 32), "lockRequest": own("lock request", which, 8), "lockContent": 2 * which}
        for which, p in enumerate(hosts)]
    yield FORMAT / "keybag.json", [
        first,
        {**first, "name": "an effaceable secret, every kind of protector, former keys, erasure after ten",
         "generation": 12, "effaceable": own("effaceable secret", 32), "eraseAfter": 10,
         "formerKeys": former,
         "protectors": [
             {"id": more[0], "type": "passcode", "label": "passcode", "passcode": passcode, "salt": own("salt", 32), **low},
             {"id": more[1], "type": "recovery key", "label": "recovery key", "recoveryKey": own("recovery key", 20)},
             {"id": more[2], "type": "key file", "label": "a stick", "keyFile": own("key file", 48)},
             {"id": more[3], "type": "TPM", "label": "", "passcode": passcode, "salt": own("TPM salt", 32), **low,
              "sealedObject": own("sealed object", 200), "sealedSecret": own("sealed secret", 32)},
             {"id": more[4], "type": "backup", "label": "backup", "passcode": passcode, "salt": own("backup salt", 32),
              **low}]},
        {**first, "name": "erased", "generation": 13, "protectors": [],
         "classKeys": [], "formerKeys": former + [{"id": key["id"], "end": "erased", "time": 1_770_000_000} for key in keys]},
        {**first, "name": "reset: all class keys but class D's are new", "generation": 6,
         "classKeys": [
             key if key["class"] == 4 else
             {**key, "id": int(own("class key identifier", key["class"], 3, 4), 16), "key": own("class key", key["class"], 3, 32)}
             for key in keys if key["id"] != keys[3]["id"]],
         "formerKeys": [{"id": key["id"], "end": "reset", "time": 1_765_000_000} for key in keys if key["class"] != 4]},
        {**first, "name": "authenticated contents", "authenticated": True},
        {**first, "name": "erased, with authenticated contents", "authenticated": True, "generation": 13, "protectors": [],
         "classKeys": [], "formerKeys": [{"id": key["id"], "end": "erased", "time": 1_770_000_000} for key in keys]},
        {**first, "name": "two hosts", "generation": 7, "effaceable": own("effaceable secret", 32), "formerKeys": former,
         "protectors": sorted(first["protectors"] + hosts, key=lambda p: p["id"])}]
    yield FORMAT / "attempts.json", [
        {"name": "two wrong passcodes", "storeID": store, "deviceKey": own("device key", 32), "count": 2,
         "lastTime": 1_750_000_100}]


def shown(value):
    return value.hex() if isinstance(value, bytes) else value


def write():
    for path, vectors in own_vectors():
        kept = []
        if path.exists():
            kept = [v for v in json.loads(path.read_text())["vectors"] if v["source"] != OWN]
        made = [{**v, "source": OWN, **{k: shown(x) for k, x in FILES[path](v).items()}} for v in vectors]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"vectors": kept + made}, indent=1, ensure_ascii=False) + "\n")


def check():
    count = failures = 0
    for path, compute in FILES.items():
        for v in json.loads(path.read_text())["vectors"]:
            count += 1
            for name, value in compute(v).items():
                if v.get(name) != shown(value):
                    failures += 1
                    print(f"{path.name}: {v['name']}: {name} is {v.get(name)}, must be {shown(value)}")
    print(f"{count} vectors, {failures} failures")
    return failures == 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    elif sys.argv[1:]:
        sys.exit(__doc__)
    sys.exit(0 if check() else 1)
