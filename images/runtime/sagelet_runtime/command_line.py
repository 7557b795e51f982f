"""What a Python process runs, from its command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

#: Python 3.9 does not.
KNOWS_ITS_COMMAND = hasattr(sys, "orig_argv")


def of_this_process() -> list[str]:
    """The words by which this Python was started, its own options included."""
    if KNOWS_ITS_COMMAND:
        return list(sys.orig_argv)
    own = Path("/proc/self/cmdline")
    if not own.exists():
        return [sys.executable, *sys.argv]
    return own.read_bytes().decode(errors="surrogateescape").split("\0")[:-1]


def module_of(command: Sequence[str]) -> str | None:
    """What `python -m` is to run; None for a script, whose own arguments do not count."""
    for at, word in enumerate(command[1:], start=1):
        if word == "-m":
            return command[at + 1] if at + 1 < len(command) else None
        if not word.startswith("-"):
            return None
    return None
