"""How fast trainings were, natively and by each compiler: entries `KEY.speeds` of the compile cache.

A worker makes the key, of its scripts, the hyperparameters that change a step, and its machine (images/runtime,
base/training_key.py). The figures are those of its report. A job with SAGELET_COMPILER=auto gets its account's tables,
and takes what is soonest by them (images/runtime, launch/known_speeds.py). What a job reports is its own word: a false
figure only misleads jobs of the same account.
"""

import json
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sagelet_engine.base.number_text import number_in
from sagelet_engine.compile_cache.host_copies import PLACE
from sagelet_engine.compile_cache.store import CacheStore
from sagelet_engine.data.compilation import AUTO, chosen_compiler
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.model.job import SecondaryStatus
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.telemetry.compiler.decoding import decode
from sagelet_engine.telemetry.compiler.report import CompilerReport, OtherCompiler
from sagelet_engine.telemetry.compiler.text import by_compiler, duration, known

SUFFIX = ".speeds"
NATIVE = "native"
XLA = "xla"
#: Settings of XLA in a job's Environment: with other settings its steps take other times.
SETTINGS = "SAGELET_XLA_"
#: The most runs of a table, and letters of a name as JSON: a container reads 16 KiB of it.
RUNS, LETTERS = 16, 200
#: In place of an image: native and compiled jobs name different ones. The key has the versions of Python and torch.
IMAGE = "-"
_KEY = re.compile(r"[0-9a-f]{64}")
#: A training of fewer steps says little about the next one's.
FEWEST_STEPS = 5
#: The most tables that a host gets: those that were used last.
MOST = 1000
#: Hyperparameters that say how long a training is.
LENGTHS = ("max_steps", "num_train_epochs", "epochs", "num_epochs", "max_epochs", "steps")
#: Entries of one server are read, changed and replaced by one thread at a time.
_guard = threading.Lock()


@dataclass(frozen=True)
class Speed:
    """The last run of a training, natively or by one compiler."""

    job: str = ""
    ended_ms: int = 0
    steps: int = 0
    step_seconds: float = 0.0
    #: All that was not a step at that speed, from the start of the worker's Python: imports, compiling, evaluations.
    other_seconds: float = 0.0
    compile_seconds: float = 0.0
    #: The host's part of a step: the script's own time from one step's end to the next.
    dispatch_seconds: float = 0.0
    #: Those of LENGTHS that the job has.
    lengths: dict[str, float] = field(default_factory=dict)


def keep(store: CacheStore, job: TrainingJob, report: CompilerReport, now_ms: int) -> None:
    """Notes how fast a completed job was. Raises OSError."""
    key, name, speed = _key(report), _name(job, report), _speed(job, report, now_ms)
    completed = job.verdict is not None and job.verdict.status is SecondaryStatus.COMPLETED
    if not store.limit or not completed or not key or speed is None or len(json.dumps(name)) > LETTERS:
        return
    with _guard:
        table = _table(store, job, key) | {name: speed}
        newest = sorted(table, key=lambda entry: table[entry].ended_ms)[-RUNS:]
        body = json.dumps({entry: asdict(table[entry]) for entry in newest}).encode()
        store.replace(job.key.account, IMAGE, f"{key}{SUFFIX}", body, now_ms)


def others(store: CacheStore, job: TrainingJob, report: CompilerReport) -> tuple[OtherCompiler, ...]:
    """Returns what the job's training would have taken otherwise, as far as earlier runs tell."""
    key, own = _key(report), _name(job, report)
    if not key:
        return ()
    steps = report.total.steps
    return tuple(
        OtherCompiler(
            name,
            speed.job,
            speed.step_seconds,
            speed.compile_seconds,
            speed.dispatch_seconds,
            speed.other_seconds + steps * speed.step_seconds,
        )
        for name, speed in sorted(_table(store, job, key).items())
        if name != own
    )


def entry_name(compiler: str, environment: Mapping[str, str]) -> str:
    """Returns the name of a run in its training's table: the compiler and, for XLA, the job's settings of it."""
    settings = sorted(f"{name}={value}" for name, value in environment.items() if name.startswith(SETTINGS))
    return " ".join([compiler, *(settings if compiler == XLA else ())])


def _name(job: TrainingJob, report: CompilerReport) -> str:
    return entry_name(report.compiler or NATIVE, job.spec.environment)


def line(report: CompilerReport) -> str:
    """Returns the line for the log of a job that asked for the compiler. Empty if no other run is known."""
    total = report.total
    if not report.compiled and not report.reason:
        return ""
    told = [
        f"{by_compiler(other.compiler)} {duration(other.seconds)}, {known(other.step_seconds)} a step ({other.job})"
        for other in report.others
    ]
    if not told or not total.steady_step_seconds:
        return ""
    own = f"{duration(_seconds(report))} {by_compiler(report.compiler or NATIVE)}, from the start of Python"
    return f"sagelet: {total.steps:,} steps took {own}; by earlier runs they take: {'; '.join(told)}"


def lay_out(store: CacheStore, job: TrainingJob, directories: JobDirectories) -> None:
    """Copies the account's tables for the job's image to a host that is to choose by them. Raises OSError."""
    if chosen_compiler(job.spec) != AUTO:
        return
    place = directories.host(job.hosts[0]).opt_ml / PLACE
    if not place.is_dir():
        return
    source = store.directory(job.key.account, IMAGE)
    names = sorted(source.glob(f"*{SUFFIX}"), key=_used, reverse=True)[:MOST]
    for name in (path.name for path in names):
        body = store.body(job.key.account, IMAGE, name)
        if body is not None:
            (place / name).write_bytes(body)


def _used(path: Path) -> float:
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:  # Dropped since it was listed.
        return 0.0


def _key(report: CompilerReport) -> str:
    key = next((worker.training for worker in report.workers if worker.rank == 0), "")
    return key if _KEY.fullmatch(key) else ""


def _table(store: CacheStore, job: TrainingJob, key: str) -> dict[str, Speed]:
    body = store.body(job.key.account, IMAGE, f"{key}{SUFFIX}")
    content = json.loads(body) if body else {}
    return {str(name): decode(Speed, one) for name, one in content.items()}


def _seconds(report: CompilerReport) -> float:
    """Returns the seconds from the start of the slowest worker's Python to its last step."""
    return max((span.start_seconds + span.seconds for one in report.workers for span in one.timeline), default=0.0)


def _speed(job: TrainingJob, report: CompilerReport, now_ms: int) -> Speed | None:
    """Returns the figures of a run. None if it does not know the time of a step."""
    total = report.total
    if total.steps < FEWEST_STEPS or not total.steady_step_seconds:
        return None
    lengths = {
        name: number
        for name in LENGTHS
        if (number := number_in(job.spec.hyperparameters.get(name, "").strip('"'))) is not None
    }
    return Speed(
        job=job.key.name,
        ended_ms=now_ms,
        steps=total.steps,
        step_seconds=total.steady_step_seconds,
        other_seconds=max(0.0, _seconds(report) - total.steps * total.steady_step_seconds),
        compile_seconds=total.compile_seconds,
        dispatch_seconds=total.dispatch_seconds,
        lengths=lengths,
    )
