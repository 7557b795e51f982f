"""Lists of jobs of one kind: printed once, or again and again."""

import re
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.text import Text

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.kinds import Job, Kind, Wanted
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import console, plain_row, show_rows, table
from sagelet_api.cli.text import echo_json, say
from sagelet_api.servers.server import Server

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
#: Seconds between looks.
_EVERY = 2.0


class Since(click.ParamType[datetime]):
    """`30m`, `12h`, `7d`, or a time such as `2026-11-21` or `2026-11-21T08:00` (this machine's zone)."""

    name = "since"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        match = re.fullmatch(r"([0-9]{1,6})([smhd])", value)
        age = timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else None
        try:
            if age is not None:
                return datetime.now(timezone.utc) - age
            return datetime.fromisoformat(value.replace("Z", "+00:00")).astimezone(timezone.utc)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a time; write 30m, 12h, 7d or 2026-11-21T08:00", param, ctx)


def list_options(kind: Kind) -> Callable[[Any], Any]:
    """Adds the options of every list of jobs: `--status`, `--since`, `--limit` and the like."""
    options = (
        click.option(
            "--status",
            "statuses",
            multiple=True,
            type=click.Choice(kind.statuses, case_sensitive=False),
            help="Only these; may be given several times.",
        ),
        click.option("--name-contains", default="", help="Only jobs whose name contains this."),
        click.option("--since", type=Since(), help="Only jobs made since then: 30m, 12h, 7d, or 2026-11-21T08:00."),
        click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True,
                     help="How many, the newest first."),
        click.option("--all", "everything", is_flag=True, help="No limit."),
        click.option("-w", "--watch", is_flag=True, help="Show them again and again until Ctrl-C."),
        json_option,
    )  # fmt: skip

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def list_command(kind: Kind) -> click.Command:
    """Returns the command that lists jobs of a kind."""

    @click.command("list", help=_help(kind))
    @list_options(kind)
    @server_options
    def list_jobs(
        statuses: tuple[str, ...],
        name_contains: str,
        since: datetime | None,
        limit: int,
        everything: bool,
        watch: bool,
        as_json: bool,
        server: Server,
    ) -> None:
        aws, wanted = Aws(server), Wanted(statuses, name_contains, since)
        most = None if everything else limit
        found = show_list(kind, lambda: kind.find(aws, wanted, most), watch=watch, as_json=as_json)
        if found is not None:
            remark(kind.words, found, most, server, is_filtered=wanted != Wanted())

    return list_jobs


def _help(kind: Kind) -> str:
    titles = ", ".join(column.title.lower() for column in kind.columns)
    return (
        f"List {kind.words}s, the newest first.\n\nIf the output is not a terminal, each job is a line with tabs "
        f"between these: {titles}."
    )


def show_list(kind: Kind, find: Callable[[], list[Job]], *, watch: bool, as_json: bool) -> list[Job] | None:
    """Prints what `find` returns. Returns it if it was printed as a table. With `watch` it prints until Ctrl-C."""
    if watch and as_json:
        raise click.UsageError("Give either --watch or --json")
    if watch:
        _watch(kind, find)
    found = find()
    if as_json:
        echo_json(found)
        return None
    show_rows(kind.columns, found)
    return found


def remark(words: str, found: Sequence[Job], most: int | None, server: Server, *, is_filtered: bool) -> None:
    """Prints on stderr that there are none, or that there may be more."""
    if not found:
        what = f"no matching {words}" if is_filtered else f"no {words}s yet"
        click.echo(f"{what} of account {server.account} in {server.region} on {server.endpoint}", err=True)
    elif most is not None and len(found) == most:
        click.echo(f"the newest {most}; --limit or --all shows more", err=True)


def _watch(kind: Kind, find: Callable[[], list[Job]]) -> None:
    """Watches until Ctrl-C. Without a terminal it prints a line whenever a job is new or has another status."""
    out = console()
    if not out.is_terminal:
        _watch_lines(kind, find)
    with Live(console=out, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            found = find()
            shown = table(kind.columns, found[: max(1, out.height - 3)], out.width)
            more = len(found) - shown.row_count
            foot = Text(f"{datetime.now():%H:%M:%S}, every {_EVERY:.0f} s; Ctrl-C ends", "dim")
            live.update(Group(shown, Text(f"and {more} more", "dim") if more else "", foot), refresh=True)
            time.sleep(_EVERY)


def _watch_lines(kind: Kind, find: Callable[[], list[Job]]) -> None:
    before: dict[str, str] = {}
    while True:
        now = find()
        for job in reversed(now):
            if before.get(job[f"{kind.noun}Arn"]) != kind.state(job):
                say(plain_row(kind.columns, job))
        before = {job[f"{kind.noun}Arn"]: kind.state(job) for job in now}
        time.sleep(_EVERY)
