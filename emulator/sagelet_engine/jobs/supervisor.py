"""One thread that drives one job to its end.

Crash-only: each step loads the record, works with no transaction open and applies what came of it, guarded by the
record's version. Every step may be repeated, so a job goes on after `kill -9` from what its record says and from
what is true outside (the runtime's hosts, files).
"""

import logging
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from sagelet_engine.data import inputconfig
from sagelet_engine.data.artifacts import Uploader
from sagelet_engine.data.channels.pipe_mode import PipeFeed
from sagelet_engine.data.channels.sources import JobObjects
from sagelet_engine.data.checkpoints import Checkpoints
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.data.removal import DirectoryStays, remove_tree
from sagelet_engine.data.staging import Stager
from sagelet_engine.data.volume import FULL, remedy
from sagelet_engine.database import StoreUnavailable
from sagelet_engine.errors import ClientFault
from sagelet_engine.failpoints import Failpoint, failpoint
from sagelet_engine.instances.gpus import NoCapacity
from sagelet_engine.jobs import compile_reports, faults, lifecycle, verdict
from sagelet_engine.jobs.authorities import write_bundle
from sagelet_engine.jobs.disk_watch import DiskFull
from sagelet_engine.jobs.host_watch import PULSE, HostWatch
from sagelet_engine.jobs.launch import CA_BUNDLE, CA_FILE, launch_plan
from sagelet_engine.jobs.record import SecondaryStatus, TrainingJob, Verdict
from sagelet_engine.jobs.under_way import Detached, JobUnderWay, Services
from sagelet_engine.keys import ca_file
from sagelet_engine.runtimes.port import Handle
from sagelet_engine.telemetry.output import note_after_end

log = logging.getLogger(__name__)
S = SecondaryStatus

#: Seconds until a step is repeated that found the store unavailable.
RETRY_SECONDS = 1.0


class Superseded(Exception):
    """The job has left the status that the step under way is for."""


class Displaced(Exception):
    """The job gave its place back for another attempt, and waits for the next one."""


