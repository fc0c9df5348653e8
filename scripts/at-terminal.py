#!/usr/bin/env python3
"""Runs a command at a terminal of its own and types answers at its prompts, which end in a colon.

usage: at-terminal.py COMMAND ANSWER...

The answers are shown behind '<'. In them, ^C is Ctrl-C, and $(...) is what a command prints.
"""

import os
import pty
import re
import subprocess
import sys

command, *answers = sys.argv[1:] or sys.exit(__doc__)
child, terminal = pty.fork()
if child == 0:
    os.execvp("bash", ["bash", "-c", command])
ends_line = False
while True:
    try:
        output = os.read(terminal, 4096)
    except OSError:  # The last process has closed it.
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    text = output.decode().replace("\r", "")
    # The line of a prompt ends with what was typed, whether the program ends it or the echo does.
    sys.stdout.write(text.removeprefix("\n") if ends_line else text)
    ends_line = bool(answers) and text.rstrip(" ").endswith(":")
    if ends_line:
        print(f"\n< {answers[0]}")
        typed = subprocess.check_output(["bash", "-c", f'printf %s "{answers.pop(0)}"'])
        os.write(terminal, re.sub(rb"\^(.)", lambda key: bytes([key[1][0] ^ 64]), typed) + b"\r")
    sys.stdout.flush()
