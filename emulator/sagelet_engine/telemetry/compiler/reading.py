"""Reads workers' reports from a host's /opt/ml, which the container may fill with anything.

It follows no link, and reads ordinary files only, up to the size of a report. A file that is not a report is left out.
"""

import os
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sagelet_engine.base import nofollow
from sagelet_engine.telemetry.compiler.decoding import decode
from sagelet_engine.telemetry.compiler.worker import WorkerReport

#: Below /opt/ml; SAGELET_REPORT_DIR in the container.
DIRECTORY = ("output", "sagelet")
#: The most workers of a host. No instance type has more than 16 GPUs.
MOST_WORKERS = 64
#: The most names that are looked at.
MOST_NAMES = 4096
#: The most bytes of a report. One with all its lists full has 200 KB.
MOST_BYTES = 1 << 20

_NAME = re.compile(r"worker-([0-9]{1,5})\.json", re.ASCII)


def workers_of(opt_ml: Path, host: str) -> list[WorkerReport]:
    """Returns the reports of a host's workers, by rank. Empty if there are none (yet)."""
    with suppress(OSError), nofollow.directory(opt_ml, DIRECTORY, listing=True) as directory:
        ranks = sorted(_ranks(directory))[:MOST_WORKERS]
        found = [(rank, _read(directory, f"worker-{rank}.json")) for rank in ranks]
        return [replace(report, host=host, rank=rank) for rank, report in found if report is not None]
    return []


def _ranks(directory: int) -> set[int]:
    with os.scandir(directory) as entries:
        names = {entry.name for entry, _ in zip(entries, range(MOST_NAMES), strict=False)}
    ranks = {int(found[1]) for name in names if (found := _NAME.fullmatch(name))}
    return {rank for rank in ranks if f"worker-{rank}.json" in names}


def _read(directory: int, name: str) -> WorkerReport | None:
    try:
        with nofollow.open_at(directory, name) as file:
            value = nofollow.parsed(nofollow.head(file, MOST_BYTES + 1), MOST_BYTES)
    except (OSError, ValueError):
        return None
    return decode(WorkerReport, value) if isinstance(value, dict) else None
