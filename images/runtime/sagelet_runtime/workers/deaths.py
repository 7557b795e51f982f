"""Why a job's workers ended: each leaves a note, and the first of them is the job's error.

When one worker fails, the others fail right after it, because it is gone; and on another host that may be seen before
the failed one has ended. So a worker notes its exception at once, before its connections close, and the notes are
compared by time. All hosts of a job share one clock.

A launcher may start failed workers again (torchrun's `--max_restarts`): each attempt's notes are by themselves, and
those of the last one count.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

#: The directory of the notes; set for every process of a job of several workers.
DIRECTORY = "SAGELET_WORKER_NOTES"
#: Process id of the worker: what it starts (a data loader's helpers, other programs) has its RANK and is no worker.
PROCESS = "SAGELET_WORKER_PROCESS"
#: Set by torchrun in each worker.
ATTEMPT = "TORCHELASTIC_RESTART_COUNT"
#: Beside the notes: the first failure of this host, for the engine, which compares the hosts'.
FIRST = "failure.json"
#: Peers see a killed worker's connections close before its launcher sees its end. Milliseconds.
HEAD_START_MS = 2000
#: Characters of a traceback that are kept.
_LIMIT = 256 * 1024


@dataclass(frozen=True)
class Death:
    rank: int
    #: Since the epoch.
    time_ms: int
    #: A traceback, or a sentence; empty for a worker that left with sys.exit.
    text: str = ""
    #: Killed from outside of it.
    killed: bool = False

    @property
    def order(self) -> int:
        return self.time_ms - (HEAD_START_MS if self.killed else 0)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def attempt_directory(directory: Path, attempt: int) -> Path:
    return directory / f"attempt-{attempt}"


def last_attempt(directory: Path) -> Path:
    """Where the notes of the workers are that were started last."""
    found = [name for path in directory.glob("attempt-*") if (name := path.name.removeprefix("attempt-")).isdigit()]
    return attempt_directory(directory, max(map(int, found), default=0))


def note(attempt: Path, death: Death) -> None:
    """Into the directory of an attempt.

    A later note about the same worker takes the place of the first only if that had nothing to say.
    """
    before = _read(_file(attempt, death.rank))
    if before is not None and (before.text or not death.text):
        return
    attempt.mkdir(parents=True, exist_ok=True)
    _write(_file(attempt, death.rank), asdict(death))


def first(directory: Path, codes: Mapping[int, int]) -> Death | None:
    """The first of this host's workers to fail, of the last attempt.

    `codes`: exit codes by rank of those that failed by themselves; a worker that raised an exception has failed, too,
    whether it has ended or not.
    """
    notes = (_read(file) for file in last_attempt(directory).glob("worker-*.json"))
    deaths = [death for death in notes if death is not None and (death.text or death.rank in codes)]
    return min(deaths, key=lambda death: death.order, default=None)


def published(directory: Path) -> Death | None:
    """What a launcher of ours has found on this host."""
    try:
        found = json.loads((directory / FIRST).read_text())
    except FileNotFoundError:
        return None
    noted = _read(_file(last_attempt(directory), found["rank"]))
    return noted or Death(found["rank"], found["time_ms"], killed=found["killed"])


def killed_by(rank: int, code: int) -> Death | None:
    """The note about a worker that a signal ended."""
    if code >= 0:
        return None
    name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
    # SIGABRT is what C++ ends with when a peer is gone; the others come from outside, or from a fault of its own.
    return Death(rank, now_ms(), f"killed by {name}", killed=code != -signal.SIGABRT)


def publish(directory: Path, death: Death) -> None:
    """Tells the engine, in few bytes, when this host's first worker failed."""
    note(last_attempt(directory), death)
    _write(directory / FIRST, {"rank": death.rank, "time_ms": death.time_ms, "killed": death.killed})


def install(environ: MutableMapping[str, str]) -> None:
    """In a worker, before its script: notes the exception that ends it, and when it left otherwise.

    Does nothing in what a worker starts, which finds the worker's process id in its environment.
    """
    owner, rank, attempt = os.getpid(), environ.get("RANK", ""), environ.get(ATTEMPT, "0")
    if DIRECTORY not in environ or not rank.isdigit() or environ.get(PROCESS, str(owner)) != str(owner):
        return
    environ[PROCESS] = str(owner)
    directory = attempt_directory(Path(environ[DIRECTORY]), int(attempt) if attempt.isdigit() else 0)
    hook = sys.excepthook

    def noting(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() == owner:
            text = "".join(traceback.format_exception(kind, error, trace)).rstrip("\n")
            _try_to_note(directory, Death(int(rank), now_ms(), text[-_LIMIT:]))
        hook(kind, error, trace)

    def leaving() -> None:
        if os.getpid() == owner:
            _try_to_note(directory, Death(int(rank), now_ms()))

    # That this attempt was begun outdates the notes of those before it. A disk that fails here fails at the note, too,
    # which says so.
    with contextlib.suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
    sys.excepthook = noting
    atexit.register(leaving)


def _try_to_note(directory: Path, death: Death) -> None:
    """A full disk must not hide the script's own error."""
    try:
        note(directory, death)
    except OSError as error:
        print(f"sagelet: worker {death.rank} could not note its end: {error}", file=sys.stderr)


def _read(file: Path) -> Death | None:
    try:
        return Death(**json.loads(file.read_text()))
    except FileNotFoundError:
        return None


def _file(directory: Path, rank: int) -> Path:
    return directory / f"worker-{rank}.json"


def _write(file: Path, content: dict[str, Any]) -> None:
    temporary = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(content))
    temporary.replace(file)
