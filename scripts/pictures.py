#!/usr/bin/env python3
"""Draws the pictures of the documents from what they show: the tests' table of the contract, and PERFORMANCE's table.

usage: pictures.py [--check]

Writes Documentation/classes.svg, speed.svg and performance.svg. With --check nothing is written, and a picture that would
change is an error.
"""

import itertools
import pathlib
import re
import sys
from xml.sax.saxutils import escape

from benchmark.report import plot
from benchmark.systems import PROTECTFS

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = ROOT / "Documentation"
WIDTH, MARGIN = 800, 24
# Dark where the page is; the card below everything keeps the text legible where a viewer mistakes one for the other.
STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 14px; fill: #1f2328 }
.title { font-size: 17px; font-weight: bold } .strong { font-weight: bold } .muted { fill: #59636e }
.note { font-size: 13px } .state { font-size: 12px } .over { paint-order: stroke; stroke: #ffffff; stroke-width: 6px }
.on { fill: #ffffff; text-anchor: middle } .middle { text-anchor: middle } .end { text-anchor: end }
.card { fill: #ffffff; stroke: #d0d7de } .line { stroke: #818b98 }
.usable { fill: #0a62c4 } .partly { fill: #985300 } .refused { fill: #ffffff; stroke: #818b98; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .muted { fill: #a3acb6 } .on { fill: #ffffff } .over { stroke: #0d1117 }
.card { fill: #0d1117; stroke: #3d444d } .line { stroke: #656c76 } .refused { fill: #0d1117; stroke: #656c76 } }
"""


def text(x, y, words, style):
    return f'<text x="{x:g}" y="{y:g}" class="{style}">{escape(words)}</text>'


def bar(x, y, width, style):
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="26" rx="4" class="{style}"/>'


def tick(x, top, bottom):
    return f'<line x1="{x:g}" x2="{x:g}" y1="{top:g}" y2="{bottom:g}" class="line"/>'


def picture(title, description, height, parts):
    """An SVG on a card. A reader of the screen gets the description."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-labelledby="title description">',
        f'<title id="title">{escape(title)}</title>', f'<desc id="description">{escape(description)}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" class="card"/>',
        text(MARGIN, 34, title, "title"), *parts, "</svg>"]) + "\n"


# The time line of the classes

CLASSES = {"A": "complete", "B": "completeUnlessOpen", "C": "completeUntilFirstUserAuthentication (default)", "D": "none",
           "CX": "completeWhenUserInactive"}
# What happens, the state that begins with it, and the place of this state in the contract's table. At rest, the state is
# that before the first unlock again, also for files that were open (RestTests).
EVENTS = [("boot, mount", "before first unlock", 0), ("first unlock", "unlocked", 1), ("lock", "grace period", 2),
          ("10 s later", "locked", 3), ("10 min later", "inactive", 4), ("locked for 72 h", "at rest", 0)]
USABLE, PARTLY, NEW, REFUSED = "read and write", "open files and new files only", "new files only", "refused"
STYLES = {USABLE: "usable", PARTLY: "partly", NEW: "partly", REFUSED: "refused"}
NOTES = ["New files can be created, written and read until they are closed. Refused: EACCES at once, also for open files.",
         "From each state an unlock leads to “unlocked”. The times are the defaults; 10 min and 72 h begin at “locked”.",
         "Locks at screen lock, before sleep and with --now have no grace period; before sleep, CX is locked at once too.",
         "At rest: only with -o at_rest, as login mounts have it. Others stay “inactive” until unlocked or unmounted."]


def contract():
    """What the mount tests hold: for each state and class, the answers of all operations on contents and names."""
    table = (ROOT / "Tests/Contract/ContractTable.swift").read_text()
    rows = re.findall(r"^ +(\S.*?) {2,}([.xs-]{5})" + r" +([.xs-]{5})" * 4 + "$", table, re.MULTILINE)
    return [[{name: answers[state][place] for name, *answers in rows} for place in range(5)] for state in range(5)]


def usability(answers):
    """What can be done with contents, in words."""
    if not set(answers.values()) & set("xs"):
        return USABLE
    if answers["create, write, read back"] != ".":
        return REFUSED
    return PARTLY if answers["read"] == "." else NEW


def time_line():
    states, step, top, height = contract(), (WIDTH - 2 * MARGIN) / len(EVENTS), 112, 54
    bottom = top + height * len(CLASSES)
    parts, described = [], []
    for index, (event, state, _) in enumerate(EVENTS):
        x = MARGIN + step * index
        parts += [tick(x, 56, bottom - 8), text(x + 6, 68, event, "strong"), text(x + 6, 87, state, "state muted")]
    for row, (letter, name) in enumerate(CLASSES.items()):
        y = top + height * row
        parts += [text(MARGIN + 6, y + 4, letter, "strong over"), text(MARGIN + 32, y + 4, name, "over")]
        cells = [usability(states[place][row]) for _, _, place in EVENTS]
        for words, group in itertools.groupby(range(len(EVENTS)), key=cells.__getitem__):
            columns = list(group)
            x, width = MARGIN + step * columns[0] + 3, step * len(columns) - 6
            parts += [bar(x, y + 12, width, STYLES[words]),
                      text(x + width / 2, y + 30, words, "middle muted" if words == REFUSED else "on")]
        described.append(f"{letter}: " + ", ".join(f"{state} {words}" for (_, state, _), words in zip(EVENTS, cells)) + ".")
    parts += [text(MARGIN + 6, bottom + 16 + 19 * line, note, "note muted") for line, note in enumerate(NOTES)]
    return picture("When the contents of files can be used, by protection class", " ".join(described + NOTES),
                   bottom + 18 + 19 * len(NOTES), parts)


# The speed beside gocryptfs

SPEEDS = {"sequential write, 1 MiB": "write a large file", "read all files, cold": "read small files, not cached",
          "git clone": "git clone", "unlink all": "delete files"}
COLUMN = "device"


def performance():
    """The table of PERFORMANCE: the ratios of each workload by file system, and the geometric means."""
    lines = (DOCUMENTS / "PERFORMANCE.md").read_text().splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("| workload |"))
    head, _, *rows = ([cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines[start:])
    ratios = {}
    for name, *cells in rows:
        values = dict(zip(head[1:], map(float, cells)))
        if name.startswith("geometric mean"):
            return ratios, values
        ratios[name] = values


def speed():
    workloads, mean = performance()
    lowest = min(workloads, key=lambda name: workloads[name][COLUMN])
    bars = [(f"all {len(workloads)} workloads (geometric mean)", mean[COLUMN])]
    bars += [(words, workloads[name][COLUMN]) for name, words in SPEEDS.items() if name != lowest]
    bars.append((f"{SPEEDS.get(lowest, lowest)} (lowest of the {len(workloads)})", workloads[lowest][COLUMN]))
    left, top, height = 330, 102, 38
    unit, bottom = (WIDTH - MARGIN - 70 - left) / max(ratio for _, ratio in bars), top + height * len(bars)
    parts = [text(MARGIN, 58, "How many times as fast, both over the same ext4. Longer is better.", "note muted"),
             text(left + unit, 86, "gocryptfs = 1", "note middle muted")]
    for index, (label, ratio) in enumerate(bars):
        y = top + height * index
        parts += [text(left - 12, y + 18, label, "end strong" if index == 0 else "end"),
                  bar(left, y, unit * ratio, "usable" if ratio >= 1 else "partly"),
                  text(left + unit * max(ratio, 1) + 8, y + 18, f"{ratio:.2f}×", "strong")]
    note = f"Medians of one run with requests from /dev/fuse: the column “{COLUMN}” of Documentation/PERFORMANCE.md."
    parts += [tick(left + unit, 92, bottom - 4), text(MARGIN, bottom + 20, note, "note muted")]
    return picture("Speed of protectfs relative to gocryptfs", " ".join(f"{label}: {ratio:.2f}." for label, ratio in bars),
                   bottom + 40, parts)


def main(arguments):
    if arguments not in ([], ["--check"]):
        return __doc__
    workloads, faults = performance()[0], []
    ratios = {name: [each[name] for each in workloads.values()] for name in PROTECTFS}
    for name, content in (("classes", time_line()), ("speed", speed()), ("performance", plot(list(workloads), ratios))):
        path = DOCUMENTS / f"{name}.svg"
        if not arguments:
            path.write_text(content)
        elif path.read_text() != content:
            faults.append(f"{path} is not what scripts/pictures.py draws.")
    return "\n".join(faults) or None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
