"""Watches the hosts of one attempt until all have ended.

Ends the hosts when the record demands it, when a time limit is over, or when one host has failed.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import count

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.base.errors import RuntimeUnavailable, is_known
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.base.volume import is_full
from sagelet_engine.data.removal import DirectoryStays, remove_tree
from sagelet_engine.execution.job_context import Detached, JobContext, SupervisorDeps
from sagelet_engine.execution.log_recorder import Follower, Mailbox, Recorder, note_after_end
from sagelet_engine.execution.metering import usage_sampler
from sagelet_engine.execution.work import JobWork
from sagelet_engine.model import faults, interruptions, lifecycle, verdict
from sagelet_engine.model.job import Job, SecondaryStatus, StopCause, Verdict
from sagelet_engine.model.runtime import Handle, Observation

log = logging.getLogger(__name__)
RUNNING = lifecycle.RUNNING
#: Statuses before Training. In these no host of the attempt has been started.
STARTS = (SecondaryStatus.STARTING, SecondaryStatus.PENDING, SecondaryStatus.DOWNLOADING)

#: Seconds between looks at the clock and at the job's record while nothing happens.
POLL_S = 0.5
#: The most log lines that one transaction writes.
BATCH = 5000
#: Tries to remove the hosts of a job that has failed, if the runtime itself fails.
MOST_REMOVALS = 3
#: Seconds between SIGTERM and SIGKILL for the hosts that still run when another has failed. AWS documents none.
REMAINING_GRACE_SECONDS = 10


class HostWatch:
    """The hosts of one attempt. `work` runs beside them and ends with them."""

    def __init__(self, services: SupervisorDeps, context: JobContext, work: JobWork) -> None:
        self._services = services
        self._job_context = context
        self._work = work
        self._directories = work.directories
        self._asked_to_stop = False
        self._killed = False
        #: When this watch first saw a failed host while others ran, ms since the epoch.
        self._failed_ms: int | None = None

    @property
    def _job(self) -> Job:
        return self._job_context.job

    def until_down(self, handles: list[Handle]) -> dict[str, Observation]:
        """Records the hosts' output until all hosts are down. Enforces stops and MaxRuntimeInSeconds meanwhile.

        If a host succeeds, the others go on. If a host fails, the job has failed, so the others are ended.
        """
        services, job = self._services, self._job
        recorders = {
            handle.host: Recorder(
                services.store, services.metrics, services.clock, job, handle, self._job_context.notes.add
            )
            for handle in handles
        }
        by_host = {handle.host: handle for handle in handles}
        mailbox = Mailbox(services.closing)
        found = self._lost(by_host)
        services.disk.watch(job.id, self._directories.root)
        sampler = usage_sampler(
            job, self._directories, handles, self._work.streamed, runtime=services.runtime, store=services.store,
            sink=services.metrics, clock=services.clock, closing=services.closing, note=self._job_context.notes.add,
        )  # fmt: skip
        sampler.start()
        try:
            with self._work.watching(), closing(mailbox):
                for handle in handles:
                    position, note = recorders[handle.host].position, self._job_context.notes.add
                    Follower(services.runtime, handle, position, mailbox, note).start()
                while by_host.keys() - found.keys():
                    self._take_in(mailbox, by_host, recorders, found)
                    self._enforce([handle for handle in handles if handle.host not in found], found)
        finally:
            sampler.stop()
            services.disk.forget(job.id)
        found = {host: found[host] for host in job.hosts if host in found}
        failpoint(Failpoint.AFTER_HOSTS)
        self._conclude(recorders, found)
        failpoint(Failpoint.AFTER_REPORT)
        return found

    def _take_in(
        self,
        mailbox: Mailbox,
        handles: Mapping[str, Handle],
        recorders: Mapping[str, Recorder],
        found: dict[str, Observation],
    ) -> None:
        """Records new output of the hosts, and adds hosts that are down to `found`. Waits a moment for output."""
        for output in mailbox.drain(BATCH, POLL_S):
            if output.fault is not None:
                raise output.fault
            if output.lines is None:
                found[output.host] = self._observe(handles[output.host])
            else:
                recorders[output.host].record(output.lines)
        self._write_notes(recorders)
        if self._job.secondary in RUNNING:
            self._work.observe()

    def _write_notes(self, recorders: Mapping[str, Recorder]) -> None:
        """Writes into the hosts' logs what was left out. A host without a log of this watch gets a stream."""
        notes = self._job_context.notes
        for line in self._work.warnings():
            notes.add(*line)

        def write(host: str, text: str) -> None:
            name = host or self._job.hosts[0]
            if name in recorders:
                recorders[name].warn([text])
            else:
                note_after_end(self._services.store, self._services.clock, self._job, name, [text])

        notes.write(write)

    def write_notes(self) -> None:
        """Writes into the logs of hosts that are down what was left out."""
        self._write_notes({})

    def _conclude(self, recorders: Mapping[str, Recorder], found: dict[str, Observation]) -> None:
        """Adds the lines that JobWork.conclude returns to the first host's log. Called once all hosts are down.

        If the kernel killed a process of a host and the host went on, the end of that host's log says so.
        """
        ends = bool(found) and self._job.secondary not in lifecycle.ENDING_ATTEMPT
        ends = ends and not verdict.is_retried(self._job, self.judge(found))
        lines = self._concluded(partial(self.judge, found) if ends else None, found)
        for host, recorder in recorders.items():
            recorder.note([*_missing(host, found.get(host)), *(lines if host == self._job.hosts[0] else ())])

    def _concluded(self, judge: Callable[[], Verdict] | None, found: Mapping[str, Observation]) -> Sequence[str]:
        """Keeps what the hosts left behind. Waits for a disk that is full, as for that of the state.

        Without `found` the job has failed, perhaps because it filled the disk itself. Then nothing waits.
        """
        waiting = False
        while True:
            try:
                return self._work.conclude(judge, found)
            except OSError as error:
                if not is_full(error):
                    raise
                if not found:
                    self._job_context.notes.add("", f"sagelet: warning: the report could not be kept: {error}")
                    return ()
                if not waiting:
                    log.warning("%s: its report waits for room on the disk: %s", self._job.key.name, error)
                waiting = True
                if self._services.closing.wait(POLL_S):
                    raise Detached from None

    def _lost(self, there: Mapping[str, Handle]) -> dict[str, Observation]:
        """Returns a failed end for each host of a launched job that the runtime no longer knows."""
        error = f"the runtime {self._services.runtime.name!r} lost the host"
        lost = [host for host in self._job.hosts if host not in there] if self._job.launched else []
        return {host: Observation(running=False, error=error) for host in lost}

    def _enforce(self, running: list[Handle], found: Mapping[str, Observation]) -> None:
        """Stops or kills the hosts that still run, as the record and the clock demand, or raises Detached."""
        services = self._services
        if services.closing.is_set():
            raise Detached
        if running:
            self._work.check()
        self._job_context.reload()
        if running and interruptions.due(self._job, services.clock.now_ms()):
            self._job_context.move(SecondaryStatus.INTERRUPTED)
        if running:
            services.disk.check(self._job.id)
            faults.training(self._job, services.clock.now_ms())
        if self._job.secondary in RUNNING:
            self._job_context.enforce_limits()
            self._heed_cluster(found)
            self._notice_failure(found)
        deadline = self._deadline()
        if deadline is not None:
            self._take_down(running, deadline)

    def _heed_cluster(self, found: Mapping[str, Observation]) -> None:
        """Handles hosts that the cluster took away.

        This is not a failure: the job's time is over, or the job starts again.
        """
        now = self._services.clock.now_ms()
        if any(host.time_over for host in found.values()):
            self._job_context.apply(lambda job: lifecycle.request_stop(job, StopCause.MAX_RUNTIME, now))
            return
        cause = next((host.error for host in found.values() if host.interrupted), None)
        if cause is not None and self._job.secondary in lifecycle.RULES[SecondaryStatus.INTERRUPTED].follows:
            self._job_context.move(SecondaryStatus.INTERRUPTED, f"The instances were taken away: {cause}")

    def _notice_failure(self, found: Mapping[str, Observation]) -> None:
        if self._failed_ms is None and any(verdict.failed(found[host], self._work.end_notes(host)) for host in found):
            self._failed_ms = self._services.clock.now_ms()

    def _deadline(self) -> int | None:
        """Returns when the hosts are to be killed, ms since the epoch. None if there is no reason to end them."""
        deadlines = []
        if self._failed_ms is not None:
            deadlines.append(self._failed_ms + REMAINING_GRACE_SECONDS * 1000)
        if self._job.secondary not in RUNNING:
            since = self._job.stop_ms or self._job.transitions[-1].start_ms
            deadlines.append(since + self._services.settings.stop_grace_seconds * 1000)
        return min(deadlines, default=None)

    def _take_down(self, running: list[Handle], deadline: int) -> None:
        """Sends SIGTERM once, and SIGKILL at `deadline` (ms since the epoch), the end of the grace period."""
        if not self._asked_to_stop:
            self._asked_to_stop = True
            self._signal(running, force=False)
        elif not self._killed and self._services.clock.now_ms() >= deadline:
            self._killed = True
            self._signal(running, force=True)

    def _signal(self, handles: list[Handle], *, force: bool) -> None:
        for handle in handles:
            failpoint(Failpoint.BEFORE_SIGNAL)
            self._job_context.patiently(partial(self._services.runtime.stop, handle, force=force))
            failpoint(Failpoint.AFTER_SIGNAL)

    def _observe(self, handle: Handle) -> Observation:
        return self._job_context.patiently(lambda: self._services.runtime.observe(handle))

    def judge(self, found: dict[str, Observation]) -> Verdict:
        if not found and self._job.stop_cause is None:
            return verdict.internal_error(f"the runtime {self._services.runtime.name!r} lost the job's hosts")
        return verdict.judge(self._job, found, {host: self._work.end_notes(host) for host in found})

    def find(self) -> list[Handle]:
        return self._job_context.patiently(lambda: self._services.runtime.find(self._job.launch_id))

    def reap(self) -> None:
        self._job_context.patiently(lambda: self._services.runtime.reap(self._job.launch_id))
        self._remove_scratch()
        self._work.release()
        failpoint(Failpoint.AFTER_REAP)

    def _remove_scratch(self) -> None:
        for name in self._job.hosts:
            try:
                remove_tree(self._directories.host(name).scratch)
            except DirectoryStays as error:
                log.warning("%s: %s", self._job.key.name, error)

    def abandon(self) -> None:
        """Ends all hosts after an internal error.

        Waits without limit for a runtime that does not answer: the job keeps its place and its GPUs as long as it may
        have hosts. Raises Detached.
        """
        for tries in count(1):
            try:
                self._services.runtime.reap(self._job.launch_id)
                self._remove_scratch()
                break
            except RuntimeUnavailable as error:
                if self._job.secondary in STARTS:
                    break
                log.warning("%s: its hosts cannot be removed for now: %s", self._job.key.name, error)
                if self._services.closing.wait(1.0):
                    raise Detached from None
            except Exception as error:
                text = "%s: its hosts could not be removed: %s"
                log.error(text, self._job.key.name, error, exc_info=not is_known(error))
                if tries == MOST_REMOVALS:
                    # The next server that starts removes hosts of ended jobs.
                    why = f"the hosts could not be removed and may still run: {type(error).__name__}: {error}"
                    self._job_context.notes.add("", f"sagelet: warning: {why}; restart the server to end them")
                    break
                if self._services.closing.wait(1.0):
                    raise Detached from None
        try:
            self._conclude({}, {})
        except StoreUnavailable as error:
            log.warning("%s: its compile report is not final: %s", self._job.key.name, error)
        self._work.release()


def _missing(host: str, seen: Observation | None) -> list[str]:
    """Returns a line if the kernel killed a process and the command still succeeded, since nothing else shows it."""
    if seen is None or not seen.out_of_memory or seen.exit_code != 0:
        return []
    return [f"sagelet: the kernel killed a process of {host} for memory; its command went on"]
