"""What commands know of executions of pipelines."""

from collections.abc import Iterator

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.kinds import Job, Kind, NoSuchJob, known
from sagelet_api.cli.output import Column, age, status_text
from sagelet_api.cli.text import iso
from sagelet_api.servers.server import Server
from sagelet_engine.model.arns import arn

#: The command that lists pipelines.
LISTS = "sagelet pipelines list"


def label(execution: str) -> str:
    """Returns `PIPELINE/ID` of an execution's ARN."""
    return execution.partition(":pipeline/")[2].replace("/execution/", "/")


def executions_of(aws: Aws, server: Server, pipeline: str) -> Iterator[Job]:
    """Yields the executions of a pipeline, the newest first. Raises NoSuchJob, ServerRefused, NoServer."""
    with known(server, f"pipeline {pipeline}", LISTS):
        for page in aws.pages("sagemaker", "list_pipeline_executions", PipelineName=pipeline, SortOrder="Descending"):
            yield from page["PipelineExecutionSummaries"]


def arn_of(aws: Aws, server: Server, execution: str) -> str:
    """Returns the ARN of what a user has typed. Raises NoSuchJob."""
    if execution.startswith("arn:"):
        return execution
    pipeline, slash, execution_id = execution.partition("/")
    if slash:
        return arn("sagemaker", server.region, server.account, f"pipeline/{pipeline.lower()}/execution/{execution_id}")
    newest = next(executions_of(aws, server, pipeline), None)
    if newest is None:
        raise NoSuchJob(f"{pipeline} was never started: `sagelet pipelines start {pipeline}`")
    return EXECUTION.name(newest)


EXECUTION = Kind(
    noun="PipelineExecution",
    operations="pipeline_execution",
    words="execution",
    command="sagelet pipelines",
    lists="sagelet pipelines executions PIPELINE",
    path="pipelines",
    columns=(
        Column("EXECUTION", lambda job: label(job["PipelineExecutionArn"])),
        Column("STATUS", lambda job: status_text(job["PipelineExecutionStatus"])),
        Column("STARTED", lambda job: age(job["StartTime"]), plain=lambda job: iso(job["StartTime"])),
        Column("REASON", lambda job: job.get("PipelineExecutionFailureReason"), optional=1),
    ),
    outcome=lambda _aws, _job: (),
    doing=lambda _server, job: f"{label(job['PipelineExecutionArn'])}: {job['PipelineExecutionStatus']}",
    key="Arn",
    label=label,
    statuses=("Executing", "Stopping", "Stopped", "Failed", "Succeeded"),
    ended=frozenset({"Succeeded", "Failed", "Stopped"}),
)
