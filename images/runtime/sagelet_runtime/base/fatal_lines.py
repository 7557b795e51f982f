"""Finds the line with which XLA's C++ says why it ends the process.

absl writes `F0000 00:00:1.2    3 file.cc:4] words` before its start, and torch_xla `2026-01-01 00:00:00.1: F file.cc:4]
words`. After a value that a flag cannot have, XLA prints 100 lines about all its flags.
"""

import re

_FATAL = re.compile(r"^(?:F\d{4} |[\d-]+ [\d:.]+: F ).*?\S+:\d+\] (\S.*)")
_VALUE = re.compile(r"\] (Couldn't interpret value .+ for flag \S+)")


def said(line: str) -> str:
    """Returns the words of such a line: `Unknown flag in XLA_FLAGS: --xla_typo=1`. Empty for any other line."""
    found = _VALUE.search(line) or _FATAL.search(line)
    return found[1].strip() if found else ""
