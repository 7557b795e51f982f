"""Workers' reports out of a host's /opt/ml, which the container may fill with anything.

Directories and files are opened one by one without following links, only ordinary files are read, and no more than
can be a report. What is none is left out.
"""

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sagelet_engine.telemetry.compiler.decoding import decode
from sagelet_engine.telemetry.compiler.worker import WorkerReport

#: Below /opt/ml; SAGELET_REPORT_DIR in the container.
DIRECTORY = ("output", "sagelet")
#: Workers of a host: no instance type has more GPUs than 16.
MOST_WORKERS = 64
#: Names that are looked at.
MOST_NAMES = 4096
#: A report with all its lists full has 200 KB.
MOST_BYTES = 1 << 20

_NAME = re.compile(r"worker-([0-9]{1,5})\.json", re.ASCII)
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: A pipe that somebody put there must not hold us up.
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def workers_of(opt_ml: Path, host: str) -> list[WorkerReport]:
    """The reports of a host's workers, by rank; none where there are none (yet)."""
    with suppress(OSError), _directory(opt_ml) as directory:
        ranks = sorted(_ranks(directory))[:MOST_WORKERS]
        found = [(rank, _read(directory, f"worker-{rank}.json")) for rank in ranks]
        return [replace(report, host=host, rank=rank) for rank, report in found if report is not None]
    return []


@contextmanager
def _directory(opt_ml: Path) -> Iterator[int]:
    opened = os.open(opt_ml, _OPEN_DIRECTORY)
    try:
        for name in DIRECTORY:
            below = os.open(name, _OPEN_DIRECTORY, dir_fd=opened)
            os.close(opened)
            opened = below
        yield opened
    finally:
        os.close(opened)


def _ranks(directory: int) -> set[int]:
    with os.scandir(directory) as entries:
        names = {entry.name for entry, _ in zip(entries, range(MOST_NAMES), strict=False)}
    ranks = {int(found[1]) for name in names if (found := _NAME.fullmatch(name))}
    return {rank for rank in ranks if f"worker-{rank}.json" in names}


def _read(directory: int, name: str) -> WorkerReport | None:
    try:
        opened = os.open(name, _OPEN_FILE, dir_fd=directory)
    except OSError:
        return None
    with open(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return None
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return decode(WorkerReport, value) if isinstance(value, dict) else None
