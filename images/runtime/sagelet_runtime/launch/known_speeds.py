"""SAGELET_COMPILER=auto: takes what finished the same training soonest, by the figures of its earlier runs.

The engine lays a table into the host's compile cache (emulator, reports/known_speeds.py): seconds of a step and of all
else, natively and by each compiler. A compiler that this training has never run with has no figures and is not taken.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sagelet_runtime.inductor.choice import INDUCTOR, XLA

NATIVE = "native"
SUFFIX = ".speeds"
#: Bytes of a table, at most.
LIMIT = 16_384
#: Settings of XLA in a job's Environment: with other settings its steps take other times.
SETTINGS = "SAGELET_XLA_"
#: How people call them.
NAMES = {NATIVE: "natively", XLA: "by XLA", INDUCTOR: "by Inductor"}
#: Names of torch_xla that its stand-in for Inductor refuses.
ONLY_XLA = re.compile(rb"\b(xla_sharding|mark_sharding|use_spmd|all_to_all|XlaFullyShardedDataParallel|spmd_fsdp)\b")


@dataclass(frozen=True)
class Run:
    """The last run of a training, natively or by a compiler."""

    step_seconds: float
    #: All that was not a step at that speed: imports, compiling, evaluations.
    other_seconds: float
    steps: int
    #: Hyperparameters that say how long it trains, with their numbers.
    lengths: Mapping[str, float]
    ended_ms: int


@dataclass(frozen=True)
class Choice:
    #: NATIVE, XLA or INDUCTOR.
    compiler: str
    reason: str


def entry_name(compiler: str, environ: Mapping[str, str]) -> str:
    """Returns the name of a run in its training's table: the compiler and, for XLA, the job's settings of it."""
    settings = sorted(f"{name}={value}" for name, value in environ.items() if name.startswith(SETTINGS))
    return " ".join([compiler, *(settings if compiler == XLA else ())])


def read(cache: Path, key: str, environ: Mapping[str, str]) -> dict[str, Run]:
    """Returns the runs of a training by compiler, those of XLA with this job's settings. Empty if none is known."""
    try:
        with (cache / f"{key}{SUFFIX}").open(encoding="utf-8") as file:
            table: Any = json.loads(file.read(LIMIT))
        entries = {name: entry_name(name, environ) for name in NAMES}
        return {name: _run(table[entry]) for name, entry in entries.items() if entry in table}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _run(entry: Mapping[str, Any]) -> Run:
    """Raises KeyError, TypeError, ValueError."""
    lengths = {str(name): _finite(value) for name, value in dict(entry["lengths"]).items()}
    step, other, steps, ended_ms = (
        _finite(entry[name]) for name in ("step_seconds", "other_seconds", "steps", "ended_ms")
    )
    return Run(step, other, int(steps), lengths, int(ended_ms))


def choose(runs: Mapping[str, Run], hyperparameters: Mapping[str, Any], scripts: Iterable[bytes], gpus: int) -> Choice:
    """Returns what trains this job, and why. The start is XLA on CPUs and Inductor on GPUs, as measured there.

    Nothing else is taken before the start has run once: its figures are what the others are compared with.
    """
    if any(ONLY_XLA.search(text) for text in scripts):
        return Choice(XLA, "the scripts name what only torch_xla has")
    start = INDUCTOR if gpus else XLA
    if start not in runs:
        return Choice(start, f"this training has not run {NAMES[start]} on this machine yet")
    steps = _steps(runs, hyperparameters)
    seconds = {name: run.other_seconds + steps * run.step_seconds for name, run in runs.items()}
    best = min(seconds, key=lambda name: seconds[name])
    told = ", ".join(f"{NAMES[name]} {seconds[name]:.0f} s" for name in sorted(seconds, key=lambda name: seconds[name]))
    return Choice(best, f"{steps:,} steps take, by its earlier runs: {told}")


def _steps(runs: Mapping[str, Run], hyperparameters: Mapping[str, Any]) -> int:
    """Returns how many steps the job will do: those of the last run, times the ratio of a length that both name."""
    last = max(runs.values(), key=lambda run: run.ended_ms)
    for name, before in last.lengths.items():
        now = _number(hyperparameters.get(name))
        if before > 0 and now is not None and now > 0:
            return max(1, round(last.steps * min(now / before, 1e6)))
    return last.steps


def _number(value: object) -> float | None:
    try:
        return _finite(value)
    except ValueError:
        return None


def _finite(value: object) -> float:
    """Raises ValueError."""
    number = float(str(value))
    if not math.isfinite(number):
        raise ValueError(f"{value} is not a finite number")
    return number
