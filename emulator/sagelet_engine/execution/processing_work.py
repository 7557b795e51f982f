"""The work of a processing job: brings in its inputs, runs the program as it is given, and uploads its outputs."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sagelet_engine.base.errors import ClientFault
from sagelet_engine.base.volume import is_full
from sagelet_engine.data import processing
from sagelet_engine.data.channels.sources import JobObjects
from sagelet_engine.data.directory_sync import DirectorySync, Syncer
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.doctor.text import log_lines
from sagelet_engine.execution.ca_certificates import write_authorities
from sagelet_engine.execution.job_context import JobContext, SupervisorDeps
from sagelet_engine.execution.launch import Endpoint, common_environment, host_plan
from sagelet_engine.execution.work import HostLine
from sagelet_engine.images.variants import is_training_image
from sagelet_engine.model.job import Job, Verdict
from sagelet_engine.model.processing import ProcessingJob, as_processing
from sagelet_engine.model.runtime import LaunchPlan, Observation
from sagelet_engine.model.verdict import EndNotes
from sagelet_engine.reports import processing_findings
from sagelet_engine.reports.doctor_inputs import End
from sagelet_engine.reports.processing_findings import ProcessingDoctor

log = logging.getLogger(__name__)


class ProcessingWork:
    """The work of one processing job. See JobWork for its methods."""

    streamed: tuple[str, ...] = ()

    def __init__(self, services: SupervisorDeps, context: JobContext) -> None:
        self._services = services
        self._job_context = context
        self.directories = JobDirectories.of(services.settings.data, self._job)
        synced = processing.continuous(self._job)
        self._outputs = DirectorySync(services.objects, self._job, self.directories, synced)
        self._doctor = ProcessingDoctor(services.store, services.settings.data)

    @property
    def _job(self) -> ProcessingJob:
        return as_processing(self._job_context.job)

    @staticmethod
    def end_helpers(job: Job, data: Path) -> None:
        """Does nothing: a processing job has no process beside its hosts."""

    def end_notes(self, host: str) -> EndNotes:  # noqa: ARG002 - only the exit code decides, as on AWS
        return EndNotes(explanation=processing_findings.explanation(self.directories))

    def stage(self, attend: Callable[[], None]) -> None:
        objects = JobObjects(self._services.objects, self._job, attend)
        for name in self._job.hosts:
            host = self.directories.host(name)
            processing.stage(self._job, name, host, objects)
            write_authorities(self._services.authority, host.opt_ml / processing.CONFIG)

    def staged(self) -> None:
        self._outputs.begin()

    def plan(self) -> LaunchPlan:
        job, services = self._job, self._services
        return launch_plan(job, self.directories, services.endpoint, services.runtime.endpoint_host)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Uploads the outputs with S3UploadMode Continuous."""
        syncer = Syncer(self._outputs, self._job.key.name, self._services.closing, self._job_context.notes.add)
        syncer.start()
        try:
            yield
        finally:
            syncer.stop()

    def check(self) -> None:
        """Does nothing: no background work of a processing job can end it."""

    def observe(self) -> None:
        """Does nothing: hosts of a processing job report nothing about themselves."""

    def warnings(self) -> list[HostLine]:
        return self._outputs.warnings()

    def conclude(self, judge: Callable[[], Verdict] | None, found: Mapping[str, Observation]) -> Sequence[str]:
        """Notes the ExitMessage in the record, and keeps the doctor's findings. Returns these as lines."""
        message = processing.exit_message(self._job, self.directories)
        if message != self._job.exit_message:
            self._job_context.apply(lambda job: replace(as_processing(job), exit_message=message))
        if judge is None or not self._services.runtime.capabilities.runs_scripts:
            return ()
        outcome = judge()
        findings = self._doctor.findings(self._job, End(outcome, found))
        try:
            processing_findings.keep(self.directories, findings, outcome.status.value)
        except OSError as error:
            if is_full(error):
                raise
            log.warning("%s: its findings could not be kept: %s", self._job.key.name, error)
            why = f"`sagelet processing doctor` will not find them: {error}"
            self._job_context.notes.add("", f"sagelet: warning: these findings could not be kept; {why}")
        return list(log_lines(self._job.key.name, findings, "sagelet processing doctor"))

    def release(self) -> None:
        """Does nothing: nothing serves the hosts of a processing job but the endpoint."""

    def save(self) -> None:
        """Brings the continuous outputs in S3 up to date."""
        self._outputs.sync(final=True)

    def upload(self) -> Sequence[str]:
        """Uploads the other outputs, also those of a failed or stopped job."""
        return processing.OutputUploader(self._services.objects, self._job, self.directories).upload()


def launch_plan(job: ProcessingJob, directories: JobDirectories, endpoint: Endpoint, host: str) -> LaunchPlan:
    """Returns the plan of what the runtime starts. No toolkit is around the program, as on AWS.

    `host`: the name by which the hosts reach this machine. Raises ClientFault.
    """
    assert job.image is not None
    spec = job.spec
    if not spec.entrypoint and not spec.arguments and is_training_image(job.image):
        raise ClientFault(
            f"AppSpecification.ContainerEntrypoint: {job.image}, which stands in for {spec.image}, has no program of "
            "its own; name the command to run"
        )
    return LaunchPlan(
        job_id=job.launch_id,
        job_name=job.key.name,
        image=job.image,
        hosts=tuple(host_plan(job, directories, name) for name in job.hosts),
        entrypoint=spec.entrypoint or None,
        arguments=spec.arguments,
        environment=environment(job, endpoint, host),
        network_isolation=spec.network_isolation,
    )


def environment(job: ProcessingJob, endpoint: Endpoint, host: str) -> dict[str, str]:
    """Returns the environment of a host, with sagelet's endpoint in place of AWS's."""
    return {
        "PROCESSING_JOB_NAME": job.key.name,
        "PROCESSING_JOB_ARN": job.key.arn,
        **common_environment(job, endpoint, host, f"/opt/ml/{processing.CONFIG}"),
        **job.spec.environment,
    }
