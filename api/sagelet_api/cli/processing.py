"""`sagelet processing`: processing jobs. Training jobs have the commands of the first level."""

import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import islice

import click
from rich.text import Text

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ServerRefused, ask
from sagelet_api.cli.doctor import show
from sagelet_api.cli.exit_codes import FAILED, STOPPED, TIMED_OUT
from sagelet_api.cli.explanation import explanation
from sagelet_api.cli.job_actions import NotEnded
from sagelet_api.cli.logs import EVERY, PAGE, JobLog, Printer
from sagelet_api.cli.options import json_option, server_in, server_options
from sagelet_api.cli.output import Column, age, console, facts, show_rows, status_text
from sagelet_api.cli.suggestions import Suggesting
from sagelet_api.cli.text import echo_json, iso, say, until_reader_ends
from sagelet_api.cli.training_jobs import ENDED, STATUSES, NoSuchJob
from sagelet_api.durations import lasted
from sagelet_api.protocol.members import Output
from sagelet_api.servers.server import Server
from sagelet_engine.base.errors import SageletError
from sagelet_engine.model.job import JobKind

Job = Output
#: The most jobs that ListProcessingJobs returns at once.
LIST_PAGE = 100


class ProcessingJobName(click.ParamType[str]):
    """Completed from the server's processing jobs."""

    name = "job"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list["click.shell_completion.CompletionItem"]:
        from click.shell_completion import CompletionItem

        try:
            names = [job["ProcessingJobName"] for job in islice(_listed(Aws(server_in(ctx)), incomplete), LIST_PAGE)]
        except SageletError:  # A message would garble the line that the user is typing.
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.group(cls=Suggesting)
def processing() -> None:
    """Processing jobs: list, describe, doctor, logs, wait, stop, delete.

    `sagelet jobs`, `describe`, `logs` and `stop` are about training jobs. A training job and a processing job may have
    the same name, as on AWS.
    """


COLUMNS: Sequence[Column[Job]] = (
    Column("NAME", lambda job: job["ProcessingJobName"]),
    Column(
        "STATUS",
        lambda job: status_text(job["ProcessingJobStatus"]),
        plain=lambda job: job["ProcessingJobStatus"],
    ),
    Column("CREATED", lambda job: age(job["CreationTime"]), plain=lambda job: iso(job["CreationTime"]), optional=1),
    Column("MESSAGE", lambda job: _told(job), optional=2),
)


@processing.command("list")
@click.option("--status", type=click.Choice(STATUSES, case_sensitive=False), help="Only these.")
@click.option("--name-contains", default="", help="Only jobs whose name contains this.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many, the newest first.")
@json_option
@server_options
def list_jobs(status: str | None, name_contains: str, limit: int, as_json: bool, server: Server) -> None:
    """List processing jobs, the newest first.

    If the output is not a terminal, each job is a line with tabs between name, status, time of creation, and exit
    message or failure reason.
    """
    found = list(islice(_listed(Aws(server), name_contains, status), limit))
    if as_json:
        echo_json(found)
        return
    show_rows(COLUMNS, found)
    if not found:
        click.echo(
            f"no such processing jobs of account {server.account} in {server.region} on {server.endpoint}", err=True
        )


@processing.command()
@click.argument("name", metavar="JOB", type=ProcessingJobName())
@json_option
@server_options
def describe(name: str, as_json: bool, server: Server) -> None:
    """Show everything about a processing job.

    Shows the status and its reason, what to do about a failure, times, command, inputs and outputs. --json gives the
    answer of DescribeProcessingJob. Its member Sagelet says what the doctor found.
    """
    job = _described(Aws(server), server, name)
    findings = ask(server, "GET", server.processing_path(name, "doctor"))["findings"]
    if as_json:
        echo_json({**job, "Sagelet": {"Findings": findings}})
        return
    told = explanation(findings, f"sagelet processing doctor {name}")
    console().print(facts([*_state(job), *told, *_made(job), *_data(job)]))


@processing.command()
@click.argument("name", metavar="JOB", type=ProcessingJobName())
@json_option
@server_options
def doctor(name: str, as_json: bool, server: Server) -> None:
    """Say what made a processing job fail, and what to do.

    Also names outputs that a completed job left empty.
    """
    _described(Aws(server), server, name)
    answer = ask(server, "GET", server.processing_path(name, "doctor"))
    if as_json:
        echo_json(answer)
        return
    show(name, answer["ProcessingJobStatus"], answer["findings"], console())


@processing.command()
@click.argument("name", metavar="JOB", type=ProcessingJobName())
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--host", type=click.IntRange(min=1), help="Only the host algo-N.")
@click.option("--tail", type=click.IntRange(1, PAGE), help="Begin with this many last lines of each host.")
@click.option("-t", "--timestamps", is_flag=True, help="Print the time (UTC) of each line before it.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line: timestamp (ms), host, message.")
@server_options
def logs(
    name: str, follow: bool, host: int | None, tail: int | None, timestamps: bool, as_json: bool, server: Server
) -> None:
    """Print the log of a processing job.

    Prints the lines of all hosts in the order of time.
    """
    aws = Aws(server)
    job = _described(aws, server, name)
    several = job["ProcessingResources"]["ClusterConfig"].get("InstanceCount", 1) > 1 and host is None
    log = JobLog(aws, name, host, tail, JobKind.PROCESSING.log_group)
    printer = Printer(console(), as_json=as_json, timestamps=timestamps)
    try:
        while True:
            # All lines are stored before a status becomes terminal, so a later read finds all of them.
            ended = job["ProcessingJobStatus"] in ENDED
            log.look()
            printer.write(log.lines(), several)
            if ended or not follow:
                break
            printer.tell(f"{name}: {job['ProcessingJobStatus']}")
            time.sleep(EVERY)
            job = _described(aws, server, name)
    finally:
        printer.close()
    if follow:
        say(_outcome(job), err=True)


