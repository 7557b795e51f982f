"""`sagelet jobs`: lists the training jobs of an account."""

import re
import time
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.text import Text

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ask
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import Column, age, console, plain_row, show_rows, status_text, table
from sagelet_api.cli.text import echo_json, iso, say
from sagelet_api.cli.training_jobs import STATUSES, Job, Wanted, find, instances, trained_seconds
from sagelet_api.durations import lasted
from sagelet_api.servers.server import Server
from sagelet_engine.data.compilation import asks_for_compiler
from sagelet_engine.model.spec import TrainingSpec

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
#: Seconds between looks.
_EVERY = 2.0
#: Other places that an empty list names.
_MOST_ELSEWHERE = 5


class Since(click.ParamType[datetime]):
    """`30m`, `12h`, `7d`, or a time such as `2026-11-21` or `2026-11-21T08:00` (this machine's zone)."""

    name = "since"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        if match := re.fullmatch(r"(\d{1,6})([smhd])", value):
            return datetime.now(timezone.utc) - timedelta(**{_UNITS[match[2]]: int(match[1])})
        try:
            return datetime.fromisoformat(value.replace("Z", "+00:00")).astimezone(timezone.utc)
        except ValueError:
            self.fail(f"{value!r} is not a time; write 30m, 12h, 7d or 2026-11-21T08:00", param, ctx)


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


COLUMNS: Sequence[Column[Job]] = (
    Column("NAME", lambda job: job["TrainingJobName"]),
    Column("STATUS", _status, plain=lambda job: job["TrainingJobStatus"]),
    Column("CREATED", lambda job: age(job["CreationTime"]), plain=lambda job: iso(job["CreationTime"]), optional=1),
    Column("TRAINED", _trained, plain=_trained_plain, optional=2, right=True),
    Column("COMPILER", lambda job: "yes" if asks_for_compiler(TrainingSpec.of(job)) else "no", optional=4),
    Column("INSTANCES", instances, optional=3),
)


@click.command()
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(STATUSES, case_sensitive=False),
    help="Only these; may be given several times.",
)
@click.option("--name-contains", default="", help="Only jobs whose name contains this.")
@click.option("--since", type=Since(), help="Only jobs made since then: 30m, 12h, 7d, or 2026-11-21T08:00.")
@click.option("--compiled/--native", default=None, help="Only jobs that ask for the Training Compiler, or that do not.")
@click.option("--no-children", is_flag=True, help="Leave out the trials of tuning jobs.")
@click.option("--parent", default="", metavar="NAME", help="Only the trials of this tuning job.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many, the newest first.")
@click.option("--all", "everything", is_flag=True, help="No limit.")
@click.option("-w", "--watch", is_flag=True, help="Show them again and again until Ctrl-C.")
@json_option
@server_options
def jobs(
    statuses: tuple[str, ...],
    name_contains: str,
    since: datetime | None,
    compiled: bool | None,
    no_children: bool,
    parent: str,
    limit: int,
    everything: bool,
    watch: bool,
    as_json: bool,
    server: Server,
) -> None:
    """List training jobs, the newest first.

    If the output is not a terminal, each job is a line with tabs between name, status, time of creation, seconds of
    training, whether it asks for the compiler, and instances. `sagelet describe` says whether it was compiled.
    --json gives the answer of SageMaker's Search.
    """
    if watch and as_json:
        raise click.UsageError("Give either --watch or --json")
    if no_children and parent:
        raise click.UsageError("Give either --no-children or --parent")
    aws, wanted = Aws(server), Wanted(statuses, name_contains, since, compiled, parent, not no_children)
    most = None if everything else limit
    if watch:
        _watch(aws, wanted, most)
    found = find(aws, wanted, most)
    if as_json:
        echo_json(found)
        return
    show_rows(COLUMNS, found)
    _remark(found, wanted, most, server)


def _remark(found: Sequence[Job], wanted: Wanted, most: int | None, server: Server) -> None:
    """Prints a remark beside the table, to a terminal only."""
    if not found:
        what = "no matching job" if wanted != Wanted() else "no jobs yet"
        click.echo(f"{what} of account {server.account} in {server.region} on {server.endpoint}", err=True)
        if wanted == Wanted():
            click.echo(_elsewhere(server), err=True)
    elif most is not None and len(found) == most:
        click.echo(f"the newest {most}; --limit or --all shows more", err=True)


def _elsewhere(server: Server) -> str:
    """Says where the server has jobs. Somebody who sees an empty list mostly looks into another region."""
    here = (server.account, server.region)
    places = [one for one in ask(server, "GET", "places")["places"] if (one["account"], one["region"]) != here]
    if not places:
        return "no other account or region has any; `sagelet submit FILE` or `sagelet demo` trains one"
    named = [
        f"{one['training_jobs']} in {one['region']}"
        + ("" if one["account"] == server.account else f" of account {one['account']}")
        for one in places[:_MOST_ELSEWHERE]
    ]
    more = ", and more" if len(places) > _MOST_ELSEWHERE else ""
    return f"elsewhere it has {', '.join(named)}{more}: --region and --account name them"


def _watch(aws: Aws, wanted: Wanted, most: int | None) -> None:
    """Watches until Ctrl-C. Without a terminal it prints a line whenever a job is new or has another status."""
    out = console()
    if not out.is_terminal:
        _watch_lines(aws, wanted, most)
    with Live(console=out, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            found = find(aws, wanted, most)
            shown = table(COLUMNS, found[: max(1, out.height - 3)], out.width)
            more = len(found) - shown.row_count
            foot = Text(f"{datetime.now():%H:%M:%S}, every {_EVERY:.0f} s; Ctrl-C ends", "dim")
            live.update(Group(shown, Text(f"and {more} more", "dim") if more else "", foot), refresh=True)
            time.sleep(_EVERY)


def _watch_lines(aws: Aws, wanted: Wanted, most: int | None) -> None:
    before: dict[str, str] = {}
    while True:
        now = find(aws, wanted, most)
        for job in reversed(now):
            if before.get(job["TrainingJobArn"]) != job["SecondaryStatus"]:
                say(plain_row(COLUMNS, job))
        before = {job["TrainingJobArn"]: job["SecondaryStatus"] for job in now}
        time.sleep(_EVERY)
