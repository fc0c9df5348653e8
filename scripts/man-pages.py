#!/usr/bin/env python3
"""Writes what 'protectfs COMMAND --help' says into the manual page, between the comments that name the command.

usage: man-pages.py [--check] PROTECTFS

A comment .\\" Begin help of COMMAND begins such a part, .\\" Begin TITLE one with options that several commands have, and
.\\" End ends it. All else in the page is written by hand: what is too long for --help. With --check nothing is written, and
a page that would change is an error. So is a command without a part, and a mount option that only one of 'protectfs mount
--help' and the page mount.fuse.protectfs(8) has.
"""

import difflib
import json
import pathlib
import re
import subprocess
import sys
import textwrap

pages = pathlib.Path(__file__).resolve().parent.parent / "Documentation/man"


def escaped(text):
    """Text as roff: options in bold, and quotes of commands straight."""
    text = text.replace("\\", "\\e")
    text = re.sub(r"(?<![\w'])'([^'\n]+)'(?!\w)", r"\\(aq\1\\(aq", text)
    return re.sub(r"(?<![\w-])-(-[a-z][a-z-]*|[a-zA-Z0]\b)", lambda match: f"\\fB{match[0].replace('-', chr(92) + '-')}\\fP", text)


def paragraph(text):
    """A line a sentence, as roff wants it."""
    sentences = re.split(r"(?<=[.]) +(?=[A-Z\"$'])", text.strip())
    lines = [line for each in sentences for line in textwrap.wrap(escaped(each), 118, break_on_hyphens=False)]
    return [re.sub(r"^(?=[.'])", r"\\&", line) for line in lines]


def prose(text):
    """Paragraphs, and as they are lines that begin with blanks."""
    lines = []
    for block in re.split(r"\n\n+", text):
        for indented, part in re.findall(r"((?:^  .*\n?)+)|((?:^(?!  ).*\n?)+)", block, re.MULTILINE):
            if indented:
                literal = textwrap.dedent(indented).rstrip("\n").replace("\\", "\\e").replace("-", "\\-")
                lines += [".Bd -literal -offset 2n", *literal.split("\n"), ".Ed"]
            else:
                lines += ([".Pp"] if lines and lines[-1] != ".Pp" else []) + paragraph(part.replace("\n", " "))
        lines += [".Pp"] if lines[-1] == ".Ed" else []
    return lines[:-1] if lines[-1] == ".Pp" else lines


def spelled(argument, every=False):
    """An argument as mdoc macros: its name, or all its names."""
    value = f" Ar {argument['valueName']}"
    if argument["kind"] == "positional":
        return value.strip() + (" ..." if argument["isRepeating"] else "")
    names = argument["names"] if every else [argument["preferredName"]]
    flags = [f"Fl {'' if name['kind'] == 'short' else chr(92) + '-'}{name['name']}" for name in names]
    return " , ".join(flags) + (value if argument["kind"] == "option" else "")


def listed(arguments):
    lines = []
    for argument in arguments:
        default = f" The default is {argument['defaultValue']}." if "defaultValue" in argument else ""
        lines += [f".It {spelled(argument, every=True)}", *prose(argument.get("abstract", "") + default),
                  *([".Pp", *prose(argument["discussion"])] if argument.get("discussion") else [])]
    return [".Bl -tag -width Ds", *lines, ".El"] if lines else []


def arguments_of(command):
    return [each for each in command["arguments"]
            if each["shouldDisplay"] and each["valueName"] not in ("help", "version")]


def synopsis(words, command):
    def usage(arguments):
        return [f"Oo {spelled(each)} Oc" if each["isOptional"] else spelled(each) for each in arguments]

    titles = dict.fromkeys(each["sectionTitle"].lower() for each in arguments_of(command) if "sectionTitle" in each)
    own = [each for each in arguments_of(command) if "sectionTitle" not in each]
    options = [each for each in own if each["kind"] != "positional"]
    positional = [each for each in own if each["kind"] == "positional"]
    words = [f".Nm Cm {words}", *usage(options), *(f"Oo Ar {title} Oc" for title in titles), *usage(positional)]
    return " ".join(words), positional + options


def parts(root):
    """What stands behind each 'Begin'."""
    result, groups, commands = {}, {}, [((), root)]
    for words, command in commands:
        commands += [((*words, each["commandName"]), each) for each in command.get("subcommands", [])]
        if not words or words == ("help",) or ("subcommands" in command and "discussion" not in command):
            continue
        usage, own = synopsis(" ".join(words), command) if "subcommands" not in command else ("", [])
        about = prose(f"{command['abstract']}\n\n{command.get('discussion', '')}".strip())
        result[f"help of {' '.join(words)}"] = [f".Ss {' '.join(words)}", *([usage, ".Pp"] if usage else []), *about, *listed(own)]
        for each in arguments_of(command):
            if "sectionTitle" in each:
                groups.setdefault(each["sectionTitle"], {}).setdefault(each["valueName"] + spelled(each), each)
    return result | {title: listed(group.values()) for title, group in groups.items()}


def main(arguments):
    checks = arguments[:1] == ["--check"]
    program = (arguments[checks:] or sys.exit(__doc__))[0]
    root = json.loads(subprocess.check_output([program, "--experimental-dump-help"]))["command"]
    path, content = pages / "protectfs.1", parts(root)
    text = path.read_text()
    new = re.sub(r'(\.\\" Begin (.*)\n)(?:.*\n)*?(\.\\" End\n)',
                 lambda match: match[1] + "\n".join(content.pop(match[2])) + "\n" + match[3], text)
    mount = next(each for each in root["subcommands"] if each["commandName"] == "mount")["discussion"]
    helped = set(re.findall(r"^  (\w+)\b.*?  ", mount.split("\n\nExamples")[0], re.MULTILINE))
    described = set(re.findall(r"^\.It Cm (\w+)", (pages / "mount.fuse.protectfs.8").read_text(), re.MULTILINE))
    faults = [f"The page has no part for {each}." for each in content]
    faults += [f"The mount option {each} is in one of --help and the page only." for each in sorted(helped ^ described)]
    if checks and new != text:
        faults += difflib.unified_diff(text.splitlines(), new.splitlines(), str(path), "--help", lineterm="")
        faults.append(f"scripts/man-pages.py {program} writes it.")
    elif new != text:
        path.write_text(new)
    return "\n".join(faults) or None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