@processing.command()
@click.argument("names", metavar="JOB...", nargs=-1, required=True, type=ProcessingJobName())
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait at most.")
@json_option
@click.pass_context
@server_options
def wait(context: click.Context, names: tuple[str, ...], timeout: float | None, as_json: bool, server: Server) -> None:
    """Wait until processing jobs have ended.

    Exits with 3 if a job failed, 4 if one was stopped, 5 if the time is over.
    """
    aws, deadline = Aws(server), None if timeout is None else time.monotonic() + timeout
    while True:
        jobs = [_described(aws, server, name) for name in names]
        statuses = {job["ProcessingJobStatus"] for job in jobs}
        if statuses <= ENDED or (deadline is not None and time.monotonic() >= deadline):
            break
        time.sleep(EVERY)
    with until_reader_ends():
        if as_json:
            echo_json(jobs)
        else:
            for job in jobs:
                say(_outcome(job))
    if "Failed" in statuses:
        context.exit(FAILED)
    if not statuses <= ENDED:
        context.exit(TIMED_OUT)
    context.exit(STOPPED if "Stopped" in statuses else 0)


@processing.command()
@click.argument("names", metavar="JOB...", nargs=-1, required=True, type=ProcessingJobName())
@json_option
@server_options
def stop(names: tuple[str, ...], as_json: bool, server: Server) -> None:
    """Stop running processing jobs. A job that has ended already is left as it is."""
    aws, states = Aws(server), []
    for name in names:
        job = _stopped(aws, server, name)
        states.append({"ProcessingJobName": name, "ProcessingJobStatus": job["ProcessingJobStatus"]})
        if not as_json:
            click.echo(f"{name}: {job['ProcessingJobStatus']}")
    if as_json:
        echo_json(states)


@processing.command()
@click.argument("names", metavar="JOB...", nargs=-1, required=True, type=ProcessingJobName())
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@server_options
def delete(names: tuple[str, ...], yes: bool, as_json: bool, server: Server) -> None:
    """Delete processing jobs that have ended, with their logs and files. What they put into S3 stays."""
    aws = Aws(server)
    for name in names:
        status = _described(aws, server, name)["ProcessingJobStatus"]
        if status not in ENDED:
            raise NotEnded(f"{name} is {status}: stop it first (`sagelet processing stop {name}`); nothing was deleted")
    if not yes:
        what = names[0] if len(names) == 1 else f"{len(names)} jobs"
        click.confirm(f"Delete {what}, with logs and metrics?", abort=True, err=True)
    for name in names:
        aws.call("sagemaker", "delete_processing_job", ProcessingJobName=name)
        if not as_json:
            click.echo(f"{name}: deleted")
    if as_json:
        echo_json([{"ProcessingJobName": name, "Deleted": True} for name in names])


def _listed(aws: Aws, name_contains: str = "", status: str | None = None) -> Iterator[Job]:
    wanted: Output = {"SortOrder": "Descending", "MaxResults": LIST_PAGE}
    if name_contains:
        wanted["NameContains"] = name_contains
    if status is not None:
        wanted["StatusEquals"] = status
    for page in aws.pages("sagemaker", "list_processing_jobs", **wanted):
        yield from page["ProcessingJobSummaries"]


def _described(aws: Aws, server: Server, name: str) -> Job:
    """Raises NoSuchJob, ServerRefused, NoServer."""
    try:
        return aws.call("sagemaker", "describe_processing_job", ProcessingJobName=name)
    except ServerRefused as refused:
        if "Requested resource not found" not in str(refused):
            raise
        raise NoSuchJob(
            f"Account {server.account} has no processing job {name} in {server.region} on {server.words}: "
            "`sagelet processing list` lists them; --account and --region name others"
        ) from refused


def _stopped(aws: Aws, server: Server, name: str) -> Job:
    job = _described(aws, server, name)
    if job["ProcessingJobStatus"] in ENDED:
        return job
    try:
        aws.call("sagemaker", "stop_processing_job", ProcessingJobName=name)
    except ServerRefused:
        # It may have ended in between.
        if (job := _described(aws, server, name))["ProcessingJobStatus"] not in ENDED:
            raise
        return job
    return _described(aws, server, name)


def _told(job: Job) -> str:
    return str(job.get("FailureReason") or job.get("ExitMessage") or "")


def _outcome(job: Job) -> str:
    parts = [job["ProcessingJobStatus"]]
    if "ProcessingEndTime" in job:
        parts.append(f"processed {lasted(_seconds(job))}")
    parts += [text for text in (job.get("FailureReason"), job.get("ExitMessage")) if text]
    return f"{job['ProcessingJobName']}: " + "; ".join(parts)


def _seconds(job: Job) -> int:
    """Returns the whole seconds of processing, so far or in total."""
    start: datetime = job["ProcessingStartTime"]
    end: datetime = job.get("ProcessingEndTime", datetime.now(timezone.utc))
    return max(0, int((end - start).total_seconds()))


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
        yield "Time", lasted(_seconds(job)) + ("" if "ProcessingEndTime" in job else " so far")
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
