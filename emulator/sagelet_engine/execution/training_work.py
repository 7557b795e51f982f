"""The work of a training job: brings in channels, checkpoints, source and compiler, and uploads the model."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.base.volume import is_full
from sagelet_engine.data import compilation, inputconfig
from sagelet_engine.data.artifacts import Uploader
from sagelet_engine.data.channels.pipe_mode import PipeFeed
from sagelet_engine.data.channels.sources import JobObjects
from sagelet_engine.data.checkpoints import Checkpoints
from sagelet_engine.data.directory_sync import Syncer
from sagelet_engine.data.end_notes import end_notes
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.data.staging import Stager
from sagelet_engine.execution.ca_certificates import write_authorities
from sagelet_engine.execution.job_context import JobContext, SupervisorDeps
from sagelet_engine.execution.training_launch import launch_plan
from sagelet_engine.execution.work import HostLine
from sagelet_engine.model.job import Job, Verdict
from sagelet_engine.model.runtime import LaunchPlan, Observation
from sagelet_engine.model.spec import InputMode
from sagelet_engine.model.training import TrainingJob, as_training
from sagelet_engine.model.verdict import EndNotes
from sagelet_engine.reports import compile_reports, known_speeds
from sagelet_engine.reports.compile_reports import CompileReports, Findings
from sagelet_engine.reports.doctor_inputs import DoctorInputs, End
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.sampling import ReportSampler

log = logging.getLogger(__name__)


class TrainingWork:
    """The work of one attempt of a training job. See JobWork for its methods."""

    def __init__(self, services: SupervisorDeps, context: JobContext) -> None:
        self._services = services
        self._job_context = context
        self.directories = JobDirectories.of(services.settings.data, self._job)
        fast = (channel.name for channel in self._job.spec.channels if channel.mode is InputMode.FAST_FILE)
        self.streamed = tuple(f"input/data/{name}" for name in fast)
        self._checkpoints = Checkpoints(services.objects, self._job, self.directories)
        self._pipes = PipeFeed(self._job, self.directories)
        self._reports = CompileReports(services.store, services.metrics, services.clock, self.directories)
        self._doctor_inputs = DoctorInputs(services.store, services.settings.data)

    @property
    def _job(self) -> TrainingJob:
        return as_training(self._job_context.job)

    @staticmethod
    def end_helpers(job: Job, data: Path) -> None:
        """Ends the feeder of Pipe channels."""
        PipeFeed(as_training(job), JobDirectories.of(data, job)).end()

    def end_notes(self, host: str) -> EndNotes:
        return end_notes(self.directories.host(host).failure_file)

    def stage(self, attend: Callable[[], None]) -> None:
        services, job = self._services, self._job
        objects = JobObjects(services.objects, job, attend)
        file_systems, protected = services.settings.file_systems, services.runtime.capabilities.binds_read_only
        for name in job.hosts:
            host = self.directories.host(name)
            Stager(services.objects, job, objects, file_systems, protected=protected).stage(host)
            inputconfig.write(job, name, host)
            write_authorities(services.authority, host.config)
            failpoint(Failpoint.AFTER_STAGING_HOST)
        services.cache.populate(job, self.directories)
        known_speeds.lay_out(services.cache.store, job, self.directories)
        self._pipes.stage(objects)

    def staged(self) -> None:
        self._checkpoints.begin()
        failpoint(Failpoint.AFTER_CHECKPOINTS_BEGIN)

    def plan(self) -> LaunchPlan:
        self._pipes.start()
        services = self._services
        return launch_plan(
            self._job,
            self.directories,
            services.runtime,
            services.endpoint,
            services.settings.file_systems,
            cache=services.cache.serves(self._job),
        )

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Syncs checkpoints and publishes the compile report."""
        job, closing = self._job, self._services.closing
        note = self._job_context.notes.add
        syncer = Syncer(self._checkpoints, job.key.name, closing, note)
        reporter = ReportSampler(lambda: self._reports.look(job, note), closing, note)
        syncer.start()
        reporter.start()
        try:
            yield
        finally:
            reporter.stop()
            syncer.stop()

    def check(self) -> None:
        """Raises the error that ended the feed of a Pipe channel, if any."""
        self._pipes.check()

    def observe(self) -> None:
        """Notes in the record if a job asks for the compiler but is not compiled. Its hosts report that."""
        if compilation.noticed(self._job, self.directories) is not self._job:
            self._job_context.apply(lambda job: compilation.noticed(as_training(job), self.directories))

    def warnings(self) -> list[HostLine]:
        """Returns lines about files that the sync of checkpoints left out."""
        return self._checkpoints.warnings()

    def conclude(self, judge: Callable[[], Verdict] | None, found: Mapping[str, Observation]) -> Sequence[str]:
        """Keeps the compile report. Returns the doctor's findings as lines, but only for the job's last attempt."""

        def consult(report: CompilerReport) -> Findings:
            assert judge is not None
            end = End(judge(), found)
            return self._doctor_inputs.findings(self._job, report, self._services.clock.now_ms(), end)

        try:
            diagnosed = judge is not None and self._services.runtime.capabilities.runs_scripts
            note, cache = self._job_context.notes.add, self._services.cache.store
            lines = self._reports.conclude(self._job, consult if diagnosed else None, note, cache)
            self._note_native_training()
            return lines
        except OSError as error:
            if is_full(error):
                raise
            log.warning("%s: its compile report could not be kept: %s", self._job.key.name, error)
            self._job_context.notes.add("", f"sagelet: warning: the compile report could not be kept: {error}")
            return ()

    def _note_native_training(self) -> None:
        """Notes in the record if nothing was compiled, by what ran in the workers."""
        report = compile_reports.kept(self.directories)
        if report is not None and report.reason:
            self._job_context.apply(lambda job: compilation.trained_natively(as_training(job), report.reason))

    def release(self) -> None:
        """Ends the feeds of Pipe channels."""
        self._pipes.end()

    def save(self) -> None:
        """Brings the checkpoints in S3 up to date."""
        self._checkpoints.sync(final=True)

    def upload(self) -> Sequence[str]:
        """Uploads the model and the other outputs, and puts compiled programs back into the cache."""
        lines = self._services.cache.harvest(self._job, self.directories)
        report = compile_reports.kept(self.directories)
        compiled = report is not None and report.compiled
        if report is not None:
            lines += self._kept_speed(report)
        uploader = Uploader(self._services.objects, self._job, self.directories, with_report=compiled)
        return [*lines, *uploader.upload()]

    def _kept_speed(self, report: CompilerReport) -> list[str]:
        """Keeps how fast the job was. Returns a line if that failed: the job's result is worth more."""
        try:
            known_speeds.keep(self._services.cache.store, self._job, report, self._services.clock.now_ms())
        except OSError as error:
            return [f"sagelet: warning: how fast this job was is not kept for SAGELET_COMPILER=auto: {error}"]
        return []
