"""Collects the comparison's inputs: record, log, metrics, compile report, scripts, and the place of the data."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sagelet_engine.comparison import trainer_log
from sagelet_engine.comparison.facts import ChannelFacts, JobFacts
from sagelet_engine.comparison.trainer_log import TrainerLog
from sagelet_engine.data.channels.sources import relative_path
from sagelet_engine.data.compilation import asks_for_compiler
from sagelet_engine.instances.bill import bill
from sagelet_engine.model.log_events import LogStream
from sagelet_engine.model.objects import ObjectInfo, ObjectNotFound, ObjectStore, S3Uri
from sagelet_engine.model.principal import owner
from sagelet_engine.model.series import Sample
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.reports import code_digest, compile_reports
from sagelet_engine.reports.doctor_inputs import setup_of
from sagelet_engine.store.jobs import Store
from sagelet_engine.telemetry.compiler.report import CompilerReport

#: The most objects of a channel that are looked at. If there are more, only the URI counts.
MOST_OBJECTS = 100_000
#: Number of lines in memory at once.
LINES = 10_000


@dataclass(frozen=True)
class ComparisonInputs:
    """Collects the facts of jobs. `data`: the data directory."""

    store: Store
    data: Path
    objects: ObjectStore

    def of(self, job: TrainingJob, now_ms: int) -> JobFacts:
        setup = setup_of(job)
        compilation = job.compilation
        report = compile_reports.current(self.data, job) or CompilerReport()
        return JobFacts(
            name=job.key.name,
            account=job.key.account,
            region=job.key.region,
            status=job.status.value,
            bill=bill(job, now_ms),
            asked=asks_for_compiler(job.spec),
            compiled=report.compiled or (compilation is not None and compilation.compiled),
            compiler=report.compiler,
            reason="" if compilation is None or compilation.compiled else compilation.reason,
            stand_in=job.stand_in,
            image=job.spec.image,
            hyperparameters=setup.hyperparameters,
            channels=tuple(self._channels(job)),
            code=code_digest.of(self.data, job),
            spot=job.spec.spot,
            attempt=job.attempt,
            started_ms=job.training_start_ms,
            training_seconds=job.training_seconds,
            billable_seconds=job.billable_seconds,
            log=self._log(job),
            metrics=self._metrics(job),
            report=report,
        )

    # --- data and scripts -------------------------------------------------------------------------------------

    def _channels(self, job: TrainingJob) -> Iterator[ChannelFacts]:
        for channel in job.spec.channels:
            system = channel.file_system
            if system is not None:
                mode = "rw" if system.writable else "ro"
                yield ChannelFacts(channel.name, f"{system.path} {mode} {system.id} {system.type}")
                continue
            found = self._objects(job, channel.uri)
            newest = max((one.modified_ms for one in found), default=0)
            yield ChannelFacts(channel.name, channel.url, _fingerprint(found, channel.url), newest)

    def _objects(self, job: TrainingJob, uri: S3Uri) -> list[ObjectInfo]:
        """Returns the current objects under a prefix, or none if there are too many. A manifest counts as itself.

        Only the owner compares jobs: by the control endpoints and the pages.
        """
        try:
            listed = self.objects.list(owner(job.key.account), uri.bucket, uri.key)
            found = list(islice(listed, MOST_OBJECTS + 1))
        except ObjectNotFound:
            return []
        return found if len(found) <= MOST_OBJECTS else []

    # --- what it printed --------------------------------------------------------------------------------------

    def _log(self, job: TrainingJob) -> TrainerLog:
        """Returns the log of the first host whose Trainer prints. The Trainers of all other hosts are silent."""
        streams = self.store.logs.streams(job.key.account, job.key.region, f"{job.key.name}/")
        for host in job.hosts:
            own = [stream for stream in streams if stream.job_id == job.id and stream.host == host]
            newest = max(own, key=lambda stream: stream.created_ms, default=None)
            if newest is not None and (found := trainer_log.parse(self._lines(newest))) != TrainerLog():
                return found
        return TrainerLog()

    def _lines(self, stream: LogStream) -> Iterator[str]:
        """Yields the lines that the Trainer may have printed, out of maybe a million."""
        place = 0
        while found := self.store.logs.holding(stream, trainer_log.MARKS, at_least=place, limit=LINES):
            yield from (text for _, text in found)
            place = found[-1][0] + 1

    def _metrics(self, job: TrainingJob) -> dict[str, tuple[Sample, ...]]:
        # Each attempt begins again, and so do its metrics.
        since = job.attempt_start_ms or 0
        found = {one.name: self.store.points.of_job(job.id, one.name) for one in job.spec.metric_definitions}
        return {name: tuple(one for one in samples if one.time_ms >= since) for name, samples in found.items()}


def _fingerprint(objects: list[ObjectInfo], uri: str) -> str:
    """Returns a hash of the listing. Empty if there are no objects, or they were not looked at."""
    prefix = S3Uri.parse(uri).key
    parts = ((relative_path(one.key, prefix), one.etag, str(one.size)) for one in objects)
    return code_digest.digest(parts) if objects else ""
