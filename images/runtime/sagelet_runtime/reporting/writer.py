"""Writes a worker's report into its file from time to time and when the process ends."""

import atexit
import itertools
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Optional

from sagelet_runtime.base import training_key
from sagelet_runtime.base.say import say_once
from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.reporting import idling, ran
from sagelet_runtime.reporting.claim import Claim
from sagelet_runtime.reporting.recorder import Recorder

DIRECTORY = idling.DIRECTORY
#: Seconds between two writes. A process that a signal ends leaves its last one.
EVERY = 1.0
#: Seconds, at most, that a process waits at its end for its own writing thread.
TIMEOUT_S = 10.0

#: The report, JSON-ready, or None if there is nothing to report yet.
Compose = Callable[[], Optional[JsonObject]]


class Writer:
    """Writes `worker-RANK.json`, always as a whole, so readers never see half of it.

    Failures are printed once and not raised.
    """

    def __init__(self, directory: Path, recorder: Recorder, compose: Compose) -> None:
        self._directory = directory
        self._recorder = recorder
        self._compose = compose
        self._claim = Claim(directory)
        # Reentrant: a signal's handler may end the process while the thread that it interrupted is writing.
        self._guard = threading.RLock()
        self._drafts = itertools.count()
        self._written = 0.0
        #: Before the script runs, which may write scripts itself.
        self._training = training_key.of_process(os.environ) if _number("RANK", 0) == 0 else ""
        #: True once the final report is written.
        self._ended = False

    def install(self) -> None:
        """Writes when the process ends: by itself, with an exception or by os._exit."""
        atexit.register(self.write, finished=True)
        os.register_at_fork(after_in_child=self._forked)
        leave = os._exit

        def _exit(status: int) -> None:
            try:
                self.write(finished=True)
                ran.write()
            finally:
                leave(status)

        os._exit = _exit  # type: ignore[assignment]

    def write(self, *, finished: bool = False) -> None:
        recorder = self._recorder
        if recorder.inherited or recorder.pid != os.getpid():
            return
        if not self._guard.acquire(timeout=TIMEOUT_S):
            return
        try:
            self._written = time.monotonic()
            if finished:
                recorder.steps.intervals.finish()
            document = self._compose()
            if document is not None:
                self._replace({**_identity(recorder), "training": self._training, **document, "finished": finished})
        except Exception as error:
            say_once(f"the compile report could not be written: {error!r}")
        finally:
            self._guard.release()

    def write_if_due(self) -> None:
        if time.monotonic() - self._written >= EVERY:
            self.write()

    def _replace(self, document: JsonObject) -> None:
        target = self._directory / f"worker-{document['rank']}.json"
        if not self._claim.may_write(target.name, document):
            return
        draft = self._directory / f".{target.name}.{os.getpid()}.{next(self._drafts)}"
        try:
            draft.write_text(json.dumps(document, separators=(",", ":")))
            self._ended |= document["finished"]
            if document["finished"] or not self._ended:
                draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)

    def _forked(self) -> None:
        self._guard = threading.RLock()
        self._ended = False
        self._claim.forked()
        self._recorder.forked()


class Periodic(threading.Thread):
    """Writes while the script trains, and watches for compilations, during which the script is blocked."""

    def __init__(self, writer: Writer, look: Callable[[], None]) -> None:
        """`look` is called before each write that may be due, every EVERY / 4 seconds."""
        super().__init__(name="sagelet-report", daemon=True)
        self._writer = writer
        self._look = look

    def run(self) -> None:
        while True:
            time.sleep(EVERY / 4)
            self._look()
            self._writer.write_if_due()


def _identity(recorder: Recorder) -> JsonObject:
    return {
        "version": 1,
        "host": os.environ.get("SM_CURRENT_HOST", os.environ.get("CURRENT_HOST", "")),
        "rank": _number("RANK", 0),
        "local_rank": _number("LOCAL_RANK", 0),
        "world_size": _number("WORLD_SIZE", 1),
        "pid": recorder.pid,
        "started_ms": recorder.started_ms,
        "updated_ms": time.time_ns() // 1_000_000,
        "memory": {},
    }


def _number(name: str, otherwise: int) -> int:
    try:
        return int(os.environ.get(name, otherwise))
    except ValueError:
        return otherwise
