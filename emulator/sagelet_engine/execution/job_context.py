"""The record of one running job, as its supervisor works on it, and the services that all supervisors share.

Each change is applied to the newest record and guarded by the record's version. Whoever else changes the record
notifies the supervisor, which then loads it again.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.base.keys import ca_file
from sagelet_engine.compile_cache.host_copies import HostCopies
from sagelet_engine.execution.disk_watch import DiskWatch
from sagelet_engine.execution.job_notes import JobNotes
from sagelet_engine.execution.launch import Endpoint
from sagelet_engine.model import lifecycle, verdict
from sagelet_engine.model.job import Job, SecondaryStatus, Verdict
from sagelet_engine.model.objects import ObjectStore
from sagelet_engine.model.runtime import Runtime
from sagelet_engine.model.sinks import MetricSink
from sagelet_engine.scheduling.image_choice import ImageChoice
from sagelet_engine.settings import Settings
from sagelet_engine.store.jobs import StaleRecord, Store

log = logging.getLogger(__name__)
T = TypeVar("T")

#: Seconds that a supervisor always waits for a silent runtime engine, even after MaxRuntimeInSeconds.
MIN_TIMEOUT_S = 60


class Detached(Exception):
    """The server is shutting down. The job runs on, and the next server adopts it."""


@dataclass(frozen=True)
class SupervisorDeps:
    """The services that all supervisors share."""

    settings: Settings
    store: Store
    clock: Clock
    objects: ObjectStore
    metrics: MetricSink
    runtime: Runtime
    images: ImageChoice
    #: The address of sagelet's endpoint for hosts.
    endpoint: Endpoint
    cache: HostCopies
    closing: threading.Event
    disk: DiskWatch

    @property
    def authority(self) -> Path | None:
        """The certificate authority of a server with --tls. None without --tls."""
        return ca_file(self.settings.data) if self.endpoint.tls else None


class JobContext:
    """The state of one supervisor. `job` is the newest known record. Other threads may call `notify` only."""

    def __init__(self, services: SupervisorDeps, job: Job) -> None:
        self._services = services
        self.job = job
        self.notes = JobNotes()
        self._poked = threading.Event()

    def notify(self) -> None:
        """Signals that another thread changed the record, so that the job's own thread reloads it soon."""
        self._poked.set()

    def wait(self, seconds: float) -> None:
        """Waits until `notify` is called, at most `seconds`."""
        self._poked.wait(seconds)

    def reload(self) -> None:
        """Loads the record again if `notify` was called."""
        if self._poked.is_set():
            self._poked.clear()
            self.job = self._services.store.get_by_id(self.job.id)

    def apply(self, change: Callable[[Job], Job]) -> None:
        """Applies a change to the newest record. Loads the record again if another thread changed it first.

        Raises Detached once the server shuts down: the data directory may belong to another server by then.
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
        """Enters the status `to`. Does nothing if the job was stopped or interrupted meanwhile.

        The supervisor's loop then handles the stop or the interruption.
        """
        now = self._services.clock.now_ms()

        def change(job: Job) -> Job:
            if job.stop_ms is not None or job.secondary in lifecycle.ENDING_ATTEMPT:
                return job
            return lifecycle.advance(job, to, now, message, **changes)

        self.apply(change)

    def conclude(self, outcome: Verdict) -> None:
        """Enters the terminal status. If a stop was requested, it wins over a failure that came after it."""
        now = self._services.clock.now_ms()

        def change(job: Job) -> Job:
            if job.stop_cause is not None:
                return lifecycle.advance(job, lifecycle.STOPPED_AS[job.stop_cause], now)
            message = verdict.with_cause(lifecycle.message_of(outcome.status, job.key.kind), outcome)
            return lifecycle.advance(job, outcome.status, now, message, failure_reason=outcome.failure_reason)

        self.apply(change)

    def enforce_limits(self) -> None:
        """Stops the job if one of its time limits is over."""
        now = self._services.clock.now_ms()
        cause = lifecycle.overdue(self.job, now)
        if cause is not None:
            self.apply(lambda job: lifecycle.request_stop(job, cause, now))

    def patiently(self, work: Callable[[], T]) -> T:
        """Repeats `work` while the runtime's engine does not answer, up to MaxRuntimeInSeconds.

        Always waits at least MIN_TIMEOUT_S seconds: a stopped job must not lose its results to a short silence. A
        jump of the system's clock, as on a laptop that slept, does not count: the engine wakes up as late as the
        server.
        """
        services = self._services
        left = self.job.spec.max_runtime_seconds - self.job.running_ms(services.clock.now_ms()) / 1000
        deadline = time.monotonic() + max(left, MIN_TIMEOUT_S)
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
