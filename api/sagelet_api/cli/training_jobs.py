"""Finds training jobs for commands, through AWS's API."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

import click

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ServerRefused, ask
from sagelet_api.cli.options import server_in
from sagelet_api.protocol.members import Output, Parameters
from sagelet_api.servers.server import Server
from sagelet_engine.base.errors import SageletError
from sagelet_engine.data.compilation import asks_for_compiler
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.model.spec import TrainingSpec

Job = Output
STATUSES = ("InProgress", "Completed", "Failed", "Stopping", "Stopped")
ENDED = frozenset({"Completed", "Failed", "Stopped"})
#: The most jobs that Search returns at once.
PAGE = 100


class NoSuchJob(SageletError):
    """The account has no such training job in the region."""


class JobName(click.ParamType[str]):
    """Completed from the server's jobs."""

    name = "job"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list["click.shell_completion.CompletionItem"]:
        from click.shell_completion import CompletionItem

        try:
            jobs = find(Aws(server_in(ctx)), Wanted(name_contains=incomplete), PAGE)
            names = [job["TrainingJobName"] for job in jobs]
        except SageletError:  # A message would garble the line that the user is typing.
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@dataclass(frozen=True)
class Wanted:
    """Conditions on jobs. An empty one does not limit."""

    statuses: Sequence[str] = ()
    name_contains: str = ""
    since: datetime | None = None
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


def describe(aws: Aws, server: Server, name: str) -> Job:
    """Returns a job. Raises NoSuchJob, ServerRefused, NoServer."""
    try:
        with known(server, name):
            return aws.call("sagemaker", "describe_training_job", TrainingJobName=name)
    except NoSuchJob as missing:
        if is_processing(aws, name):
            raise NoSuchJob(
                f"{name} is a processing job: `sagelet processing` has list, describe, doctor, logs, wait, stop "
                "and delete"
            ) from missing
        raise


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


def is_processing(aws: Aws, name: str) -> bool:
    """True if there is a processing job of this name."""
    try:
        aws.call("sagemaker", "describe_processing_job", ProcessingJobName=name)
    except ServerRefused:
        return False
    return True


@contextmanager
def known(server: Server, name: str) -> Iterator[None]:
    """Replaces AWS's error for a missing job, which does not name account and region. Those are mostly the mistake."""
    try:
        yield
    except ServerRefused as refused:
        if refused.code != "404" and "Requested resource not found" not in str(refused):
            raise
        raise NoSuchJob(
            f"Account {server.account} has no training job {name} in {server.region} on {server.words}: "
            "`sagelet jobs` lists them; --account and --region name others"
        ) from refused


def activity(server: Server, job: Job) -> str:
    """Returns what a training job does now, `compiling, step 1, 38 s`. Empty if it is unknown."""
    if job["SecondaryStatus"] != "Training":
        return ""
    name = job["TrainingJobName"]
    with known(server, name):
        return str(ask(server, "GET", server.job_path(name, "progress"))["text"])


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
