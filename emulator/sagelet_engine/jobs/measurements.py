"""What the comparison gets to see of a job: record, log, metrics, compile report, scripts, and where its data is."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from sagelet_engine.comparison import trainer_log
from sagelet_engine.comparison.facts import ChannelFacts, JobFacts
from sagelet_engine.comparison.trainer_log import TrainerLog
from sagelet_engine.data.channels.sources import relative_path
from sagelet_engine.data.objects import ObjectInfo, ObjectNotFound, ObjectStore, S3Uri
from sagelet_engine.instances.bill import bill
from sagelet_engine.jobs import code_digest, compile_reports
from sagelet_engine.jobs.compilation import asks_for_compiler
from sagelet_engine.jobs.consultation import setup_of
from sagelet_engine.jobs.record import TrainingJob
from sagelet_engine.jobs.store import Store
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.events import LogStream
from sagelet_engine.telemetry.series import Sample

#: Objects of a channel that are looked at; of one with more only the URI counts.
MOST_OBJECTS = 100_000
#: Lines that are in memory at once.
LINES = 10_000


@dataclass(frozen=True)
class Measurements:
    """`data`: the data directory."""

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
            asked=asks_for_compiler(job.request),
            compiled=report.compiled or (compilation is not None and compilation.compiled),
            reason="" if compilation is None or compilation.compiled else compilation.reason,
            stand_in=job.stand_in,
            image=str(job.request["AlgorithmSpecification"].get("TrainingImage", "")),
            hyperparameters=setup.hyperparameters,
            channels=tuple(self._channels(job)),
            code=code_digest.of(self.data, job),
            spot=job.spot,
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
        for channel in job.request.get("InputDataConfig", []):
            source = channel["DataSource"]
            if "S3DataSource" not in source:
                given = source.get("FileSystemDataSource", {})
                yield ChannelFacts(channel["ChannelName"], "".join(f"{given[name]} " for name in sorted(given)).strip())
                continue
            uri = str(source["S3DataSource"]["S3Uri"])
            found = self._objects(job, S3Uri.parse(uri))
            newest = max((one.modified_ms for one in found), default=0)
            yield ChannelFacts(channel["ChannelName"], uri, _fingerprint(found, uri), newest)

    def _objects(self, job: TrainingJob, uri: S3Uri) -> list[ObjectInfo]:
        """What is under a prefix now; none where that is too much to look at. A manifest is itself what is there."""
        try:
            listed = self.objects.list(job.key.account, job.key.region, uri.bucket, uri.key)
            found = list(islice(listed, MOST_OBJECTS + 1))
        except ObjectNotFound:
            return []
        return found if len(found) <= MOST_OBJECTS else []

    # --- what it printed --------------------------------------------------------------------------------------

    def _log(self, job: TrainingJob) -> TrainerLog:
        """Of the first host that a Trainer prints on: all others' Trainers are silent."""
        streams = self.store.streams(job.key.account, job.key.region, f"{job.key.name}/")
        for host in job.hosts:
            own = [stream for stream in streams if stream.job_id == job.id and stream.host == host]
            newest = max(own, key=lambda stream: stream.created_ms, default=None)
            if newest is not None and (found := trainer_log.parse(self._lines(newest))) != TrainerLog():
                return found
        return TrainerLog()

    def _lines(self, stream: LogStream) -> Iterator[str]:
        """The lines that the Trainer may have printed, out of a million perhaps."""
        place = 0
        while found := self.store.lines_holding(stream.id, trainer_log.MARKS, at_least=place, limit=LINES):
            yield from (text for _, text in found)
            place = found[-1][0] + 1

    def _metrics(self, job: TrainingJob) -> dict[str, tuple[Sample, ...]]:
        definitions: list[dict[str, Any]] = job.request["AlgorithmSpecification"].get("MetricDefinitions", [])
        # An attempt starts anew, and so do its metrics.
        since = job.attempt_start_ms or 0
        found = {one["Name"]: self.store.points.of_job(job.id, one["Name"]) for one in definitions}
        return {name: tuple(one for one in samples if one.time_ms >= since) for name, samples in found.items()}


def _fingerprint(objects: list[ObjectInfo], uri: str) -> str:
    """Empty where nothing is there, or not looked at."""
    prefix = S3Uri.parse(uri).key
    parts = ((relative_path(one.key, prefix), one.etag, str(one.size)) for one in objects)
    return code_digest.digest(parts) if objects else ""
