"""sagelet's own lines in the log of a job."""

from __future__ import annotations

import os

_said: set[str] = set()


def say(text: str) -> None:
    """One line on stdout, at once. Begins with `sagelet:` so that nobody takes it for AWS's or the script's."""
    print(f"sagelet: {text}", flush=True)


def say_once(text: str) -> None:
    """`say`, the first time this process has this to say."""
    if text not in _said:
        _said.add(text)
        say(text)


def say_for_all(text: str) -> None:
    """`say_once`, by the first of the workers, for what is true of each of them."""
    if os.environ.get("RANK", "0") == "0":
        say_once(text)


def ranks_line(what: str, rank: int, size: int) -> str:
    """What checks of AWS's logs look for when workers have found each other: NCCL's `rank 0 nranks 4`."""
    return f"{what}: rank {rank} nranks {size}"
