"""Drives one job to its end, in a thread of its own.

Each step loads the record, works with no transaction open, and applies the outcome guarded by the record's version.
Steps are idempotent. So after `kill -9` a job goes on from its record, the hosts that the runtime knows, and the files
on the disk.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.base.errors import ClientFault, is_known
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.base.volume import is_full, remedy
from sagelet_engine.data.removal import DirectoryStays, remove_tree
from sagelet_engine.execution.disk_watch import DiskFull
from sagelet_engine.execution.host_watch import POLL_S, HostWatch
from sagelet_engine.execution.job_context import Detached, JobContext, SupervisorDeps
from sagelet_engine.execution.work import JobWork
from sagelet_engine.execution.works import WORKS
from sagelet_engine.instances.gpus import NoCapacity
from sagelet_engine.model import faults, lifecycle, verdict
from sagelet_engine.model.job import Job, SecondaryStatus, Verdict
from sagelet_engine.model.runtime import Handle

log = logging.getLogger(__name__)
S = SecondaryStatus

#: Seconds until a step that hit StoreUnavailable is repeated.
RETRY_SECONDS = 1.0


class Superseded(Exception):
    """The job has left the status for which the current step runs."""


class Displaced(Exception):
    """The job gave its place back and waits for a place for its next attempt."""


class Supervisor(threading.Thread):
    """Drives one placed job to its end, or until it has to wait for a place again. Then it calls `ended`."""

    def __init__(self, services: SupervisorDeps, job: Job, ended: Callable[[Job], None]) -> None:
        super().__init__(name=f"job-{job.key.name}", daemon=True)
        self._services = services
        self._job_context = JobContext(services, job)
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
        self._work: JobWork = WORKS[self._job.key.kind](self._services, self._job_context)
        self._hosts = HostWatch(self._services, self._job_context, self._work)

    @property
    def _job(self) -> Job:
        return self._job_context.job

    def notify(self) -> None:
        """Signals that another thread changed the record, so that the supervisor reloads it soon."""
        self._job_context.notify()

    def run(self) -> None:
        # A stop may have come after the record was read and before this supervisor could be notified.
        self._job_context.notify()
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
        """Runs one step. Steps are idempotent, so one that hits StoreUnavailable is retried."""
        try:
            self._job_context.reload()
            self._do_step()
        except StoreUnavailable as error:
            log.warning("%s: trying again: %s", self._job.key.name, error)
            self._job_context.notify()
            if self._services.closing.wait(RETRY_SECONDS):
                raise Detached from None

    def _do_step(self) -> None:
        if self._services.closing.is_set():
            raise Detached
        try:
            # In Training the hosts decide, since they may have ended before the limit.
            if self._job.secondary in (S.STARTING, S.PENDING, S.DOWNLOADING):
                self._job_context.enforce_limits()
            self._steps[self._job.secondary]()
        except (Detached, Displaced, StoreUnavailable):
            raise
        except DiskFull as fault:
            self._hosts.abandon()
            self._make_room()
            self._conclude(verdict.client_error(str(fault)))
        except ClientFault as fault:
            self._hosts.abandon()
            self._conclude(verdict.client_error(str(fault)))
        except NoCapacity as error:
            self._hosts.abandon()
            self._conclude(verdict.capacity_error(str(error)))
        except faults.InjectedFault as fault:
            log.info("%s: %s (its tag %s)", self._job.key.name, fault, faults.TAG)
            self._fail(fault.outcome)
        except Exception as error:
            if self._services.closing.is_set():
                raise Detached from error
            if is_full(error) and self._has_results:
                self._wait_for_room(error)
                return
            log.error("%s: internal error: %s", self._job.key.name, error, exc_info=not is_known(error))
            self._fail(verdict.internal_error(self._told(error)))

    @property
    def _has_results(self) -> bool:
        """True if the hosts have ended, or end, and what they left is on its way to S3."""
        return self._job.verdict is not None or self._job.secondary in (S.INTERRUPTED, S.RESTARTING)

    def _wait_for_room(self, error: Exception) -> None:
        """Waits a moment for a disk that is full. Results are not given up for it: the step is repeated."""
        why = f"{error}. {remedy(self._work.directories.root.parent)}" if isinstance(error, OSError) else str(error)
        if self._job.transitions[-1].message != (message := f"Waiting for room on the disk: {why}"):
            log.warning("%s: its results wait for room on the disk: %s", self._job.key.name, why)
            self._job_context.notes.add("", f"sagelet: warning: the results wait for room on the disk: {why}")
            now = self._services.clock.now_ms()
            self._job_context.apply(lambda job: lifecycle.advance(job, job.secondary, now, message))
        if self._services.closing.wait(RETRY_SECONDS):
            raise Detached from None

    def _told(self, error: Exception) -> str:
        """Returns the status message about an internal error. For a full disk it names the remedy."""
        told = f"{type(error).__name__}: {error}"
        full = isinstance(error, OSError) and is_full(error)
        return f"{told}. {remedy(self._work.directories.root.parent)}" if full else told

    def _make_room(self) -> None:
        """Removes what the hosts wrote. Otherwise the disk would stay full and the next job would end, too."""
        for name in self._job.hosts:
            try:
                remove_tree(self._work.directories.host(name).opt_ml)
            except DirectoryStays as error:
                log.warning("%s: %s", self._job.key.name, error)

    def _fail(self, outcome: Verdict) -> None:
        """Ends all hosts, then the job, or only its attempt if RetryStrategy grants another."""
        self._hosts.abandon()
        if not self._retry(outcome):
            self._conclude(outcome)

    def _conclude(self, outcome: Verdict) -> None:
        """Enters the terminal status. The log has all of its lines before."""
        self._hosts.write_notes()
        self._job_context.conclude(outcome)

    # --- steps ------------------------------------------------------------------------------------------------

    def _held_up(self) -> bool:
        """Waits a moment if the job's tag makes its start slow. Raises InjectedFault if the tag makes it fail."""
        due = faults.starting(self._job, self._services.clock.now_ms())
        message = lifecycle.preparing(self._job) if due is None else due[0].message
        shown = self._job.transitions[-1].message
        if shown != message and (due is not None or shown in faults.DELAYS.values()):
            self._job_context.move(self._job.secondary, message)
        if due is not None:
            self._job_context.wait(min(POLL_S, due[1]))
        return due is not None

    def _begin(self) -> None:
        if self._held_up():
            return
        image, stand_in = self._job_context.patiently(partial(self._services.images.choose, self._job))
        if stand_in != self._job.stand_in:
            message = lifecycle.preparing(self._job, stand_in)
            self._job_context.move(self._job.secondary, message, stand_in=stand_in)
        self._job_context.move(S.DOWNLOADING, image=image, runtime=self._services.runtime.name)

    def _download(self) -> None:
        try:
            self._work.stage(self._attend)
        except Superseded:
            return
        except Exception:
            if self._services.disk.full():
                # Incomplete inputs are of no use, and other jobs need the room.
                self._make_room()
            raise
        failpoint(Failpoint.AFTER_STAGING)
        self._work.staged()
        self._job_context.move(S.DOWNLOADING, message=lifecycle.downloading_image(self._job))
        self._job_context.move(S.TRAINING)

    def _attend(self) -> None:
        """Checks the record and the limits between two objects, so that a stop takes effect before all data is here."""
        if self._services.closing.is_set():
            raise Detached
        self._job_context.reload()
        self._job_context.enforce_limits()
        if self._job.secondary is not S.DOWNLOADING:
            raise Superseded

    def _train(self) -> None:
        if not self._job.launched:
            plan = self._work.plan()
            failpoint(Failpoint.BEFORE_LAUNCH)
            handles = self._job_context.patiently(lambda: self._services.runtime.launch(plan))
            failpoint(Failpoint.AFTER_LAUNCH)
            self._job_context.apply(lambda job: replace(job, launched=True))
            failpoint(Failpoint.AFTER_LAUNCHED)
        else:
            handles = self._hosts.find()
        found = self._hosts.until_down(handles)
        if self._job.secondary is not S.TRAINING:
            return
        outcome = self._hosts.judge(found)
        if not self._retry(outcome):
            self._job_context.move(S.UPLOADING, verdict=outcome)

    def _retry(self, outcome: Verdict) -> bool:
        """Begins another attempt after an internal fault, if RetryStrategy grants one."""
        if not verdict.is_retried(self._job, outcome):
            return False
        self._job_context.move(
            S.RESTARTING, verdict.with_cause(lifecycle.message_of(S.RESTARTING, self._job.key.kind), outcome)
        )
        return True

    def _restart(self) -> None:
        """Ends an attempt: takes its hosts down and saves its checkpoints. Then the job starts again on new hosts."""
        ending = self._job.secondary
        self._hosts.until_down(self._found())
        if self._job.secondary is not ending:
            return
        if self._job.launched:
            self._work.save()
            self._hosts.write_notes()
            failpoint(Failpoint.AFTER_FINAL_SYNC)
        self._hosts.reap()
        now, ended = self._services.clock.now_ms(), self._work.directories
        # A cluster gets each attempt anew.
        keeps = self._services.runtime.cluster is None
        self._job_context.apply(
            lambda job: lifecycle.restart(job, now, keeps_place=keeps) if job.secondary is ending else job
        )
        if self._job.secondary is S.STARTING:
            failpoint(Failpoint.AFTER_RESTART)
            self._begin_attempt()
            # The record must leave the attempt first: the files of a current attempt may only be missing if the job
            # deleted them.
            for name in self._job.hosts:
                with suppress(DirectoryStays):
                    remove_tree(ended.host(name).opt_ml)
            if not keeps:
                raise Displaced

    def _found(self) -> list[Handle]:
        """Returns the hosts of an attempt that is to end, even any that started just before the server was killed."""
        handles = self._hosts.find()
        if handles and not self._job.launched:
            self._job_context.apply(lambda job: replace(job, launched=True))
        return handles

    def _wind_down(self) -> None:
        """Takes down the hosts of a job that is being stopped and uploads its results, all within Stopping."""
        if self._job.verdict is None:
            found = self._hosts.until_down(self._found())
            self._job_context.apply(lambda job: replace(job, verdict=self._hosts.judge(found)))
        self._upload()

    def _upload(self) -> None:
        self._hosts.reap()
        if self._job.launched:
            self._work.save()
            failpoint(Failpoint.BEFORE_UPLOAD)
            for text in self._work.upload():
                self._job_context.notes.add("", text)
            failpoint(Failpoint.AFTER_UPLOAD)
        assert self._job.verdict is not None
        self._conclude(self._job.verdict)
