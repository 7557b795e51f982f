"""Makes the `ErrorMessage` of a job of several workers: the error of the worker that failed first, and its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from sagelet_runtime.base.failure import ERROR_BUDGET, explained
from sagelet_runtime.base.hub_misses import HubMisses
from sagelet_runtime.base.world import VARIABLE, from_json
from sagelet_runtime.workers import worker_failures
from sagelet_runtime.workers.worker_failures import WorkerFailure

#: torchrun's own report of a worker that was ended by a signal. Such a worker leaves no note.
_TORCHRUN_KILLED = re.compile(r"rank\s*:\s*(\d+) \(local_rank: \d+\)\n\s*exitcode\s*:\s*-(\d+)")


def explain(environ: Mapping[str, str], code: int, lines: Sequence[str], misses: HubMisses | None = None) -> str | None:
    """Returns the text for a host whose launcher ended with `code`, or None if its workers left no error.

    `lines`: the launcher's output.
    """
    if not code or worker_failures.DIRECTORY not in environ:
        return None
    directory = Path(environ[worker_failures.DIRECTORY])
    failure = worker_failures.published(directory)
    if failure is None:
        failure = _killed_under_torchrun(lines) or worker_failures.first(directory, {})
        if failure is None:
            return None
        worker_failures.publish(directory, failure)
    return _text(_name(environ, failure.rank), failure, code, misses or HubMisses())


def _killed_under_torchrun(lines: Sequence[str]) -> WorkerFailure | None:
    report = "\n".join(lines).rpartition("Root Cause (first observed failure):")[2]
    found = _TORCHRUN_KILLED.search(report)
    return worker_failures.killed_by(int(found[1]), -int(found[2])) if found else None


def _name(environ: Mapping[str, str], rank: int) -> str:
    try:
        return from_json(environ[VARIABLE]).name_of(rank)
    except (KeyError, ValueError):
        return f"worker {rank}"


def _text(name: str, failure: WorkerFailure, code: int, misses: HubMisses) -> str:
    """Returns the text in the form of AWS's toolkit: lines joined by a line feed and a space."""
    if not failure.text:
        return f"{name} left with exit code {code}"
    lines = failure.text.split("\n")
    if len(lines) == 1:
        was_killed = failure.killed or failure.text.startswith("killed")
        return f"{name} was {failure.text}" if was_killed else f"{name}: {lines[0]}"
    fitted = explained(lines, misses, ERROR_BUDGET - len(name) - 3)
    return "\n ".join([f"{name}:", *(line.strip() for line in fitted)])
