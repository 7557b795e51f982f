"""Prints sagelet's own lines into the log of a job."""

from __future__ import annotations

import os

_said: set[str] = set()


def say(text: str) -> None:
    """Prints one line on stdout, at once. `sagelet:` tells it from AWS's and the script's lines."""
    print(f"sagelet: {text}", flush=True)


def say_once(text: str) -> None:
    """Says `text` the first time that this process calls it with that text."""
    if text not in _said:
        _said.add(text)
        say(text)


def say_for_all(text: str) -> None:
    """Says `text` once, in worker 0 only, because it is true of every worker."""
    if os.environ.get("RANK", "0") == "0":
        say_once(text)


def ranks_line(what: str, rank: int, size: int) -> str:
    """Returns NCCL's `rank 0 nranks 4`, by which checks of AWS's logs see that workers have found each other."""
    return f"{what}: rank {rank} nranks {size}"
