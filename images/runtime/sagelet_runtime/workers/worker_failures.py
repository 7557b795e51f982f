"""Finds out why a job's workers ended. Each worker leaves a note, and the first note is the job's error.

When one worker fails, the others fail right after it, because it is gone. Another host may notice that before the
failed worker has ended. So a worker notes its exception at once, before its connections close, and the notes are
compared by time. All hosts of a job share one clock.

A launcher may start failed workers again (torchrun's `--max_restarts`). Each attempt has its own notes, and those of
the last attempt count.
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

from sagelet_runtime.base.wire import JsonObject

#: The directory of the notes. Set for every process of a job of several workers.
DIRECTORY = "SAGELET_WORKER_NOTES"
#: The worker's process id. Processes that it starts (a data loader's helpers, other programs) inherit its RANK, but
#: are not workers.
PROCESS = "SAGELET_WORKER_PROCESS"
#: The number of the attempt. Set by torchrun in each worker.
ATTEMPT = "TORCHELASTIC_RESTART_COUNT"
#: A file beside the notes with the first failure of this host. The engine compares those of all hosts.
FIRST = "failure.json"
#: Milliseconds. Peers may see a killed worker's connections close this long before its launcher sees its end.
HEAD_START_MS = 2000
#: Characters kept of a traceback.
_LIMIT = 256 * 1024


@dataclass(frozen=True)
class WorkerFailure:
    rank: int
    #: Milliseconds since the epoch.
    time_ms: int
    #: A traceback or a sentence. Empty for a worker that left with sys.exit.
    text: str = ""
    #: True if a signal ended the worker, unless it was SIGABRT.
    killed: bool = False

    @property
    def order(self) -> int:
        return self.time_ms - (HEAD_START_MS if self.killed else 0)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def attempt_directory(directory: Path, attempt: int) -> Path:
    return directory / f"attempt-{attempt}"


def last_attempt(directory: Path) -> Path:
    """Returns the directory with the notes of the last attempt."""
    found = [name for path in directory.glob("attempt-*") if (name := path.name.removeprefix("attempt-")).isdigit()]
    return attempt_directory(directory, max(map(int, found), default=0))


def note(attempt: Path, failure: WorkerFailure) -> None:
    """Writes a note into the directory of an attempt.

    A later note about the same worker replaces an earlier one only if the earlier one has no text.
    """
    before = _read(_file(attempt, failure.rank))
    if before is not None and (before.text or not failure.text):
        return
    attempt.mkdir(parents=True, exist_ok=True)
    _write(_file(attempt, failure.rank), asdict(failure))


def first(directory: Path, codes: Mapping[int, int]) -> WorkerFailure | None:
    """Returns the note of this host's worker that failed first in the last attempt, or None if no worker failed.

    `codes`: exit codes, by rank, of the workers that failed by themselves. A worker that raised an exception has
    failed, too, whether it has ended or not.
    """
    notes = (_read(file) for file in last_attempt(directory).glob("worker-*.json"))
    failures = [failure for failure in notes if failure is not None and (failure.text or failure.rank in codes)]
    return min(failures, key=lambda failure: failure.order, default=None)


def published(directory: Path) -> WorkerFailure | None:
    """Returns the first failure that sagelet's launcher published on this host, or None if there is none."""
    try:
        found = json.loads((directory / FIRST).read_text())
    except FileNotFoundError:
        return None
    noted = _read(_file(last_attempt(directory), found["rank"]))
    return noted or WorkerFailure(found["rank"], found["time_ms"], killed=found["killed"])


def killed_by(rank: int, code: int) -> WorkerFailure | None:
    """Returns a note about a worker that a signal ended, or None if no signal ended it."""
    if code >= 0:
        return None
    name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
    # C++ ends with SIGABRT when a peer is gone. Other signals come from outside, or from a fault of the worker itself.
    return WorkerFailure(rank, now_ms(), f"killed by {name}", killed=code != -signal.SIGABRT)


def publish(directory: Path, failure: WorkerFailure) -> None:
    """Writes a short file that tells the engine when this host's first worker failed."""
    note(last_attempt(directory), failure)
    _write(directory / FIRST, {"rank": failure.rank, "time_ms": failure.time_ms, "killed": failure.killed})


def install(environ: MutableMapping[str, str]) -> None:
    """Has a worker note the exception that ends it, or the time of any other end. Call it before the script.

    Does nothing in a process that a worker starts: its environment has the worker's process id.
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
            _try_to_note(directory, WorkerFailure(int(rank), now_ms(), text[-_LIMIT:]))
        hook(kind, error, trace)

    def leaving() -> None:
        if os.getpid() == owner:
            _try_to_note(directory, WorkerFailure(int(rank), now_ms()))

    # The directory outdates the notes of earlier attempts. If the disk fails here, it fails at the note, too, and the
    # note says so.
    with contextlib.suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
    sys.excepthook = noting
    atexit.register(leaving)


def _try_to_note(directory: Path, failure: WorkerFailure) -> None:
    """Writes a note. Only prints if that fails, because a full disk must not hide the script's own error."""
    try:
        note(directory, failure)
    except OSError as error:
        print(f"sagelet: worker {failure.rank} could not note its end: {error}", file=sys.stderr)


def _read(file: Path) -> WorkerFailure | None:
    try:
        return WorkerFailure(**json.loads(file.read_text()))
    except FileNotFoundError:
        return None


def _file(directory: Path, rank: int) -> Path:
    return directory / f"worker-{rank}.json"


def _write(file: Path, content: JsonObject) -> None:
    temporary = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(content))
    temporary.replace(file)
