#!/usr/bin/env python3
"""Runs transcripts of sessions with the command, and compares what is printed with them.

usage: transcripts.py [--write] PROTECTFS [TRANSCRIPT...]        (by default all of Tests/Transcripts)

A transcript is one bash session in a fresh directory, which is also its HOME. Those that differ are shown as a diff;
with --write they take what was printed, and keep the patterns that match it.

    # A comment.
    $ command             a command;
    > its next line       what it continues on
    text                  what it prints on standard output
    2> text               and, after all of that, on standard error
    < text                what is typed at its prompt, by at-terminal.py; other commands have no terminal. What the
                          terminal echoes is output too: a passcode, which is not shown, has no second line
    [3]                   the exit status, where it is not 0

In output, ~ is the session's directory, a line ... any number of lines, and <name> what PATTERNS has. Functions of the
session: `skip REASON` ends the transcript; `await COMMAND` repeats it until it succeeds, for 20 seconds.
"""

import concurrent.futures
import contextlib
import difflib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PATTERNS = {"uuid": "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "recovery-key": "(?:[0-9A-Z]{4}-){8}[0-9A-Z]{4}",
            "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "hex": "[0-9a-f]+", "pid": r"[1-9]\d*",
            "number": r"\d+(?:\.\d+)?", "text": ".*"}
TIMEOUT, MARK, scripts = 180, "\x01", pathlib.Path(__file__).resolve().parent
PRELUDE = r"""set -o pipefail; umask 077
skip() { echo "$*" >.skipped; exit; }
await() { local end=$((SECONDS + 20)); until "$@"; do ((SECONDS < end)) || return 1; sleep 0.02; done; }
"""


def script(parts):
    """The session: after each command a mark on both streams, on standard output with its status."""
    lines = [PRELUDE]
    for head, expected in parts:
        command, typed = "\n".join(line[2:] for line in head), [line[2:] for line in expected if line.startswith("< ")]
        if typed:
            command = shlex.join([str(scripts / "at-terminal.py"), command, *typed])
        if head[0].startswith("$"):
            lines.append(f"{command}\nprintf '{MARK}%d\\n' $?; printf '{MARK}\\n' >&2")
    return "\n".join(lines)


def end(directory):
    """Ends what a session has left: what is mounted in its directory, and processes that have it as their HOME."""
    for _ in range(2):
        with open("/proc/self/mountinfo", encoding="utf-8") as lines:
            for mount in [path for path in (line.split()[4] for line in lines) if path.startswith(f"{directory}/")]:
                subprocess.run([f"{directory}/.bin/protectfs", "unmount", "--lazy", mount], capture_output=True, timeout=60)
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # It has ended, or is another user's.
                if f"HOME={directory}".encode() in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
    shutil.rmtree(directory)


def session(program, text):
    """Runs a session. Returns the lines that each command printed, and why the session was skipped, if it was."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="protectfs-transcript.")).resolve()
    try:
        (directory / ".bin").mkdir()
        (directory / ".bin/protectfs").symlink_to(os.path.abspath(program))
        environment = {**os.environ, "HOME": str(directory), "XDG_CONFIG_HOME": f"{directory}/.config", "LC_ALL": "C.UTF-8",
                       "TMPDIR": str(directory), "PATH": f"{directory}/.bin:{os.environ['PATH']}"}
        streams = [directory / ".out", directory / ".err"]
        with open(streams[0], "wb") as output, open(streams[1], "wb") as errors:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(["bash", "-c", text], cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                               stdout=output, stderr=errors, start_new_session=True, timeout=TIMEOUT)
        printed, errors = (path.read_text(errors="backslashreplace").replace(str(directory), "~") for path in streams)
        skipped = (directory / ".skipped").read_text() if (directory / ".skipped").exists() else None
    finally:
        end(directory)
    fields = re.split(f"{MARK}(\\d+)\n", printed)
    return [output.splitlines() + [f"2> {line}" for line in error.splitlines()] + ([f"[{status}]"] * (status != "0"))
            for output, status, error in zip(fields[::2], fields[1::2], errors.split(f"{MARK}\n"))], skipped


def matches(expected, actual):
    """Whether lines are as expected; blank ones make no difference."""
    def regex(line):
        parts = re.split(f"<({'|'.join(PATTERNS)})>", line)
        return "".join(PATTERNS[part] if index % 2 else re.escape(part) for index, part in enumerate(parts)) + "\n"
    pattern = "".join("(?:.*\n)*" if line == "..." else regex(line) for line in expected if line)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in actual if line))


def rewritten(expected, actual):
    """The lines that are expected, if they match; else those there are, or the patterns that match them."""
    if matches(expected, actual):
        return expected
    lines, left = [], [line for line in expected if line != "..."]
    for line in actual:
        kept = next((index for index, pattern in enumerate(left) if matches([pattern], [line])), None)
        for name in ("uuid", "recovery-key", "time"):
            line = re.sub(PATTERNS[name], f"<{name}>", line)
        lines.append(line if kept is None else left[kept])
        del left[: 0 if kept is None else kept + 1]
    return lines + [""] * (expected[-1:] == [""])


def run(program, path, writes):
    """Runs a transcript. Returns whether it is as it says, and what to report."""
    began, text = time.monotonic(), path.read_text()
    parts = [(head.splitlines(), body.splitlines()) for head, body in re.findall(
        r"^([#$] .*\n(?:> .*\n)*)((?:(?![#$] ).*\n)*)", text, re.MULTILINE)]
    results, skipped = session(program, script(parts))
    if skipped:
        return True, f"skip {path.stem}: {skipped.strip()}"
    rest, lines = iter(results), []
    for head, expected in parts:
        lines += head + (rewritten(expected, next(rest, ["(the session has ended)"])) if head[0][0] == "$" else expected)
    took = f"{path.stem}: {len(results)} commands, {time.monotonic() - began:.1f} s"
    if lines == text.splitlines():
        return True, f"ok   {took}"
    if writes:
        path.write_text("\n".join(lines) + "\n")
    diff = difflib.unified_diff(text.splitlines(), lines, str(path), "printed", lineterm="")
    return writes, "\n".join([f"{'new ' if writes else 'FAIL'} {took}", *diff])


def main(arguments):
    writes = arguments[:1] == ["--write"]
    program, *names = arguments[writes:] or sys.exit(__doc__)
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        sys.exit(print("Skipped: transcripts. /dev/fuse is missing or may not be used."))
    paths, failed = list(map(pathlib.Path, names)) or sorted(scripts.parent.glob("Tests/Transcripts/*.txt")), 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for passed, report in pool.map(lambda path: run(program, path, writes), paths):
            failed += not passed
            print(report, flush=True)
    print(f"{len(paths) - failed} transcripts passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
