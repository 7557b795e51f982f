"""`sagelet describe`: shows everything about one job on a page."""

from datetime import datetime, timezone
from typing import Any

import click
from rich.text import Text

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.explanation import Pairs, explanation
from sagelet_api.cli.kind_rows import described, named
from sagelet_api.cli.kinds import Job
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import age, boxed, console, facts, status_text
from sagelet_api.cli.text import echo_json, iso
from sagelet_api.cli.training_jobs import TRAINING, activity, instances, model_of, trained_seconds
from sagelet_api.durations import lasted
from sagelet_api.protocol.members import Output
from sagelet_api.servers.server import Server
from sagelet_engine.base.wire import JsonObject


@click.command()
@named(TRAINING)
@json_option
@server_options
def describe(name: str, as_json: bool, server: Server) -> None:
    """Show everything about a job.

    Shows the status and its reason, what to do about a failure, times, bill, inputs, outputs, metrics, and what the
    compiler does.
    --json gives the answer of DescribeTrainingJob. Its member Sagelet says whether the job is compiled, what a training
    job does now, and what the doctor found.
    """
    aws = Aws(server)
    found = described(TRAINING, aws, server, name)
    compilation = TRAINING.ask(server, name, "compilation")
    findings = TRAINING.ask(server, name, "doctor")["findings"]
    doing = activity(server, found)
    if as_json:
        echo_json({**found, "Sagelet": {"Compilation": compilation, "Activity": doing or None, "Findings": findings}})
        return
    out = console()
    state = [*_state(found, doing), *explanation(findings, f"sagelet doctor {name}")]
    out.print(facts([*state, *_times(found), *_training(found, compilation), *_data(aws, found)]))
    if found.get("HyperParameters"):
        out.print("\n[bold]Hyperparameters[/]")
        out.print(facts(sorted(found["HyperParameters"].items())))
    if found.get("FinalMetricDataList"):
        out.print("\n[bold]Metrics, their last values[/]")
        out.print(facts([(one["MetricName"], f"{one['Value']:g}") for one in found["FinalMetricDataList"]]))
    out.print("\n[bold]Statuses[/]")
    out.print(_transitions(found))


def _state(job: Job, doing: str) -> Pairs:
    yield "Name", job["TrainingJobName"]
    status, secondary = job["TrainingJobStatus"], job["SecondaryStatus"]
    text = status_text(status)
    if secondary != status:
        text.append(f", {secondary}")
    yield "Status", text.append(f": {doing}" if doing else "")
    if "FailureReason" in job:
        yield "Failure reason", Text(job["FailureReason"], "red")


def _times(job: Job) -> Pairs:
    yield "ARN", job["TrainingJobArn"]
    if "TuningJobArn" in job:
        yield "Tuning job", job["TuningJobArn"].rpartition("/")[2]
    yield "Created", f"{iso(job['CreationTime'])} ({age(job['CreationTime'])})"
    trained = trained_seconds(job, datetime.now(timezone.utc))
    if trained is not None:
        yield "Training time", lasted(trained) + ("" if "TrainingTimeInSeconds" in job else " so far")
    if "BillableTimeInSeconds" in job:
        yield "Billable", f"{job['BillableTimeInSeconds']} s a host"


def _training(job: Job, compilation: JsonObject) -> Pairs:
    yield "Instances", instances(job)
    algorithm = job["AlgorithmSpecification"]
    yield "Image", algorithm.get("TrainingImage") or algorithm.get("AlgorithmName", "")
    if job["EnableManagedSpotTraining"]:
        yield "Spot", "yes"
    yield "Compiled", _compiled(compilation)


def _compiled(compilation: JsonObject) -> str:
    if not compilation["asked"]:
        return "not asked for"
    if compilation["compiled"] is None:
        return "asked for"
    if compilation["compiled"]:
        why = compilation["reason"]
        return f"yes, on {compilation['platform']}" + (f": {why}" if why else "")
    return f"NO, it trains natively: {compilation['reason']}"


def _data(aws: Aws, job: Job) -> Pairs:
    for channel in job.get("InputDataConfig", []):
        yield f"Input {channel['ChannelName']}", _source(channel["DataSource"])
    if "CheckpointConfig" in job:
        yield "Checkpoints", job["CheckpointConfig"]["S3Uri"]
    if model := model_of(aws, job) if TRAINING.has_ended(job) else "":
        yield "Model", model
    elif job["TrainingJobStatus"] == "Completed":
        yield "Model", "none: nothing was saved in SM_MODEL_DIR, or it was deleted"
    else:
        yield "Output", job["OutputDataConfig"]["S3OutputPath"]


def _source(source: Output) -> str:
    if "S3DataSource" in source:
        return str(source["S3DataSource"]["S3Uri"])
    system = source["FileSystemDataSource"]
    return f"{system['FileSystemId']}{system['DirectoryPath']}"


def _transitions(job: Job) -> Any:
    made = boxed("STATUS", "SINCE", "TOOK", "MESSAGE")
    for one in job["SecondaryStatusTransitions"]:
        start: datetime = one["StartTime"]
        took = lasted((one["EndTime"] - start).total_seconds()) if "EndTime" in one else ""
        made.add_row(one["Status"], f"{start.astimezone():%H:%M:%S}", took, Text(one.get("StatusMessage", "")))
    return made
