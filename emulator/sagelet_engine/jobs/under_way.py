"""The record of one job under way, as its supervisor works on it, and what every supervisor works with.

Each change is applied to the newest record and guarded by its version. What others write meanwhile is taken in when
they poke.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sagelet_engine.clock import Clock
from sagelet_engine.compile_cache.lending import Lending
from sagelet_engine.data.objects import ObjectStore
from sagelet_engine.errors import RuntimeUnavailable
from sagelet_engine.failpoints import Failpoint, failpoint
from sagelet_engine.jobs import lifecycle, verdict
from sagelet_engine.jobs.disk_watch import DiskWatch
from sagelet_engine.jobs.image_choice import ImageChoice
from sagelet_engine.jobs.launch import Endpoint
from sagelet_engine.jobs.record import SecondaryStatus, TrainingJob, Verdict
from sagelet_engine.jobs.store import StaleRecord, Store
from sagelet_engine.runtimes.port import Runtime
from sagelet_engine.settings import Settings
from sagelet_engine.telemetry.sink import MetricSink

log = logging.getLogger(__name__)
T = TypeVar("T")

#: Seconds that a runtime's engine may be silent at any time of a job's life.
LEAST_PATIENCE = 60


class Detached(Exception):
    """The server goes down; the job runs on and is adopted by the next one."""


@dataclass(frozen=True)
class Services:
    """What every supervisor works with."""

    settings: Settings
    store: Store
    clock: Clock
    objects: ObjectStore
    metrics: MetricSink
    runtime: Runtime
    images: ImageChoice
    #: Where hosts find sagelet's endpoint.
    endpoint: Endpoint
    cache: Lending
    closing: threading.Event
    disk: DiskWatch


class JobUnderWay:
    """`job` is the newest record known. The methods are for the job's own thread, but for `poke`."""

    def __init__(self, services: Services, job: TrainingJob) -> None:
        self._services = services
        self.job = job
        self._poked = threading.Event()

    def poke(self) -> None:
        """The record was changed from outside: it is to be looked at soon."""
        self._poked.set()

    def wait(self, seconds: float) -> None:
        """Until poked, but no longer than this."""
        self._poked.wait(seconds)

    def reload(self) -> None:
        """Takes in what was changed from outside."""
        if self._poked.is_set():
            self._poked.clear()
            self.job = self._services.store.get_by_id(self.job.id)

    def apply(self, change: Callable[[TrainingJob], TrainingJob]) -> None:
        """Applies a change to the newest record; loads it again when somebody else was quicker.

        Once the server goes down it writes no more: the data directory may be another's by then.
        """
        while True:
            if self._services.closing.is_set():
                raise Detached
            try:
                failpoint(Failpoint.BEFORE_RECORD)
                self.job = self._services.store.update(change(self.job))
                failpoint(Failpoint.AFTER_RECORD)
                return
            except StaleRecord:
                self.job = self._services.store.get_by_id(self.job.id)

    def move(self, to: SecondaryStatus, message: str | None = None, **changes: object) -> None:
        """Enters the next status, unless the job was stopped or interrupted since: then the loop goes on with that."""
        now = self._services.clock.now_ms()

        def change(job: TrainingJob) -> TrainingJob:
            if job.stop_ms is not None or job.secondary in lifecycle.ENDING_ATTEMPT:
                return job
            return lifecycle.advance(job, to, now, message, **changes)

        self.apply(change)

    def conclude(self, outcome: Verdict) -> None:
        """Enters the terminal status. A stop that was asked for wins over a failure on the way."""
        now = self._services.clock.now_ms()

        def change(job: TrainingJob) -> TrainingJob:
            if job.stop_cause is not None:
                return lifecycle.advance(job, lifecycle.STOPPED_AS[job.stop_cause], now)
            message = verdict.with_cause(lifecycle.RULES[outcome.status].message, outcome)
            return lifecycle.advance(job, outcome.status, now, message, failure_reason=outcome.failure_reason)

        self.apply(change)

    def enforce_limits(self) -> None:
        """Stops the job when a limit of its time is over."""
        now = self._services.clock.now_ms()
        cause = lifecycle.overdue(self.job, now)
        if cause is not None:
            self.apply(lambda job: lifecycle.request_stop(job, cause, now))

    def patiently(self, work: Callable[[], T]) -> T:
        """Repeats work while the runtime's engine does not answer, up to MaxRuntimeInSeconds.

        Also when that is over it gets a while: a moment's silence must not cost a stopped job its results. A system's
        clock that jumps ahead, as on a laptop that slept, is no such time: the engine wakes up as late as we do.
        """
        services = self._services
        left = self.job.max_runtime_seconds - self.job.running_ms(services.clock.now_ms()) / 1000
        deadline = time.monotonic() + max(left, LEAST_PATIENCE)
        waiting = False
        while True:
            try:
                return work()
            except RuntimeUnavailable as error:
                if time.monotonic() >= deadline:
                    raise
                if not waiting:
                    log.warning("%s: waiting for the runtime: %s", self.job.key.name, error)
                waiting = True
                if services.closing.wait(1.0):
                    raise Detached from None
