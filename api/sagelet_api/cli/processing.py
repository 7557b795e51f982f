"""`sagelet processing`: processing jobs. Training jobs have the commands of the first level."""

from collections.abc import Iterator

import click
from rich.text import Text

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.doctor import show
from sagelet_api.cli.explanation import explanation
from sagelet_api.cli.job_actions import delete_command, stop_command
from sagelet_api.cli.kind_rows import described, named
from sagelet_api.cli.kinds import Job
from sagelet_api.cli.listing import list_command
from sagelet_api.cli.logs import logs_command
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import age, console, facts, status_text
from sagelet_api.cli.processing_jobs import PROCESSING, processed_seconds
from sagelet_api.cli.suggestions import Suggesting
from sagelet_api.cli.text import echo_json, iso
from sagelet_api.cli.wait import wait_command
from sagelet_api.durations import lasted
from sagelet_api.servers.server import Server


@click.group(cls=Suggesting)
def processing() -> None:
    """Processing jobs: list, describe, doctor, logs, wait, stop, delete.

    `sagelet jobs`, `describe`, `logs` and `stop` are about training jobs. A training job and a processing job may have
    the same name, as on AWS.
    """


for command in (
    list_command(PROCESSING),
    logs_command(PROCESSING),
    wait_command(PROCESSING),
    stop_command(PROCESSING),
    delete_command(PROCESSING, "Their logs and files go with them; what they put into S3 stays."),
):
    processing.add_command(command)


@processing.command()
@named(PROCESSING)
@json_option
@server_options
def describe(name: str, as_json: bool, server: Server) -> None:
    """Show everything about a processing job.

    Shows the status and its reason, what to do about a failure, times, command, inputs and outputs. --json gives the
    answer of DescribeProcessingJob. Its member Sagelet says what the doctor found.
    """
    job = described(PROCESSING, Aws(server), server, name)
    findings = PROCESSING.ask(server, name, "doctor")["findings"]
    if as_json:
        echo_json({**job, "Sagelet": {"Findings": findings}})
        return
    told = explanation(findings, f"sagelet processing doctor {name}")
    console().print(facts([*_state(job), *told, *_made(job), *_data(job)]))


@processing.command()
@named(PROCESSING)
@json_option
@server_options
def doctor(name: str, as_json: bool, server: Server) -> None:
    """Say what made a processing job fail, and what to do.

    Also names outputs that a completed job left empty.
    """
    described(PROCESSING, Aws(server), server, name)
    answer = PROCESSING.ask(server, name, "doctor")
    if as_json:
        echo_json(answer)
        return
    show(name, answer["ProcessingJobStatus"], answer["findings"], console())


def _state(job: Job) -> Iterator[tuple[str, "str | Text"]]:
    yield "Name", job["ProcessingJobName"]
    yield "Status", status_text(job["ProcessingJobStatus"])
    if "FailureReason" in job:
        yield "Failure reason", Text(job["FailureReason"], "red")
    if "ExitMessage" in job:
        yield "Exit message", job["ExitMessage"]


def _made(job: Job) -> Iterator[tuple[str, str]]:
    yield "ARN", job["ProcessingJobArn"]
    yield "Created", f"{iso(job['CreationTime'])} ({age(job['CreationTime'])})"
    if "ProcessingStartTime" in job:
        yield "Time", lasted(processed_seconds(job)) + ("" if "ProcessingEndTime" in job else " so far")
    cluster, program = job["ProcessingResources"]["ClusterConfig"], job["AppSpecification"]
    yield "Instances", f"{cluster.get('InstanceCount', 1)} x {cluster['InstanceType']}"
    yield "Image", program["ImageUri"]
    command = [*program.get("ContainerEntrypoint", ()), *program.get("ContainerArguments", ())]
    yield "Command", " ".join(command)


def _data(job: Job) -> Iterator[tuple[str, str]]:
    for entry in job.get("ProcessingInputs", []):
        yield f"Input {entry['InputName']}", entry.get("S3Input", {}).get("S3Uri", "")
    for entry in job.get("ProcessingOutputConfig", {}).get("Outputs", []):
        yield f"Output {entry['OutputName']}", entry.get("S3Output", {}).get("S3Uri", "")
