"""`sagelet wait`: waits until jobs have ended, and shows what they do meanwhile."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone

import click
from rich.console import Console
from rich.status import Status
from rich.text import Text

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.exit_codes import FAILED, STOPPED, TIMED_OUT
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import console
from sagelet_api.cli.text import echo_json, say, until_reader_ends
from sagelet_api.cli.training_jobs import ENDED, Job, JobName, activity, describe, model_of
from sagelet_api.durations import lasted
from sagelet_api.servers.server import Server

#: Seconds between looks.
EVERY = 1.0


class Progress:
    """Shows progress on stderr: a changing line on a terminal, otherwise a line whenever a job's status has changed."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._line: Status | None = None
        self._said: dict[str, str] = {}

    @contextmanager
    def shown(self) -> Iterator["Progress"]:
        if not self._out.is_terminal:
            yield self
            return
        with self._out.status("") as self._line:
            yield self

    def tell(self, server: Server, jobs: Sequence[Job]) -> None:
        if self._line is not None:
            self._line.update(Text("\n").join(Text(in_words(job, activity(server, job))) for job in jobs))
            return
        for job in jobs:
            name, secondary = job["TrainingJobName"], job["SecondaryStatus"]
            if self._said.get(name) != secondary:
                self._said[name] = secondary
                with until_reader_ends():
                    click.echo(f"{name}: {secondary}", err=True)


def in_words(job: Job, doing: str) -> str:
    """Returns `my-job: Training, 1 min 2 s: compiling, step 1, 38 s`. In other statuses AWS's message."""
    now, last = datetime.now(timezone.utc), job["SecondaryStatusTransitions"][-1]
    since: datetime = last["StartTime"]
    words = doing if last["Status"] == "Training" else last.get("StatusMessage", "")
    took = lasted(max(0, int((now - since).total_seconds())))
    return f"{job['TrainingJobName']}: {last['Status']}, {took}" + (f": {words}" if words else "")


@click.command()
@click.argument("names", metavar="JOB...", nargs=-1, required=True, type=JobName())
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait at most.")
@json_option
@click.pass_context
@server_options
def wait(context: click.Context, names: tuple[str, ...], timeout: float | None, as_json: bool, server: Server) -> None:
    """Wait until jobs have ended.

    Shows what they do meanwhile. Exits with 3 if a job failed, 4 if one was stopped, 5 if the time is over. --json
    gives a list of DescribeTrainingJob's answers, one for each job.
    """
    aws = Aws(server)
    jobs = until_ended(aws, server, names, timeout)
    # The exit code also counts for a user who has stopped reading.
    with until_reader_ends():
        show_outcomes(aws, jobs, as_json=as_json)
    context.exit(exit_code(jobs))


def show_outcomes(aws: Aws, jobs: Sequence[Job], *, as_json: bool) -> None:
    if as_json:
        echo_json(jobs)
        return
    for job in jobs:
        say(outcome(aws, job))


@contextmanager
def said_to_run_on(names: Sequence[str]) -> Iterator[None]:
    """Says on Ctrl-C that these jobs run on, because only the command ends."""
    try:
        yield
    except KeyboardInterrupt:
        for name in names:
            say(f"\n{name} runs on: `sagelet logs -f {name}` follows it, `sagelet stop {name}` ends it", err=True)
        raise


def until_ended(aws: Aws, server: Server, names: Sequence[str], timeout: float | None = None) -> list[Job]:
    """Waits, and returns the jobs' descriptions when all have ended or the time is over. Progress goes to stderr."""
    deadline = None if timeout is None else time.monotonic() + timeout
    with said_to_run_on(names), Progress(console(stderr=True)).shown() as progress:
        while True:
            jobs = [describe(aws, server, name) for name in names]
            running = [job for job in jobs if job["TrainingJobStatus"] not in ENDED]
            if not running:
                return jobs
            progress.tell(server, running)
            if deadline is not None and time.monotonic() >= deadline:
                return jobs
            time.sleep(EVERY if deadline is None else max(0.0, min(EVERY, deadline - time.monotonic())))


def exit_code(jobs: Sequence[Job]) -> int:
    """Returns the code of the worst job: failed, not ended, stopped, completed."""
    statuses = {job["TrainingJobStatus"] for job in jobs}
    if "Failed" in statuses:
        return FAILED
    if not statuses <= ENDED:
        return TIMED_OUT
    return STOPPED if "Stopped" in statuses else 0


def outcome(aws: Aws, job: Job) -> str:
    """Returns how a job went, in a line. It names a model only if there is one. Raises NoServer."""
    name, status = job["TrainingJobName"], job["TrainingJobStatus"]
    if status not in ENDED:
        return f"{name}: still {status} ({job['SecondaryStatus']})"
    parts = [status]
    if "TrainingTimeInSeconds" in job:
        parts.append(f"trained {lasted(job['TrainingTimeInSeconds'])}, billable {job['BillableTimeInSeconds']} s")
    if model := model_of(aws, job):
        parts.append(model)
    elif status != "Failed":
        parts.append("it left no model")
    if "FailureReason" in job:
        parts.append(job["FailureReason"])
    return f"{name}: " + "; ".join(parts)
