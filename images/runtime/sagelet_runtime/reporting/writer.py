"""Puts a worker's report into its file, now and then and when the process ends."""

import atexit
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sagelet_runtime.reporting.recorder import Recorder
from sagelet_runtime.say import say_once

DIRECTORY = "SAGELET_REPORT_DIR"
#: Seconds between two writings. A process that a signal ends leaves what it had then.
EVERY = 1.0

#: The report, JSON-ready; None: there is nothing to report yet.
Compose = Callable[[], dict[str, Any] | None]


class Writer:
    """`worker-RANK.json`, replaced as a whole: who reads it never sees a half. Failures are said once, not raised."""

    def __init__(self, directory: Path, recorder: Recorder, compose: Compose) -> None:
        self._directory = directory
        self._recorder = recorder
        self._compose = compose
        self._guard = threading.Lock()
        self._written = 0.0

    def install(self) -> None:
        """Writes when the process ends: by itself, with an exception, by os._exit."""
        atexit.register(self.write, finished=True)
        os.register_at_fork(after_in_child=self._forked)
        leave = os._exit

        def _exit(status: int) -> None:
            self.write(finished=True)
            leave(status)

        os._exit = _exit  # type: ignore[assignment]

    def write(self, *, finished: bool = False) -> None:
        recorder = self._recorder
        if recorder.inherited or recorder.pid != os.getpid():
            return
        with self._guard:
            self._written = time.monotonic()
            try:
                document = self._compose()
                if document is not None:
                    self._replace({**_identity(recorder), **document, "finished": finished})
            except Exception as error:
                say_once(f"the compile report could not be written: {error!r}")

    def write_if_due(self) -> None:
        if time.monotonic() - self._written >= EVERY:
            self.write()

    def _replace(self, document: dict[str, Any]) -> None:
        target = self._directory / f"worker-{document['rank']}.json"
        scratch = self._directory / f".{target.name}.{os.getpid()}"
        scratch.write_text(json.dumps(document, separators=(",", ":")))
        scratch.replace(target)

    def _forked(self) -> None:
        self._guard = threading.Lock()
        self._recorder.forked()


class Periodic(threading.Thread):
    """Writes while the script trains, and watches what a blocked script cannot tell."""

    def __init__(self, writer: Writer, look: Callable[[], None]) -> None:
        """`look`: called a few times a second."""
        super().__init__(name="sagelet-report", daemon=True)
        self._writer = writer
        self._look = look

    def run(self) -> None:
        while True:
            time.sleep(EVERY / 4)
            self._look()
            self._writer.write_if_due()


def _identity(recorder: Recorder) -> dict[str, Any]:
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
