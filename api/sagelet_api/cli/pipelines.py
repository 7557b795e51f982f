"""`sagelet pipelines`: pipelines, their executions and the steps of these."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from rich.text import Text

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.executions import EXECUTION, LISTS, arn_of, executions_of, label
from sagelet_api.cli.job_actions import stopped
from sagelet_api.cli.kinds import Job, known
from sagelet_api.cli.options import json_option, pairs, server_options
from sagelet_api.cli.output import Column, age, console, facts, show_rows, status_text
from sagelet_api.cli.suggestions import Suggesting
from sagelet_api.cli.text import echo_json, iso, say, until_reader_ends
from sagelet_api.cli.wait import exit_code, until_ended
from sagelet_api.durations import lasted
from sagelet_api.servers.server import Server

#: A PipelineSummary, a PipelineExecutionSummary or a PipelineExecutionStep.
Shown = Mapping[str, Any]


_PIPELINES: Sequence[Column[Shown]] = (
    Column("NAME", lambda one: one["PipelineName"]),
    Column("CREATED", lambda one: age(one["CreationTime"]), plain=lambda one: iso(one["CreationTime"]), optional=1),
    Column(
        "LAST STARTED",
        lambda pipeline: age(pipeline["LastExecutionTime"]) if "LastExecutionTime" in pipeline else "never",
        plain=lambda pipeline: iso(pipeline["LastExecutionTime"]) if "LastExecutionTime" in pipeline else "never",
    ),
)
_STEPS: Sequence[Column[Shown]] = (
    Column("STEP", lambda step: step["StepName"]),
    Column("STATUS", lambda step: status_text(step["StepStatus"])),
    Column("TIME", lambda step: _time(step), optional=2, right=True),
    Column("MADE", lambda step: _made(step), optional=1),
    Column("REASON", lambda step: step.get("FailureReason")),
)


@click.group(cls=Suggesting)
def pipelines() -> None:
    """Pipelines, their executions and the steps of these.

    Programs make pipelines: `Pipeline` of the SageMaker SDK, or CreatePipeline. EXECUTION is PIPELINE/ID as
    `executions` prints it, an ARN, or a pipeline's name, which means its last execution.
    """


@pipelines.command("list")
@json_option
@server_options
def list_(as_json: bool, server: Server) -> None:
    """List pipelines, the newest first."""
    pages = Aws(server).pages("sagemaker", "list_pipelines", SortOrder="Descending")
    found = [one for page in pages for one in page["PipelineSummaries"]]
    if as_json:
        echo_json(found)
        return
    show_rows(_PIPELINES, found)
    if not found:
        click.echo(f"no pipelines of account {server.account} in {server.region} on {server.endpoint}", err=True)


@pipelines.command()
@click.argument("name", metavar="PIPELINE")
@json_option
@server_options
def executions(name: str, as_json: bool, server: Server) -> None:
    """List the executions of a pipeline, the newest first."""
    found = [*executions_of(Aws(server), server, name)]
    if as_json:
        echo_json(found)
        return
    show_rows(EXECUTION.columns, found)
    if not found:
        click.echo(f"{name} was never started: `sagelet pipelines start {name}`", err=True)


@pipelines.command()
@click.argument("execution", metavar="EXECUTION")
@json_option
@server_options
def describe(execution: str, as_json: bool, server: Server) -> None:
    """Show an execution and its steps, in the order in which they began.

    MADE is the job, the model or the outcome of a step. `sagelet describe` and `sagelet logs` take the name of a
    training job.
    """
    aws = Aws(server)
    arn = arn_of(aws, server, execution)
    shown, steps = EXECUTION.describe(aws, server, arn), _steps_of(aws, arn)
    if as_json:
        echo_json({**shown, "PipelineExecutionSteps": steps})
        return
    pairs: list[tuple[str, str | Text]] = [
        ("Execution", label(arn)),
        ("Status", status_text(shown["PipelineExecutionStatus"])),
        ("Started", f"{iso(shown['CreationTime'])} ({age(shown['CreationTime'])})"),
    ]
    if "FailureReason" in shown:
        pairs.append(("Reason", shown["FailureReason"]))
    out = console()
    out.print(facts(pairs))
    if steps:
        out.print()
        show_rows(_STEPS, steps)


@pipelines.command()
@click.argument("execution", metavar="EXECUTION")
@json_option
@server_options
def steps(execution: str, as_json: bool, server: Server) -> None:
    """List the steps of an execution that have begun, in that order."""
    aws = Aws(server)
    arn = arn_of(aws, server, execution)
    with EXECUTION.known(server, arn):
        found = _steps_of(aws, arn)
    if as_json:
        echo_json(found)
        return
    show_rows(_STEPS, found)
    if not found:
        click.echo(f"no step of {label(arn)} has begun", err=True)


@pipelines.command()
@click.argument("name", metavar="PIPELINE")
@click.option("-p", "--parameter", "parameters", metavar="NAME=VALUE", multiple=True, help="A pipeline parameter.")
@click.option("--wait", is_flag=True, help="Wait until it has ended.")
@json_option
@click.pass_context
@server_options
def start(
    context: click.Context, name: str, parameters: tuple[str, ...], wait: bool, as_json: bool, server: Server
) -> None:
    """Start an execution of a pipeline.

    With --wait it exits with 3 if the execution failed, and with 4 if it was stopped. It prints why steps failed.
    """
    aws = Aws(server)
    asked = {"PipelineName": name, "ClientRequestToken": uuid.uuid4().hex}
    values = [{"Name": name, "Value": value} for name, value in pairs(parameters, "-p").items()]
    with known(server, f"pipeline {name}", LISTS):
        arn = EXECUTION.name(aws.call("sagemaker", "start_pipeline_execution", PipelineParameters=values, **asked))
    if not wait:
        _say_state(EXECUTION.describe(aws, server, arn), as_json=as_json)
        return
    ended = until_ended(aws, server, [arn], None, EXECUTION)
    _say_ends(aws, ended, ended[0] if as_json else None)
    context.exit(exit_code(ended, EXECUTION))


@pipelines.command()
@click.argument("execution", metavar="EXECUTION")
@json_option
@server_options
def stop(execution: str, as_json: bool, server: Server) -> None:
    """Stop an execution and the jobs of its steps. One that has ended already is left as it is."""
    aws = Aws(server)
    arn = arn_of(aws, server, execution)
    _say_state(stopped(EXECUTION, aws, server, arn), as_json=as_json)


@pipelines.command("wait")
@click.argument("executions", metavar="EXECUTION...", nargs=-1, required=True)
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait at most.")
@json_option
@click.pass_context
@server_options
def wait_(
    context: click.Context, executions: tuple[str, ...], timeout: float | None, as_json: bool, server: Server
) -> None:
    """Wait until executions have ended.

    Exits with 3 if an execution failed, 4 if one was stopped, 5 if the time is over. It prints why steps failed.
    """
    aws = Aws(server)
    arns = [arn_of(aws, server, execution) for execution in executions]
    ended = until_ended(aws, server, arns, timeout, EXECUTION)
    _say_ends(aws, ended, ended if as_json else None)
    context.exit(exit_code(ended, EXECUTION))


@pipelines.command()
@click.argument("execution", metavar="EXECUTION")
@json_option
@server_options
def retry(execution: str, as_json: bool, server: Server) -> None:
    """Begin a failed or stopped execution again where it ended.

    The steps that succeeded keep their results.
    """
    aws = Aws(server)
    arn = arn_of(aws, server, execution)
    token = uuid.uuid4().hex
    with EXECUTION.known(server, arn):
        aws.call("sagemaker", "retry_pipeline_execution", PipelineExecutionArn=arn, ClientRequestToken=token)
    _say_state(EXECUTION.describe(aws, server, arn), as_json=as_json)


def _say_ends(aws: Aws, ended: Sequence[Job], document: object) -> None:
    """Says how executions ended, and why steps failed. `document`: what programs get instead of the former, or None."""
    # The exit code also counts for a user who has stopped reading.
    with until_reader_ends():
        if document is not None:
            echo_json(document)
        for execution in ended:
            if document is None:
                say(f"{EXECUTION.name_of(execution)}: {EXECUTION.status(execution)}")
            _say_failures(_steps_of(aws, EXECUTION.name(execution)))


def _say_state(shown: Shown, *, as_json: bool) -> None:
    if as_json:
        echo_json(shown)
        return
    say(f"{label(shown['PipelineExecutionArn'])}: {shown['PipelineExecutionStatus']}")


def _say_failures(steps: Iterable[Shown]) -> None:
    for step in steps:
        if "FailureReason" in step:
            say(f"{step['StepName']}: {step['FailureReason']}", err=True)


def _steps_of(aws: Aws, arn: str) -> list[Shown]:
    asked = {"PipelineExecutionArn": arn, "SortOrder": "Ascending"}
    pages = aws.pages("sagemaker", "list_pipeline_execution_steps", **asked)
    return [step for page in pages for step in page["PipelineExecutionSteps"]]


def _time(step: Shown) -> str | None:
    return lasted((step["EndTime"] - step["StartTime"]).total_seconds()) if "EndTime" in step else None


def _made(step: Shown) -> str:
    """Returns the name of what a step has made, or the outcome of a condition."""
    if "CacheHitResult" in step:
        return f"from the cache of {label(step['CacheHitResult']['SourcePipelineExecutionArn'])}"
    for kind, found in step.get("Metadata", {}).items():
        if kind == "Condition":
            return str(found["Outcome"])
        if "Arn" in found:
            return str(found["Arn"].partition("/")[2])
    return ""
