"""Starts and ends a server that outlives its terminal, for `up --detach` and `down`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sagelet_engine.base.errors import DataDirectoryInUse, SageletError
from sagelet_engine.base.keys import make_private
from sagelet_engine.state.notice import Notice, read_notice
from sagelet_engine.state.owner import owner_of

LOG = "server.log"
#: Set for a server that is started like this.
DETACHED = "SAGELET_DETACHED"
#: A word that only the line contains by which a server says that it is ready.
READY = "ready:"
#: In bytes. At the next start, a longer log is replaced by a new one, and kept in the place of the one before.
LONG_LOG = 10_000_000
#: Seconds that a server may take to release its jobs.
STOP_SECONDS = 60
_EVERY = 0.05


class NotStarted(SageletError):
    """The server ended before it was ready."""


class NotStopped(SageletError):
    """The server does not end, or belongs to another user."""


@dataclass(frozen=True)
class Started:
    notice: Notice
    log: Path
    #: What the server has printed since it was started.
    output: str


def start_detached(data: Path, words: Sequence[str]) -> Started:
    """Starts `sagelet WORDS`, a server on `data`, in a session of its own, and returns when it is ready.

    Raises NotStarted with the server's output, and DataDirectoryInUse.
    """
    if (notice := read_notice(data)) is not None:
        raise DataDirectoryInUse(f"A server runs on {data}: {notice.endpoint} (process {notice.pid})")
    make_private(data)
    log = _open_log(data)
    before = log.stat().st_size
    # The same program as this one: `sys.argv[1:]` are its last words.
    program = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    with log.open("ab") as output:
        server = subprocess.Popen(
            [sys.executable, *program, *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A session of its own, so that neither Ctrl-C here nor the end of the terminal reaches it.
            start_new_session=True,
            env={**os.environ, DETACHED: "1"},
        )
    try:
        while (notice := _notice(data, server.pid)) is None or READY not in _said(log, before):
            if server.poll() is not None:
                raise NotStarted(_said(log, before).removeprefix("Error: ") or f"The server ended; see {log}")
            time.sleep(_EVERY)
    except KeyboardInterrupt:
        server.terminate()
        raise
    return Started(notice, log, _said(log, before))


def stop_server(data: Path, seconds: float = STOP_SECONDS) -> Notice | None:
    """Ends the `sagelet up` that runs on a data directory, and returns when it has released its jobs. None if none
    runs.

    Raises NotStopped.
    """
    owner, notice = owner_of(data), read_notice(data)
    if owner is None:
        return None
    if notice is None:
        raise NotStopped(
            f"Process {owner} uses {data}, and is not a `sagelet up` that is ready: wait until it is, or end that "
            "program"
        )
    try:
        os.kill(notice.pid, signal.SIGTERM)
    except PermissionError as error:
        raise NotStopped(f"Process {notice.pid}, which serves {data}, is another user's: ask them") from error
    except ProcessLookupError:
        return notice
    if not _until(lambda: owner_of(data) != notice.pid, seconds):
        raise NotStopped(
            f"Process {notice.pid} has not ended within {seconds:.0f} s. `kill -9 {notice.pid}` ends it; "
            "no job is lost by that"
        )
    return notice


def _notice(data: Path, pid: int) -> Notice | None:
    """Returns the notice of the server `pid`, or None while there is none."""
    notice = read_notice(data)
    return notice if notice is not None and notice.pid == pid else None


def _open_log(data: Path) -> Path:
    log = data / LOG
    if log.is_file() and log.stat().st_size > LONG_LOG:
        log.replace(data / f"{LOG}.1")
    os.close(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    return log


def _said(log: Path, since: int) -> str:
    with log.open("rb") as file:
        file.seek(since)
        return file.read().decode(errors="replace")


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_EVERY)
    return True
