"""Reads what a host's container wrote about its end. The container may write anything, and put a link anywhere."""

import io
import json
from pathlib import Path

from sagelet_engine.base import nofollow
from sagelet_engine.model.verdict import KILLED_BEFORE_MS, REASON_LIMIT, EndNotes

#: Below /opt/ml/output: what the workers of a host report of their end (images/runtime, workers/worker_failures.py).
WORKERS = Path("sagelet", "workers")


def end_notes(failure_file: Path) -> EndNotes:
    """Returns the notes of a host. `failure_file`: /opt/ml/output/failure."""
    return EndNotes(failure_text(failure_file), worker_died_ms(failure_file.parent))


def failure_text(path: Path, within: int = 2) -> str | None:
    """Returns the failure file's first 1024 characters, or None if there is no such ordinary file.

    `within`: the number of names at the path's end that the container may have made.
    """
    try:
        with nofollow.open_path(path, within) as file:
            return io.TextIOWrapper(file, encoding="utf-8", errors="replace").read(REASON_LIMIT)
    except nofollow.NoFile:
        return None


def worker_died_ms(output: Path) -> int | None:
    """Returns when the first worker died, in ms since the epoch. A killed one counts as earlier by KILLED_BEFORE_MS.

    None if no worker left a note that can be read. `output`: the host's /opt/ml/output.
    """
    note = WORKERS / "failure.json"
    text = failure_text(output / note, within=1 + len(note.parts))
    try:
        note = json.loads(text or "")
        return int(note["time_ms"]) - (KILLED_BEFORE_MS if note["killed"] else 0)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
