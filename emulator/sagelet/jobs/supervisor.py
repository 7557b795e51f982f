"""One thread that drives one job to its end.

Crash-only: each step loads the record, works with no transaction open and applies what came of it, guarded by the
record's version. Every step may be repeated, so a job goes on after `kill -9` from what its record says and from
what is true outside (the runtime's hosts, files).
"""

import logging
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from sagelet.clock import Clock
from sagelet.data import inputconfig
from sagelet.data.artifacts import Uploader
from sagelet.data.channels.pipe_mode import PipeFeed
from sagelet.data.channels.sources import JobObjects
from sagelet.data.checkpoints import Checkpoints, Syncer
from sagelet.data.layout import JobDirectories
from sagelet.data.objects import ObjectStore
from sagelet.data.staging import Stager
from sagelet.errors import ClientFault, RuntimeUnavailable
from sagelet.images.resolve import Resolver, explain_absent
from sagelet.jobs import distributions, faults, interruptions, lifecycle, verdict
from sagelet.jobs.launch import launch_plan
from sagelet.jobs.metering import usage_sampler
from sagelet.jobs.record import SecondaryStatus, TrainingJob, Verdict
from sagelet.jobs.store import StaleRecord, Store, StoreUnavailable
from sagelet.runtimes.port import Handle, Observation, Runtime
from sagelet.settings import Settings
from sagelet.telemetry.output import Follower, Mailbox, Recorder
from sagelet.telemetry.sink import MetricSink

log = logging.getLogger(__name__)
S = SecondaryStatus
RUNNING = lifecycle.RUNNING
T = TypeVar("T")

#: Seconds between looks at the clock and at the job's record while nothing happens.
PULSE = 0.5
#: Seconds until a step is repeated that found the store unavailable.
RETRY_SECONDS = 1.0
#: Lines that go into the store at once.
BATCH = 5000
#: Seconds between SIGTERM and SIGKILL for the hosts that still run when another has failed. AWS documents none.
REMAINING_GRACE_SECONDS = 10


class Detached(Exception):
    """The server goes down; the job runs on and is adopted by the next one."""


class Superseded(Exception):
    """The job has left the status that the step under way is for."""


@dataclass(frozen=True)
class Services:
    """What every supervisor works with."""

    settings: Settings
    store: Store
    clock: Clock
    objects: ObjectStore
    metrics: MetricSink
    runtime: Runtime
    images: Resolver
    #: The port that hosts find sagelet's endpoint at.
    port: int
    closing: threading.Event


