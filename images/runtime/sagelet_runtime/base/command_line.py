"""What a Python process runs, from its command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

#: False on Python 3.9, which has no sys.orig_argv.
KNOWS_ITS_COMMAND = hasattr(sys, "orig_argv")


def of_this_process() -> list[str]:
    """Returns the command line that started this Python, with Python's own options."""
    if KNOWS_ITS_COMMAND:
        return list(sys.orig_argv)
    own = Path("/proc/self/cmdline")
    if not own.exists():
        return [sys.executable, *sys.argv]
    return own.read_bytes().decode(errors="surrogateescape").split("\0")[:-1]


def module_of(command: Sequence[str]) -> str | None:
    """Returns the module that `python -m` runs, or None for a script. A script's own `-m` does not count."""
    for at, word in enumerate(command[1:], start=1):
        if word == "-m":
            return command[at + 1] if at + 1 < len(command) else None
        if not word.startswith("-"):
            return None
    return None
