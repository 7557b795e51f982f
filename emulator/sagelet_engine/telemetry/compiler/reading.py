"""Reads what workers report from a host's /opt/ml, which the container may fill with anything.

It follows no link, and reads ordinary files only, up to the size of a report. A file that is not a report is left out.
"""

import os
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sagelet_engine.base import nofollow
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.telemetry.compiler.decoding import decode
from sagelet_engine.telemetry.compiler.worker import IdleNote, RanNote, WorkerReport

#: Below /opt/ml; SAGELET_REPORT_DIR in the container.
DIRECTORY = ("output", "sagelet")
#: The most workers of a host. No instance type has more than 16 GPUs.
MOST_WORKERS = 64
#: The most notes of processes that did nothing.
MOST_NOTES = 256
#: The most names that are looked at.
MOST_NAMES = 4096
#: The most bytes of a report. One with all its lists full has 200 KB.
MOST_BYTES = 1 << 20

_WORKER = re.compile(r"worker-(0|[1-9][0-9]{0,4})\.json", re.ASCII)
_RAN = re.compile(r"ran-(0|[1-9][0-9]{0,9})\.json", re.ASCII)
_IDLE = re.compile(r"idle-(0|[1-9][0-9]{0,9})\.json", re.ASCII)


def workers_of(opt_ml: Path, host: str) -> list[WorkerReport]:
    """Returns the reports of a host's workers, by rank. Empty if there are none (yet)."""
    found = _documents(opt_ml, _WORKER, MOST_WORKERS)
    return [replace(decode(WorkerReport, value), host=host, rank=rank) for rank, value in found]


def idle_notes_of(opt_ml: Path, host: str) -> list[IdleNote]:
    """Returns what processes of a host wrote of the time in which they did nothing, by process id."""
    found = _documents(opt_ml, _IDLE, MOST_NOTES)
    return [replace(decode(IdleNote, value), host=host, pid=pid) for pid, value in found]


def ran_notes_of(opt_ml: Path) -> list[RanNote]:
    """Returns what processes of a host have loaded, the earliest process first."""
    notes = [decode(RanNote, value) for _, value in _documents(opt_ml, _RAN, MOST_NOTES)]
    return sorted(notes, key=lambda note: note.started_ms)


def _documents(opt_ml: Path, pattern: re.Pattern[str], most: int) -> list[tuple[int, JsonObject]]:
    """Returns numbers and objects of the files whose names are `pattern` with a number: the smallest `most` numbers."""
    with suppress(OSError), nofollow.directory(opt_ml, DIRECTORY, listing=True) as directory:
        numbers = sorted(_numbers(directory, pattern).items())[:most]
        found = [(number, _read(directory, name)) for number, name in numbers]
        return [(number, value) for number, value in found if value is not None]
    return []


def _numbers(directory: int, pattern: re.Pattern[str]) -> dict[int, str]:
    """Returns the names by their numbers. A number is written in one way only: without zeros before it."""
    with os.scandir(directory) as entries:
        names = {entry.name for entry, _ in zip(entries, range(MOST_NAMES), strict=False)}
    return {int(found[1]): name for name in names if (found := pattern.fullmatch(name))}


def _read(directory: int, name: str) -> JsonObject | None:
    try:
        with nofollow.open_at(directory, name) as file:
            value = nofollow.parsed(nofollow.head(file, MOST_BYTES + 1), MOST_BYTES)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
