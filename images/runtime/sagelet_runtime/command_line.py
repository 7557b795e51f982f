"""What a Python process runs, from its command line."""

from collections.abc import Sequence


def module_of(command: Sequence[str]) -> str | None:
    """What `python -m` is to run; None for a script, whose own arguments do not count."""
    for at, word in enumerate(command[1:], start=1):
        if word == "-m":
            return command[at + 1] if at + 1 < len(command) else None
        if not word.startswith("-"):
            return None
    return None
