"""The thread that removes what is too old, or too much: log events, jobs' directories, jobs."""

import logging
import threading
import time
from collections.abc import Iterable

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.retention.gc import Collector, Keep
from sagelet_engine.retention.logs import LogGroupActions

log = logging.getLogger(__name__)

#: Seconds between two looks while no job ends. Log events that are too old are not shown in the meantime.
LOOK_SECONDS = 3600.0
#: Seconds between two looks while jobs end: a look costs some milliseconds per thousand ended jobs.
PAUSE_SECONDS = 30.0


class RetentionThread(threading.Thread):
    """Looks at its start, after jobs have ended, and every LOOK_SECONDS, until the engine closes.

    It deletes at once what was moved away (`Leftovers`), since its space may be needed.
    """

    def __init__(
        self,
        logs: LogGroupActions,
        collector: Collector,
        keep: Keep,
        closing: threading.Event,
        woken: threading.Event,
    ) -> None:
        super().__init__(name="retention", daemon=True)
        self._logs = logs
        self._collector = collector
        self._keep = keep
        self._closing = closing
        #: Shared with those who move files away.
        self._woken = woken
        self._job_ended = False
        #: When it looked last, by the monotonic clock.
        self._looked: float | None = None

    def wake(self) -> None:
        """Says that a job has ended, or that the engine closes."""
        self._job_ended = True
        self._woken.set()

    def run(self) -> None:
        while not self._closing.is_set():
            if self._left() <= 0:
                self._looked, self._job_ended = time.monotonic(), False
                self._look()
            else:
                _warn(self._collector.clear())
            self._woken.wait(max(0.0, self._left()))
            # After this it looks whether the engine closes. So nobody wakes it in vain.
            self._woken.clear()

    def _left(self) -> float:
        """Returns the seconds until the next look."""
        if self._looked is None:
            return 0.0
        return self._looked + (PAUSE_SECONDS if self._job_ended else LOOK_SECONDS) - time.monotonic()

    def _look(self) -> None:
        try:
            self._logs.expire()
            done = self._collector.collect(self._keep)
        except (OSError, StoreUnavailable) as error:
            log.warning("old files and jobs could not be removed now: %s", error)
            return
        _warn(done.stays)
        if done.directories or done.jobs:
            log.info("%d directories of ended jobs and %d jobs are gone", done.directories, done.jobs)
        if done.tuning_jobs:
            log.info("%d tuning jobs are gone", done.tuning_jobs)
        if done.executions:
            log.info("%d executions of pipelines are gone", done.executions)
        if done.environments:
            log.info("packages of %d requirements files are gone", done.environments)


def _warn(stays: Iterable[str]) -> None:
    for message in stays:
        log.warning("%s", message)
