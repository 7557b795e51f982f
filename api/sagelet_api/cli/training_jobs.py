"""What commands know of training jobs: their row, their search and their figures."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice

from rich.text import Text

from sagelet_api.cli import kinds
from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ServerRefused
from sagelet_api.cli.kinds import PAGE, Job, Kind
from sagelet_api.cli.output import Column, age, status_text
from sagelet_api.cli.text import iso
from sagelet_api.durations import lasted
from sagelet_api.protocol.members import Parameters
from sagelet_api.servers.server import Server
from sagelet_engine.data.compilation import asks_for_compiler
from sagelet_engine.model.job import JobKind
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.model.spec import TrainingSpec


@dataclass(frozen=True)
class Wanted(kinds.Wanted):
    """Conditions on training jobs. An empty one does not limit."""

    #: None for compiled jobs and others.
    compiled: bool | None = None
    #: The tuning job whose trials they are. Empty for every job.
    parent: str = ""
    #: False leaves out the trials of tuning jobs.
    children: bool = True

    def expression(self) -> Parameters:
        """Returns parameters of Search. Search has no property for whether a job is compiled."""
        filters = []
        if self.statuses:
            filters.append({"Name": "TrainingJobStatus", "Operator": "In", "Value": ",".join(self.statuses)})
        if self.name_contains:
            filters.append({"Name": "TrainingJobName", "Operator": "Contains", "Value": self.name_contains})
        if self.since is not None:
            value = self.since.isoformat(timespec="milliseconds")
            filters.append({"Name": "CreationTime", "Operator": "GreaterThanOrEqualTo", "Value": value})
        return {"SearchExpression": {"Filters": filters}} if filters else {}

    def matches(self, job: Job) -> bool:
        tuning = job.get("TuningJobArn", "").rpartition("/")[2]
        if tuning != self.parent if self.parent else tuning and not self.children:
            return False
        return self.compiled is None or self.compiled is asks_for_compiler(TrainingSpec.of(job))


def find(aws: Aws, wanted: Wanted, limit: int | None) -> list[Job]:
    """Returns jobs as Search shows them, the newest first. Raises ServerRefused, NoServer."""
    return list(islice((job for job in _search(aws, wanted) if wanted.matches(job)), limit))


def _search(aws: Aws, wanted: Wanted) -> Iterator[Job]:
    order = {"SortBy": "CreationTime", "SortOrder": "Descending", "MaxResults": PAGE}
    for page in aws.pages("sagemaker", "search", Resource="TrainingJob", **order, **wanted.expression()):
        for result in page["Results"]:
            yield result["TrainingJob"]


def model_of(aws: Aws, job: Job) -> str:
    """Returns the address of the model that is in S3. Empty if there is none, although ModelArtifacts, as AWS's, always
    has an address.

    If the server refuses to look, the text says so: the command has to tell how the job went all the same.
    """
    address = str(job["ModelArtifacts"]["S3ModelArtifacts"])
    uri = S3Uri.parse(address)
    try:
        # The first key that begins with the model's address is the model itself, if that is one object.
        page = aws.call("s3", "list_objects_v2", Bucket=uri.bucket, Prefix=uri.key, MaxKeys=1)
    except ServerRefused as refused:
        return "" if refused.code == "NoSuchBucket" else f"whether {address} is there: {refused.code}"
    keys = [one["Key"] for one in page.get("Contents", [])]
    return address if keys == [uri.key] or (keys and address.endswith("/")) else ""


def activity(server: Server, job: Job) -> str:
    """Returns what a training job does now, `compiling, step 1, 38 s`. Empty if it is unknown."""
    if job["SecondaryStatus"] != "Training":
        return ""
    return str(TRAINING.ask(server, job["TrainingJobName"], "progress")["text"])


def instances(job: Job) -> str:
    """Returns `1 x ml.p3.2xlarge`."""
    config = job["ResourceConfig"]
    groups = config.get("InstanceGroups") or [config]
    return ", ".join(f"{group['InstanceCount']} x {group['InstanceType']}" for group in groups)


def trained_seconds(job: Job, now: datetime) -> int | None:
    """Returns the whole seconds of training, so far or in total. None if they are not known yet."""
    if "TrainingTimeInSeconds" in job:
        return int(job["TrainingTimeInSeconds"])
    if "TrainingStartTime" not in job:
        return None
    start: datetime = job["TrainingStartTime"]
    end: datetime = job.get("TrainingEndTime", now)
    return max(0, int((end - start).total_seconds()))


def in_words(job: Job, doing: str) -> str:
    """Returns `my-job: Training, 1 min 2 s: compiling, step 1, 38 s`. In other statuses AWS's message."""
    now, last = datetime.now(timezone.utc), job["SecondaryStatusTransitions"][-1]
    since: datetime = last["StartTime"]
    words = doing if last["Status"] == "Training" else last.get("StatusMessage", "")
    took = lasted(max(0, int((now - since).total_seconds())))
    return f"{job['TrainingJobName']}: {last['Status']}, {took}" + (f": {words}" if words else "")


def _outcome(aws: Aws, job: Job) -> Iterator[str]:
    if "TrainingTimeInSeconds" in job:
        yield f"trained {lasted(job['TrainingTimeInSeconds'])}, billable {job['BillableTimeInSeconds']} s"
    if model := model_of(aws, job):
        yield model
    elif job["TrainingJobStatus"] != "Failed":
        yield "it left no model"


def _status(job: Job) -> Text:
    """Returns the status. While a job runs, the secondary status is more precise."""
    status = job["TrainingJobStatus"]
    return status_text(status, job["SecondaryStatus"] if status == "InProgress" else status)


def _trained(job: Job) -> str | None:
    seconds = trained_seconds(job, datetime.now(timezone.utc))
    return None if seconds is None else lasted(seconds)


def _trained_plain(job: Job) -> str | None:
    seconds = trained_seconds(job, datetime.now(timezone.utc))
    return None if seconds is None else str(seconds)


def _host_count(job: Job) -> int:
    config = job["ResourceConfig"]
    return sum(group["InstanceCount"] for group in config.get("InstanceGroups") or [config])


TRAINING = Kind(
    noun="TrainingJob",
    operations="training_job",
    words="training job",
    command="sagelet",
    lists="sagelet jobs",
    path="jobs",
    columns=(
        Column("NAME", lambda job: job["TrainingJobName"]),
        Column("STATUS", _status, plain=lambda job: job["TrainingJobStatus"]),
        Column("CREATED", lambda job: age(job["CreationTime"]), plain=lambda job: iso(job["CreationTime"]), optional=1),
        Column("TRAINED", _trained, plain=_trained_plain, optional=2, right=True),
        Column("COMPILER", lambda job: "yes" if asks_for_compiler(TrainingSpec.of(job)) else "no", optional=4),
        Column("INSTANCES", instances, optional=3),
    ),
    outcome=lambda aws, job: [*_outcome(aws, job)],
    doing=lambda server, job: in_words(job, activity(server, job)),
    hosts=_host_count,
    log_group=JobKind.TRAINING.log_group,
    offers="jobs, describe, doctor, logs, wait, stop and delete",
    precise="SecondaryStatus",
)