class Supervisor(threading.Thread):
    """Drives one placed job to its end, then calls `ended`."""

    def __init__(self, services: Services, job: TrainingJob, ended: Callable[[TrainingJob], None]) -> None:
        super().__init__(name=f"job-{job.key.name}", daemon=True)
        self._services = services
        self._job = job
        self._ended = ended
        self._poked = threading.Event()
        self._begin_attempt()
        self._steps: dict[SecondaryStatus, Callable[[], None]] = {
            S.STARTING: self._begin,
            S.PENDING: self._begin,
            S.DOWNLOADING: self._download,
            S.TRAINING: self._train,
            S.INTERRUPTED: self._restart,
            S.RESTARTING: self._restart,
            S.STOPPING: self._wind_down,
            S.UPLOADING: self._upload,
        }

    def _begin_attempt(self) -> None:
        self._asked_to_stop = False
        self._killed = False
        #: When a host was seen to have failed while others ran, ms since the epoch.
        self._failed_ms: int | None = None
        self._directories = JobDirectories.of(self._services.settings.data, self._job)
        self._checkpoints = Checkpoints(self._services.objects, self._job, self._directories)
        self._pipes = PipeFeed(self._job, self._directories)

    def poke(self) -> None:
        """The record was changed from outside: look at it soon."""
        self._poked.set()

    def run(self) -> None:
        # Whoever made this supervisor may have read the record before a stop that poked nobody.
        self._poked.set()
        try:
            while not self._job.terminal:
                self._step()
        except Detached:
            return
        self._ended(self._job)

    def _step(self) -> None:
        """One step. As steps may be repeated, one that finds the store unavailable is."""
        try:
            self._reload()
            self._work()
        except StoreUnavailable as error:
            log.warning("%s: trying again: %s", self._job.key.name, error)
            self._poked.set()
            self._services.closing.wait(RETRY_SECONDS)

    def _work(self) -> None:
        if self._services.closing.is_set():
            raise Detached
        try:
            # A job that trains is judged by its hosts, which may have ended in time.
            if self._job.secondary in (S.STARTING, S.PENDING, S.DOWNLOADING):
                self._enforce_limits()
            self._steps[self._job.secondary]()
        except (Detached, StoreUnavailable):
            raise
        except ClientFault as fault:
            self._abandon_hosts()
            self._conclude(verdict.client_error(str(fault)))
        except faults.InjectedFault as fault:
            log.info("%s: %s (its tag %s)", self._job.key.name, fault, faults.TAG)
            self._fail(fault.outcome)
        except Exception as error:
            if self._services.closing.is_set():
                raise Detached from error
            log.exception("%s: internal error", self._job.key.name)
            self._fail(verdict.internal_error(f"{type(error).__name__}: {error}"))

    def _fail(self, outcome: Verdict) -> None:
        """Ends the job, or the attempt where RetryStrategy grants another; nothing of it runs on."""
        self._abandon_hosts()
        if not self._retry(outcome):
            self._conclude(outcome)

    # --- steps ------------------------------------------------------------------------------------------------

    def _held_up(self) -> bool:
        """Waits a moment if the job's tag makes its start slow. Raises InjectedFault when the tag makes it fail."""
        due = faults.starting(self._job, self._services.clock.now_ms())
        message = lifecycle.preparing(self._job) if due is None else due[0].message
        shown = self._job.transitions[-1].message
        if shown != message and (due is not None or shown in faults.DELAYS.values()):
            self._move(self._job.secondary, message)
        if due is not None:
            self._poked.wait(min(PULSE, due[1]))
        return due is not None

    def _begin(self) -> None:
        distributions.check(self._job)
        if self._held_up():
            return
        uri = self._job.request["AlgorithmSpecification"].get("TrainingImage")
        if not uri:
            raise ClientFault("AlgorithmSpecification.AlgorithmName: sagelet has no algorithms; name a TrainingImage")
        resolution = self._services.images.resolve(uri)
        image = resolution.local_image
        try:
            found = image is not None and self._patiently(partial(self._services.runtime.has_image, image))
        except ClientFault as fault:
            remedy = f". {explain_absent(resolution)}" if resolution.is_literal else ""
            raise ClientFault(f"{fault}{remedy}") from fault
        if image is None or not found:
            raise ClientFault(explain_absent(resolution))
        self._move(S.DOWNLOADING, image=image)

    def _download(self) -> None:
        objects = JobObjects(self._services.objects, self._job, self._attend)
        file_systems = self._services.settings.file_systems
        protected = self._services.runtime.binds_read_only
        try:
            for name in self._job.hosts:
                host = self._directories.host(name)
                Stager(self._services.objects, self._job, objects, file_systems, protected=protected).stage(host)
                inputconfig.write(self._job, name, host)
            self._pipes.stage(objects)
        except Superseded:
            return
        self._checkpoints.begin()
        self._move(S.DOWNLOADING, message=lifecycle.DOWNLOADING_IMAGE)
        self._move(S.TRAINING)

    def _attend(self) -> None:
        """Between two objects: a stop, an interruption or a limit must not wait for all of the data."""
        if self._services.closing.is_set():
            raise Detached
        self._reload()
        self._enforce_limits()
        if self._job.secondary is not S.DOWNLOADING:
            raise Superseded

    def _train(self) -> None:
        if not self._job.launched:
            self._pipes.start()
            services = self._services
            plan = launch_plan(
                self._job, self._directories, services.runtime, services.port, services.settings.file_systems
            )
            handles = self._patiently(lambda: self._services.runtime.launch(plan))
            self._apply(lambda job: replace(job, launched=True))
        else:
            handles = self._find()
        found = self._watch(handles)
        if self._job.secondary is not S.TRAINING:
            return
        outcome = self._judge(found)
        if not self._retry(outcome):
            self._move(S.UPLOADING, verdict=outcome)

    def _retry(self, outcome: Verdict) -> bool:
        """Begins another attempt after an internal fault, if RetryStrategy grants one."""
        job = self._job
        if not verdict.is_internal(outcome) or job.stop_cause is not None or not job.retries_left:
            return False
        if job.secondary not in lifecycle.RULES[S.RESTARTING].follows:
            return False
        self._move(S.RESTARTING, verdict.with_cause(lifecycle.RULES[S.RESTARTING].message, outcome))
        return True

    def _restart(self) -> None:
        """Ends an attempt: its hosts down, its checkpoints in S3; then the job starts again on new hosts."""
        ending = self._job.secondary
        self._watch(self._find())
        if self._job.secondary is not ending:
            return
        if self._job.launched:
            self._checkpoints.sync(final=True)
        self._reap()
        now, ended = self._services.clock.now_ms(), self._directories
        self._apply(lambda job: lifecycle.restart(job, now) if job.secondary is ending else job)
        if self._job.secondary is S.STARTING:
            self._begin_attempt()
            # Not before the record has left it: an attempt whose files are gone looks like one that deleted them.
            for name in self._job.hosts:
                shutil.rmtree(ended.host(name).opt_ml, ignore_errors=True)

    def _wind_down(self) -> None:
        """A job being stopped: its hosts down, its results up; all of it within the status Stopping."""
        if self._job.verdict is None:
            handles = self._find()
            if handles and not self._job.launched:
                self._apply(lambda job: replace(job, launched=True))
            found = self._watch(handles)
            self._apply(lambda job: replace(job, verdict=self._judge(found)))
        self._upload()

    def _upload(self) -> None:
        self._reap()
        if self._job.launched:
            self._checkpoints.sync(final=True)
            Uploader(self._services.objects, self._job, self._directories).upload()
        assert self._job.verdict is not None
        self._conclude(self._job.verdict)

    # --- watching hosts ---------------------------------------------------------------------------------------

    def _watch(self, handles: list[Handle]) -> dict[str, Observation]:
        """Takes in the hosts' output until all are down; enforces stops and MaxRuntimeInSeconds meanwhile.

        A host that ends well lets the others go on; one that fails ends them, as the job has failed.
        """
        services, job = self._services, self._job
        recorders = {
            handle.host: Recorder(services.store, services.metrics, services.clock, job, handle) for handle in handles
        }
        by_host = {handle.host: handle for handle in handles}
        mailbox = Mailbox(services.closing)
        found = self._lost(by_host)
        syncer = Syncer(self._checkpoints, job.key.name, services.closing)
        syncer.start()
        sampler = usage_sampler(
            job, self._directories, handles, runtime=services.runtime, store=services.store, sink=services.metrics,
            clock=services.clock, closing=services.closing,
        )  # fmt: skip
        sampler.start()
        try:
            for handle in handles:
                Follower(services.runtime, handle, recorders[handle.host].position, mailbox).start()
            while by_host.keys() - found.keys():
                for output in mailbox.drain(BATCH, PULSE):
                    if output.lines is None:
                        found[output.host] = self._observe(by_host[output.host])
                    else:
                        recorders[output.host].record(output.lines)
                self._enforce([handle for handle in handles if handle.host not in found], found)
        finally:
            mailbox.close()
            sampler.stop()
            syncer.stop()
        return {host: found[host] for host in job.hosts if host in found}

    def _lost(self, there: Mapping[str, Handle]) -> dict[str, Observation]:
        """The hosts of a launched job that the runtime knows nothing of any more."""
        error = f"the runtime {self._services.runtime.name!r} lost the host"
        lost = [host for host in self._job.hosts if host not in there] if self._job.launched else []
        return {host: Observation(running=False, error=error) for host in lost}

    def _enforce(self, running: list[Handle], found: Mapping[str, Observation]) -> None:
        """Detaches, stops or kills the hosts that still run, as the record and the clock demand."""
        services = self._services
        if services.closing.is_set():
            raise Detached
        if running:
            self._pipes.check()
        self._reload()
        if running and interruptions.due(self._job, services.clock.now_ms()):
            self._move(S.INTERRUPTED)
        if running:
            faults.training(self._job, services.clock.now_ms())
        if self._job.secondary in RUNNING:
            self._enforce_limits()
            self._notice_failure(found)
        deadline = self._deadline()
        if deadline is not None:
            self._take_down(running, deadline)

    def _notice_failure(self, found: Mapping[str, Observation]) -> None:
        if self._failed_ms is None and any(verdict.failed(found[host], self._failure_file(host)) for host in found):
            self._failed_ms = self._services.clock.now_ms()

    def _deadline(self) -> int | None:
        """When hosts that were asked to end are killed, ms since the epoch; None: nothing demands their end."""
        deadlines = []
        if self._failed_ms is not None:
            deadlines.append(self._failed_ms + REMAINING_GRACE_SECONDS * 1000)
        if self._job.secondary not in RUNNING:
            since = self._job.stop_ms or self._job.transitions[-1].start_ms
            deadlines.append(since + self._services.settings.stop_grace_seconds * 1000)
        return min(deadlines, default=None)

    def _enforce_limits(self) -> None:
        now = self._services.clock.now_ms()
        cause = lifecycle.overdue(self._job, now)
        if cause is not None:
            self._apply(lambda job: lifecycle.request_stop(job, cause, now))

    def _take_down(self, running: list[Handle], deadline: int) -> None:
        """SIGTERM, and SIGKILL when the grace is over that began with the stop, the interruption or the failure."""
        if not self._asked_to_stop:
            self._asked_to_stop = True
            self._signal(running, force=False)
        elif not self._killed and self._services.clock.now_ms() >= deadline:
            self._killed = True
            self._signal(running, force=True)

    def _signal(self, handles: list[Handle], *, force: bool) -> None:
        for handle in handles:
            self._patiently(partial(self._services.runtime.stop, handle, force=force))

    def _observe(self, handle: Handle) -> Observation:
        return self._patiently(lambda: self._services.runtime.observe(handle))

    def _judge(self, found: dict[str, Observation]) -> Verdict:
        if not found and self._job.stop_cause is None:
            return verdict.internal_error(f"the runtime {self._services.runtime.name!r} lost the job's hosts")
        return verdict.judge(self._job, found, {host: self._failure_file(host) for host in found})

    def _failure_file(self, host: str) -> Path:
        return self._directories.host(host).failure_file

    def _find(self) -> list[Handle]:
        return self._patiently(lambda: self._services.runtime.find(self._job.launch_id))

    def _reap(self) -> None:
        self._patiently(lambda: self._services.runtime.reap(self._job.launch_id))
        self._pipes.end()

    def _abandon_hosts(self) -> None:
        """After an internal error nothing of the job may run on."""
        try:
            self._services.runtime.reap(self._job.launch_id)
        except Exception:
            log.exception("%s: its hosts could not be removed", self._job.key.name)
        self._pipes.end()

    # --- the record -------------------------------------------------------------------------------------------

    def _reload(self) -> None:
        """Takes in what was changed from outside."""
        if self._poked.is_set():
            self._poked.clear()
            self._job = self._services.store.get_by_id(self._job.id)

    def _apply(self, change: Callable[[TrainingJob], TrainingJob]) -> None:
        """Applies a change to the newest record; loads it again when somebody else was quicker.

        Once the server goes down it writes no more: the data directory may be another's by then.
        """
        while True:
            if self._services.closing.is_set():
                raise Detached
            try:
                self._job = self._services.store.update(change(self._job))
                return
            except StaleRecord:
                self._job = self._services.store.get_by_id(self._job.id)

    def _move(self, to: SecondaryStatus, message: str | None = None, **changes: object) -> None:
        """Enters the next status, unless the job was stopped or interrupted since: then the loop goes on with that."""
        now = self._services.clock.now_ms()

        def change(job: TrainingJob) -> TrainingJob:
            if job.stop_ms is not None or job.secondary in lifecycle.ENDING_ATTEMPT:
                return job
            return lifecycle.advance(job, to, now, message, **changes)

        self._apply(change)

    def _conclude(self, outcome: Verdict) -> None:
        """Enters the terminal status. A stop that was asked for wins over a failure on the way."""
        now = self._services.clock.now_ms()

        def change(job: TrainingJob) -> TrainingJob:
            if job.stop_cause is not None:
                return lifecycle.advance(job, lifecycle.STOPPED_AS[job.stop_cause], now)
            message = verdict.with_cause(lifecycle.RULES[outcome.status].message, outcome)
            return lifecycle.advance(job, outcome.status, now, message, failure_reason=outcome.failure_reason)

        self._apply(change)

    def _patiently(self, work: Callable[[], T]) -> T:
        """Repeats work while the runtime's engine does not answer, up to MaxRuntimeInSeconds."""
        services = self._services
        now = services.clock.now_ms()
        deadline = now + self._job.max_runtime_seconds * 1000 - self._job.running_ms(now)
        waiting = False
        while True:
            try:
                return work()
            except RuntimeUnavailable as error:
                if services.clock.now_ms() >= deadline:
                    raise
                if not waiting:
                    log.warning("%s: waiting for the runtime: %s", self._job.key.name, error)
                waiting = True
                if services.closing.wait(1.0):
                    raise Detached from None
