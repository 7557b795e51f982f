"""`sagelet wait`: waits until jobs have ended, and shows what they do meanwhile."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click
from rich.console import Console
from rich.status import Status
from rich.text import Text

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.exit_codes import FAILED, STOPPED, TIMED_OUT
from sagelet_api.cli.kind_rows import described, named
from sagelet_api.cli.kinds import Job, Kind
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import console
from sagelet_api.cli.text import echo_json, say, until_reader_ends
from sagelet_api.cli.training_jobs import TRAINING
from sagelet_api.servers.server import Server

#: Seconds between looks.
EVERY = 1.0


class Progress:
    """Shows progress on stderr: a changing line on a terminal, otherwise a line whenever a job's status has changed."""

    def __init__(self, out: Console, kind: Kind = TRAINING) -> None:
        self._out = out
        self._kind = kind
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
            self._line.update(Text("\n").join(Text(self._kind.doing(server, job)) for job in jobs))
            return
        for job in jobs:
            name, state = self._kind.name_of(job), self._kind.state(job)
            if self._said.get(name) != state:
                self._said[name] = state
                with until_reader_ends():
                    click.echo(f"{name}: {state}", err=True)


def wait_command(kind: Kind) -> click.Command:
    """Returns the command that waits for jobs of a kind."""

    @click.command("wait", help=_help(kind))
    @named(kind, several=True)
    @click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait at most.")
    @json_option
    @click.pass_context
    @server_options
    def wait(
        context: click.Context, names: tuple[str, ...], timeout: float | None, as_json: bool, server: Server
    ) -> None:
        aws = Aws(server)
        jobs = until_ended(aws, server, names, timeout, kind)
        # The exit code also counts for a user who has stopped reading.
        with until_reader_ends():
            if as_json:
                echo_json(jobs)
            else:
                for job in jobs:
                    say(outcome(aws, job, kind))
        context.exit(exit_code(jobs, kind))

    return wait


def _help(kind: Kind) -> str:
    return (
        f"Wait until {kind.words}s have ended.\n\nShows what they do meanwhile. Exits with {FAILED} if a job failed, "
        f"{STOPPED} if one was stopped, {TIMED_OUT} if the time is over. --json gives a list of Describe{kind.noun}'s "
        "answers, one for each job."
    )


@contextmanager
def said_to_run_on(names: Sequence[str], kind: Kind = TRAINING) -> Iterator[None]:
    """Says on Ctrl-C that these jobs run on, because only the command ends."""
    try:
        yield
    except KeyboardInterrupt:
        follows = "logs -f" if kind.hosts else "wait"
        for name in map(kind.label, names):
            say(
                f"\n{name} runs on: `{kind.command} {follows} {name}` follows it, `{kind.command} stop {name}` ends it",
                err=True,
            )
        raise


def until_ended(
    aws: Aws, server: Server, names: Sequence[str], timeout: float | None = None, kind: Kind = TRAINING
) -> list[Job]:
    """Waits, and returns the jobs' descriptions when all have ended or the time is over. Progress goes to stderr."""
    deadline = None if timeout is None else time.monotonic() + timeout
    with said_to_run_on(names, kind), Progress(console(stderr=True), kind).shown() as progress:
        while True:
            jobs = [described(kind, aws, server, name) for name in names]
            running = [job for job in jobs if not kind.has_ended(job)]
            if not running:
                return jobs
            progress.tell(server, running)
            if deadline is not None and time.monotonic() >= deadline:
                return jobs
            time.sleep(EVERY if deadline is None else max(0.0, min(EVERY, deadline - time.monotonic())))


def exit_code(jobs: Sequence[Job], kind: Kind = TRAINING) -> int:
    """Returns the code of the worst job: failed, not ended, stopped, completed."""
    statuses = {kind.status(job) for job in jobs}
    if "Failed" in statuses:
        return FAILED
    if not statuses <= kind.ended:
        return TIMED_OUT
    return STOPPED if "Stopped" in statuses else 0


def outcome(aws: Aws, job: Job, kind: Kind = TRAINING) -> str:
    """Returns how a job went, in a line. It names a model only if there is one. Raises NoServer."""
    name, status, state = kind.name_of(job), kind.status(job), kind.state(job)
    if not kind.has_ended(job):
        return f"{name}: still {status}" + (f" ({state})" if state != status else "")
    parts = [status, *kind.outcome(aws, job)]
    if "FailureReason" in job:
        parts.append(job["FailureReason"])
    return f"{name}: " + "; ".join(parts)


wait = wait_command(TRAINING)
