"""Watches the hosts of an attempt until all are down; ends them when the record, the clock or a failed host demands."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from sagelet_engine.data.channels.pipe_mode import PipeFeed
from sagelet_engine.data.checkpoints import Checkpoints, Syncer
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.data.removal import DirectoryStays, remove_tree
from sagelet_engine.database import StoreUnavailable
from sagelet_engine.errors import RuntimeUnavailable
from sagelet_engine.failpoints import Failpoint, failpoint
from sagelet_engine.jobs import compilation, faults, interruptions, lifecycle, verdict
from sagelet_engine.jobs.compile_reports import CompileReports, Findings
from sagelet_engine.jobs.consultation import Consultation, End
from sagelet_engine.jobs.metering import usage_sampler
from sagelet_engine.jobs.record import SecondaryStatus, StopCause, TrainingJob, Verdict
from sagelet_engine.jobs.under_way import Detached, JobUnderWay, Services
from sagelet_engine.runtimes.port import Handle, Observation
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.sampling import ReportSampler
from sagelet_engine.telemetry.output import Follower, Mailbox, Recorder

log = logging.getLogger(__name__)
RUNNING = lifecycle.RUNNING
#: No host of an attempt is started before Training.
STARTS = (SecondaryStatus.STARTING, SecondaryStatus.PENDING, SecondaryStatus.DOWNLOADING)

#: Seconds between looks at the clock and at the job's record while nothing happens.
PULSE = 0.5
#: Lines that go into the store at once.
BATCH = 5000
#: Seconds between SIGTERM and SIGKILL for the hosts that still run when another has failed. AWS documents none.
REMAINING_GRACE_SECONDS = 10


class HostWatch:
    """The hosts of one attempt; `checkpoints` are synced while they are watched, `pipes` are ended with them."""

    def __init__(
        self,
        services: Services,
        under_way: JobUnderWay,
        directories: JobDirectories,
        checkpoints: Checkpoints,
        pipes: PipeFeed,
    ) -> None:
        self._services = services
        self._under_way = under_way
        self._directories = directories
        self._checkpoints = checkpoints
        self._pipes = pipes
        self._reports = CompileReports(services.store, services.metrics, services.clock, directories)
        self._consultation = Consultation(services.store, services.settings.data)
        self._asked_to_stop = False
        self._killed = False
        #: When a host was seen to have failed while others ran, ms since the epoch.
        self._failed_ms: int | None = None

    @property
    def _job(self) -> TrainingJob:
        return self._under_way.job

    def until_down(self, handles: list[Handle]) -> dict[str, Observation]:
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
        services.disk.watch(job.id, self._directories.root)
        syncer = Syncer(self._checkpoints, job.key.name, services.closing)
        syncer.start()
        sampler = usage_sampler(
            job, self._directories, handles, runtime=services.runtime, store=services.store, sink=services.metrics,
            clock=services.clock, closing=services.closing,
        )  # fmt: skip
        sampler.start()
        reporter = ReportSampler(lambda: self._reports.look(job), services.closing)
        reporter.start()
        try:
            for handle in handles:
                Follower(services.runtime, handle, recorders[handle.host].position, mailbox).start()
            while by_host.keys() - found.keys():
                for output in mailbox.drain(BATCH, PULSE):
                    if output.fault is not None:
                        raise output.fault
                    if output.lines is None:
                        found[output.host] = self._observe(by_host[output.host])
                    else:
                        recorders[output.host].record(output.lines)
                for host, text in self._checkpoints.warnings():
                    if host in recorders:
                        recorders[host].warn([text])
                self._notice_compilation()
                self._enforce([handle for handle in handles if handle.host not in found], found)
        finally:
            mailbox.close()
            sampler.stop()
            reporter.stop()
            syncer.stop()
            services.disk.forget(job.id)
        found = {host: found[host] for host in job.hosts if host in found}
        failpoint(Failpoint.AFTER_HOSTS)
        self._conclude_report(recorders, found)
        failpoint(Failpoint.AFTER_REPORT)
        return found

    def _conclude_report(self, recorders: Mapping[str, Recorder], found: dict[str, Observation]) -> None:
        """All hosts are down: keeps the compile report, and says what is in it at the end of the first host's log.

        A host that went on without a process that the kernel killed says so at the end of its own.
        The doctor has nothing to say of an attempt that is not the job's end.
        """
        ends = bool(found) and self._job.secondary not in lifecycle.ENDING_ATTEMPT
        lines: Sequence[str] = ()
        try:
            lines = self._reports.conclude(self._job, partial(self._consult, found) if ends else None)
        except OSError as error:
            log.warning("%s: its compile report could not be kept: %s", self._job.key.name, error)
        for host, recorder in recorders.items():
            recorder.note([*_missing(host, found.get(host)), *(lines if host == self._job.hosts[0] else ())])

    def _consult(self, found: dict[str, Observation], report: CompilerReport) -> Findings:
        outcome = self.judge(found)
        return self._consultation.findings(self._job, report, self._services.clock.now_ms(), End(outcome, found))

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
        self._under_way.reload()
        if running and interruptions.due(self._job, services.clock.now_ms()):
            self._under_way.move(SecondaryStatus.INTERRUPTED)
        if running:
            services.disk.check(self._job.id)
            faults.training(self._job, services.clock.now_ms())
        if self._job.secondary in RUNNING:
            self._under_way.enforce_limits()
            self._heed_cluster(found)
            self._notice_failure(found)
        deadline = self._deadline()
        if deadline is not None:
            self._take_down(running, deadline)

    def _heed_cluster(self, found: Mapping[str, Observation]) -> None:
        """What the cluster took away is no failure of the job: its time is over, or it starts again elsewhere."""
        now = self._services.clock.now_ms()
        if any(host.time_over for host in found.values()):
            self._under_way.apply(lambda job: lifecycle.request_stop(job, StopCause.MAX_RUNTIME, now))
            return
        cause = next((host.error for host in found.values() if host.interrupted), None)
        if cause is not None and self._job.secondary in lifecycle.RULES[SecondaryStatus.INTERRUPTED].follows:
            self._under_way.move(SecondaryStatus.INTERRUPTED, f"The instances were taken away: {cause}")

    def _notice_compilation(self) -> None:
        """A job that asks to be compiled and is not says so from when its hosts know."""
        if self._job.secondary in RUNNING and compilation.noticed(self._job, self._directories) is not self._job:
            self._under_way.apply(lambda job: compilation.noticed(job, self._directories))

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
            failpoint(Failpoint.BEFORE_SIGNAL)
            self._under_way.patiently(partial(self._services.runtime.stop, handle, force=force))
            failpoint(Failpoint.AFTER_SIGNAL)

    def _observe(self, handle: Handle) -> Observation:
        return self._under_way.patiently(lambda: self._services.runtime.observe(handle))

    def judge(self, found: dict[str, Observation]) -> Verdict:
        if not found and self._job.stop_cause is None:
            return verdict.internal_error(f"the runtime {self._services.runtime.name!r} lost the job's hosts")
        return verdict.judge(self._job, found, {host: self._failure_file(host) for host in found})

    def _failure_file(self, host: str) -> Path:
        return self._directories.host(host).failure_file

    def find(self) -> list[Handle]:
        return self._under_way.patiently(lambda: self._services.runtime.find(self._job.launch_id))

    def reap(self) -> None:
        self._under_way.patiently(lambda: self._services.runtime.reap(self._job.launch_id))
        self._remove_scratch()
        self._pipes.end()
        failpoint(Failpoint.AFTER_REAP)

    def _remove_scratch(self) -> None:
        for name in self._job.hosts:
            try:
                remove_tree(self._directories.host(name).scratch)
            except DirectoryStays as error:
                log.warning("%s: %s", self._job.key.name, error)

    def abandon(self) -> None:
        """After an internal error nothing of the job may run on.

        A runtime that does not answer is waited for, however long: the job has its place and its GPUs for as long as
        it may have hosts. Raises Detached.
        """
        while True:
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
            except Exception:
                log.exception("%s: its hosts could not be removed", self._job.key.name)
                break
        try:
            self._conclude_report({}, {})
        except StoreUnavailable as error:
            log.warning("%s: its compile report is not final: %s", self._job.key.name, error)
        self._pipes.end()


def _missing(host: str, seen: Observation | None) -> list[str]:
    """Where the command did not fail, nothing else tells of a process that the kernel killed."""
    if seen is None or not seen.out_of_memory or seen.exit_code != 0:
        return []
    return [f"sagelet: the kernel killed a process of {host} for memory; its command went on"]