class Supervisor(threading.Thread):
    """Drives one placed job to its end, or until it has to wait for a place again; then calls `ended`."""

    def __init__(self, services: Services, job: TrainingJob, ended: Callable[[TrainingJob], None]) -> None:
        super().__init__(name=f"job-{job.key.name}", daemon=True)
        self._services = services
        self._under_way = JobUnderWay(services, job)
        self._ended = ended
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
        self._directories = JobDirectories.of(self._services.settings.data, self._job)
        self._checkpoints = Checkpoints(self._services.objects, self._job, self._directories)
        self._pipes = PipeFeed(self._job, self._directories)
        self._hosts = HostWatch(self._services, self._under_way, self._directories, self._checkpoints, self._pipes)

    @property
    def _job(self) -> TrainingJob:
        return self._under_way.job

    def poke(self) -> None:
        """The record was changed from outside: look at it soon."""
        self._under_way.poke()

    def run(self) -> None:
        # Whoever made this supervisor may have read the record before a stop that poked nobody.
        self._under_way.poke()
        try:
            while not self._job.terminal:
                self._step()
        except Detached:
            return
        except Displaced:
            log.info("%s: waits for its nodes again", self._job.key.name)
        failpoint(Failpoint.AFTER_END)
        self._ended(self._job)

    def _step(self) -> None:
        """One step. As steps may be repeated, one that finds the store unavailable is."""
        try:
            self._under_way.reload()
            self._work()
        except StoreUnavailable as error:
            log.warning("%s: trying again: %s", self._job.key.name, error)
            self._under_way.poke()
            if self._services.closing.wait(RETRY_SECONDS):
                raise Detached from None

    def _work(self) -> None:
        if self._services.closing.is_set():
            raise Detached
        try:
            # A job that trains is judged by its hosts, which may have ended in time.
            if self._job.secondary in (S.STARTING, S.PENDING, S.DOWNLOADING):
                self._under_way.enforce_limits()
            self._steps[self._job.secondary]()
        except (Detached, Displaced, StoreUnavailable):
            raise
        except DiskFull as fault:
            self._hosts.abandon()
            self._make_room()
            self._under_way.conclude(verdict.client_error(str(fault)))
        except ClientFault as fault:
            self._hosts.abandon()
            self._under_way.conclude(verdict.client_error(str(fault)))
        except NoCapacity as error:
            self._hosts.abandon()
            self._under_way.conclude(verdict.capacity_error(str(error)))
        except faults.InjectedFault as fault:
            log.info("%s: %s (its tag %s)", self._job.key.name, fault, faults.TAG)
            self._fail(fault.outcome)
        except Exception as error:
            if self._services.closing.is_set():
                raise Detached from error
            log.exception("%s: internal error", self._job.key.name)
            self._fail(verdict.internal_error(self._told(error)))

    def _told(self, error: Exception) -> str:
        """What the status message says of an internal error: a disk that is full has a remedy."""
        told = f"{type(error).__name__}: {error}"
        full = isinstance(error, OSError) and error.errno in FULL
        return f"{told}. {remedy(self._directories.root.parent)}" if full else told

    def _make_room(self) -> None:
        """Removes what the hosts wrote, or the disk would stay full and the next job end for it."""
        for name in self._job.hosts:
            try:
                remove_tree(self._directories.host(name).opt_ml)
            except DirectoryStays as error:
                log.warning("%s: %s", self._job.key.name, error)

    def _fail(self, outcome: Verdict) -> None:
        """Ends the job, or the attempt where RetryStrategy grants another; nothing of it runs on."""
        self._hosts.abandon()
        if not self._retry(outcome):
            self._under_way.conclude(outcome)

    # --- steps ------------------------------------------------------------------------------------------------

    def _held_up(self) -> bool:
        """Waits a moment if the job's tag makes its start slow. Raises InjectedFault when the tag makes it fail."""
        due = faults.starting(self._job, self._services.clock.now_ms())
        message = lifecycle.preparing(self._job) if due is None else due[0].message
        shown = self._job.transitions[-1].message
        if shown != message and (due is not None or shown in faults.DELAYS.values()):
            self._under_way.move(self._job.secondary, message)
        if due is not None:
            self._under_way.wait(min(PULSE, due[1]))
        return due is not None

    def _begin(self) -> None:
        if self._held_up():
            return
        image, stand_in = self._under_way.patiently(partial(self._services.images.choose, self._job))
        if stand_in != self._job.stand_in:
            message = f"{lifecycle.PREPARING_INSTANCES} ({stand_in})"
            self._under_way.move(self._job.secondary, message, stand_in=stand_in)
        self._under_way.move(S.DOWNLOADING, image=image)

    def _download(self) -> None:
        objects = JobObjects(self._services.objects, self._job, self._attend)
        file_systems = self._services.settings.file_systems
        protected = self._services.runtime.binds_read_only
        try:
            for name in self._job.hosts:
                host = self._directories.host(name)
                Stager(self._services.objects, self._job, objects, file_systems, protected=protected).stage(host)
                inputconfig.write(self._job, name, host)
                if self._services.endpoint.tls:
                    shutil.copyfile(ca_file(self._services.settings.data), host.config / CA_FILE)
                    write_bundle(ca_file(self._services.settings.data), host.config / CA_BUNDLE)
                failpoint(Failpoint.AFTER_STAGING_HOST)
            self._services.cache.lend(self._job, self._directories)
            self._pipes.stage(objects)
        except Superseded:
            return
        except Exception:
            if self._services.disk.full():
                # Inputs that never were whole are of no use to anybody, and the others need the room.
                self._make_room()
            raise
        failpoint(Failpoint.AFTER_STAGING)
        self._checkpoints.begin()
        failpoint(Failpoint.AFTER_CHECKPOINTS_BEGIN)
        self._under_way.move(S.DOWNLOADING, message=lifecycle.DOWNLOADING_IMAGE)
        self._under_way.move(S.TRAINING)

    def _attend(self) -> None:
        """Between two objects: a stop, an interruption or a limit must not wait for all of the data."""
        if self._services.closing.is_set():
            raise Detached
        self._under_way.reload()
        self._under_way.enforce_limits()
        if self._job.secondary is not S.DOWNLOADING:
            raise Superseded

    def _train(self) -> None:
        if not self._job.launched:
            self._pipes.start()
            services = self._services
            plan = launch_plan(
                self._job,
                self._directories,
                services.runtime,
                services.endpoint,
                services.settings.file_systems,
                cache=services.cache.serves(self._job),
            )
            failpoint(Failpoint.BEFORE_LAUNCH)
            handles = self._under_way.patiently(lambda: self._services.runtime.launch(plan))
            failpoint(Failpoint.AFTER_LAUNCH)
            self._under_way.apply(lambda job: replace(job, launched=True))
            failpoint(Failpoint.AFTER_LAUNCHED)
        else:
            handles = self._hosts.find()
        found = self._hosts.until_down(handles)
        if self._job.secondary is not S.TRAINING:
            return
        outcome = self._hosts.judge(found)
        if not self._retry(outcome):
            self._under_way.move(S.UPLOADING, verdict=outcome)

    def _retry(self, outcome: Verdict) -> bool:
        """Begins another attempt after an internal fault, if RetryStrategy grants one."""
        job = self._job
        if not verdict.is_internal(outcome) or job.stop_cause is not None or not job.retries_left:
            return False
        if job.secondary not in lifecycle.RULES[S.RESTARTING].follows:
            return False
        self._under_way.move(S.RESTARTING, verdict.with_cause(lifecycle.RULES[S.RESTARTING].message, outcome))
        return True

    def _restart(self) -> None:
        """Ends an attempt: its hosts down, its checkpoints in S3; then the job starts again on new hosts."""
        ending = self._job.secondary
        self._hosts.until_down(self._found())
        if self._job.secondary is not ending:
            return
        if self._job.launched:
            self._checkpoints.sync(final=True)
            self._warn()
            failpoint(Failpoint.AFTER_FINAL_SYNC)
        self._hosts.reap()
        now, ended = self._services.clock.now_ms(), self._directories
        keeps = self._services.runtime.cluster is None
        self._under_way.apply(
            lambda job: lifecycle.restart(job, now, keeps_place=keeps) if job.secondary is ending else job
        )
        if self._job.secondary is S.STARTING:
            failpoint(Failpoint.AFTER_RESTART)
            self._begin_attempt()
            # Not before the record has left it: an attempt whose files are gone looks like one that deleted them.
            for name in self._job.hosts:
                with suppress(DirectoryStays):
                    remove_tree(ended.host(name).opt_ml)
            if not keeps:
                raise Displaced

    def _found(self) -> list[Handle]:
        """The hosts of an attempt that is to end: also those that were started right before the server was killed."""
        handles = self._hosts.find()
        if handles and not self._job.launched:
            self._under_way.apply(lambda job: replace(job, launched=True))
        return handles

    def _wind_down(self) -> None:
        """A job being stopped: its hosts down, its results up; all of it within the status Stopping."""
        if self._job.verdict is None:
            found = self._hosts.until_down(self._found())
            self._under_way.apply(lambda job: replace(job, verdict=self._hosts.judge(found)))
        self._upload()

    def _upload(self) -> None:
        self._hosts.reap()
        if self._job.launched:
            self._checkpoints.sync(final=True)
            self._services.cache.take_back(self._job, self._directories)
            report = compile_reports.kept(self._directories)
            compiled = report is not None and report.compiled
            failpoint(Failpoint.BEFORE_UPLOAD)
            uploader = Uploader(self._services.objects, self._job, self._directories, with_report=compiled)
            self._warn(uploader.upload())
            failpoint(Failpoint.AFTER_UPLOAD)
        assert self._job.verdict is not None
        self._under_way.conclude(self._job.verdict)

    def _warn(self, results: Sequence[str] = ()) -> None:
        """Says in the hosts' logs what was left out: `results` in the first host's, checkpoints in their own's."""
        services = self._services
        lines = [*self._checkpoints.warnings(), *((self._job.hosts[0], text) for text in results)]
        for host in dict.fromkeys(host for host, _ in lines):
            texts = [text for one, text in lines if one == host]
            note_after_end(services.store, services.clock, self._job, host, texts)
