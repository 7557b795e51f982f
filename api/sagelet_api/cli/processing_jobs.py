"""What commands know of processing jobs."""

from collections.abc import Iterator
from datetime import datetime, timezone

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.kinds import Job, Kind
from sagelet_api.cli.output import Column, age, status_text
from sagelet_api.cli.text import iso
from sagelet_api.durations import lasted
from sagelet_api.servers.server import Server
from sagelet_engine.model.job import JobKind


def processed_seconds(job: Job) -> int:
    """Returns the seconds of processing, so far or in total: whole epoch seconds, end minus start, as the bill and the
    page count them (`Job.training_seconds`).
    """
    start: datetime = job["ProcessingStartTime"]
    end: datetime = job.get("ProcessingEndTime", datetime.now(timezone.utc))
    return max(0, int(end.timestamp()) - int(start.timestamp()))


def _outcome(_aws: Aws, job: Job) -> Iterator[str]:
    if "ProcessingEndTime" in job:
        yield f"processed {lasted(processed_seconds(job))}"
    if job.get("ExitMessage"):
        yield job["ExitMessage"]


def _doing(_server: Server, job: Job) -> str:
    since = f", {lasted(processed_seconds(job))}" if "ProcessingStartTime" in job else ""
    return f"{job['ProcessingJobName']}: {job['ProcessingJobStatus']}{since}"


PROCESSING = Kind(
    noun="ProcessingJob",
    operations="processing_job",
    words="processing job",
    command="sagelet processing",
    lists="sagelet processing list",
    path="processing",
    columns=(
        Column("NAME", lambda job: job["ProcessingJobName"]),
        Column(
            "STATUS",
            lambda job: status_text(job["ProcessingJobStatus"]),
            plain=lambda job: job["ProcessingJobStatus"],
        ),
        Column("CREATED", lambda job: age(job["CreationTime"]), plain=lambda job: iso(job["CreationTime"]), optional=1),
        Column("MESSAGE", lambda job: str(job.get("FailureReason") or job.get("ExitMessage") or ""), optional=2),
    ),
    outcome=lambda aws, job: [*_outcome(aws, job)],
    doing=_doing,
    hosts=lambda job: int(job["ProcessingResources"]["ClusterConfig"].get("InstanceCount", 1)),
    offers="list, describe, doctor, logs, wait, stop and delete",
    log_group=JobKind.PROCESSING.log_group,
)
