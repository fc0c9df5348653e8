#!/usr/bin/env python3
"""Holds the borders between modules: who may import what (CONTRIBUTING.md, "Rules of the code"); and that the files
which the documents name exist, and that comment lines are no longer than they may be.

The compiler lets a module import whatever was built before it, declared in Package.swift or not.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What only these may import.
GATES = {
    "CFUSE": {"FUSE"},
    "CLibcrypto": {"Cryptography"},
    "CProtectfsIndexStore": {"ProtectfsLint"},
    "CProtectfsIO": {"ProtectfsIO"},
    "CProtectfsTesting": {"DataProtectionTesting"},
    "CSystemd": {"SystemBus"},
    "CTSS2": {"TPM"},
    "ArgumentParser": {"protectfs"},
    # Apps have it, and so have compilers; the command and the daemon need FoundationEssentials only.
    "Foundation": {"DataProtection", "ProtectfsLintTool"},
    # The others ask the operating system by way of ProtectfsIO. What apps link has musl for an alternative.
    "Glibc": {"ProtectfsLibc", "FUSE", "Cryptography", "TPM"},
    "Musl": {"ProtectfsLibc"},
    "ProtectfsLibc": {"ProtectfsIO"},
}
# SwiftPM admits a name once among all modules that products of an app's packages reach, so these carry this package's.
PREFIXES = ("DataProtection", "Protectfs", "CProtectfs")
# All other packages that these may need. What a product reaches, an app fetches.
PACKAGES = {"SystemPackage"}
# Modules that a package declares as products of other names, or not at all.
STANDARD = {"Foundation", "FoundationEssentials", "Glibc", "Musl", "Synchronization"}

IMPORT = re.compile(r"^\s*(?:@\w+(?:\([^)]*\))?\s+|public\s+|package\s+|internal\s+|private\s+)*import\s+"
                    r"(?:(?:struct|class|enum|protocol|func|var|let|typealias)\s+)?(\w+)", re.MULTILINE)

# Locks without a rank (ARCHITECTURE.md, "Lock order"), which only ProtectfsIO has, to make those with one.
BARE_LOCK = re.compile(r"\bMutex\s*[<(]|\bNS(?:Recursive)?Lock\b|\bpthread_(?:mutex|rwlock|cond|spin)_\w+|"
                       r"\bDispatch(?:Semaphore|Queue)\b|\bsem_init\b")

# Who takes the time from MonotonicClock alone, which tests move; but for the dates of what is logged.
TIMED = {
    "KeyManagement", "Contents", "FileProtection", "BackingTree", "FileSystem", "StoreFormat", "StoreCheck",
    "MountDaemon"
}
OTHER_TIME = re.compile(r"\bContinuousClock\.now|\bContinuousClock\(|\bDate\.now|\bDate\(\)|[ (]\.now\b|"
                        r"\bThread\.sleep|\busleep\(|\btime\(nil\)|\bCLOCK_REALTIME\b")

# Random bytes come by way of two functions, which tests give a seed.
RANDOM = re.compile(r"\bRAND_\w+\(|\bgetrandom\(|\barc4random|\bSystemRandomNumberGenerator\b|\.random\(in:|"
                    r"\.randomElement\(|\.shuffled?\(|\bUUID\(\)")

# The calls that reach the store, which tests put others in the place of; the section of a manual page may follow. Other
# descriptors are closed, too.
STORE_CALLS = re.findall(r"\bCALL\(\w+, (\w+),", (ROOT / "Sources/CProtectfsIO/include/store.h").read_text())
DIRECT_CALL = re.compile(rf"(?<![\w.\"])(?:{'|'.join(set(STORE_CALLS) - {'close'})})\((?!\d\))")

# `Module/File` in a document.
NAMED_FILE = re.compile(r"`([A-Za-z]\w+/[\w+/.]*\w)`")


def declared():
    """The modules, each with the names that it may import by Package.swift; and those that products are made of."""
    text = subprocess.run(["swift", "package", "dump-package"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    modules = {}
    package = json.loads(text)
    for target in package["targets"]:
        names = set()
        for dependency in target["dependencies"]:
            for kind in ("byName", "target", "product"):
                if kind in dependency:
                    names.add(dependency[kind][0])
        modules[target["name"]] = names
    return modules, {target for product in package["products"] for target in product["targets"]}


def reached(module, modules):
    """The module and what it depends on, in this package and others."""
    return {module}.union(*(reached(name, modules) for name in modules.get(module, ())))


def main():
    allowed, published = declared()
    problems = files = 0
    for module in sorted(set().union(*(reached(name, allowed) for name in published)) - PACKAGES):
        if not module.startswith(PREFIXES):
            problems += 1
            print(f"{module}: a product reaches it, so no other package of an app could have a module of that name",
                  file=sys.stderr)
    for path in sorted((ROOT / "Sources").rglob("*.swift")):
        module = path.relative_to(ROOT / "Sources").parts[0]
        files += 1
        text = path.read_text()
        for name in BARE_LOCK.findall(text) if module != "ProtectfsIO" else []:
            problems += 1
            print(f"{path.relative_to(ROOT)}: {name.strip('<( ')} has no rank; RankedMutex, Monitor and the like have",
                  file=sys.stderr)
        for call in OTHER_TIME.findall(text) if module in TIMED and path.stem != "DaemonLog" else []:
            problems += 1
            print(f"{path.relative_to(ROOT)}: {call.strip(' (')} is no time of MonotonicClock's", file=sys.stderr)
        for call in RANDOM.findall(text) if module in TIMED | {"Cryptography"} and path.stem != "SecretBytes" else []:
            problems += 1
            print(f"{path.relative_to(ROOT)}: {call.strip('.(')} has bytes that are not by way of SecretBytes",
                  file=sys.stderr)
        for call in DIRECT_CALL.findall(text) if module == "ProtectfsIO" else []:
            problems += 1
            print(f"{path.relative_to(ROOT)}: {call}) is not by way of store.h", file=sys.stderr)
        for name in IMPORT.findall(text):
            reason = None
            if name in GATES and module not in GATES[name]:
                reason = f"only {', '.join(sorted(GATES[name]))} may"
            elif name not in STANDARD | allowed[module]:
                reason = "Package.swift does not say so"
            if reason:
                problems += 1
                print(f"{path.relative_to(ROOT)}: imports {name}; {reason}", file=sys.stderr)
    for document in sorted([*ROOT.glob("*.md"), *(ROOT / "Documentation").glob("*.md")]):
        for named in NAMED_FILE.findall(document.read_text()):
            path = ROOT / "Sources" / named
            if (ROOT / "Sources" / path.relative_to(ROOT / "Sources").parts[0]).is_dir() and not (
                    path.exists() or path.with_name(path.name + ".swift").exists()):
                problems += 1
                print(f"{document.relative_to(ROOT)}: there is no {named}", file=sys.stderr)
    for path in sorted([*(ROOT / "Sources").rglob("*"), *(ROOT / "Tests").rglob("*")]):
        if path.suffix not in {".swift", ".c", ".h"}:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > 120 and line.lstrip().startswith("//"):
                problems += 1
                print(f"{path.relative_to(ROOT)}:{number}: a comment line has up to 120 columns", file=sys.stderr)
    print(f"{files} files, {problems} problems")
    return problems == 0


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
