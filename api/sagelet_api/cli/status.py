"""`sagelet status` and `sagelet down`: show and end the server of a data directory."""

import shutil
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

import click

from sagelet_api.cli.control_client import ServerRefused, ask_health
from sagelet_api.cli.detached import LOG, stop_server
from sagelet_api.cli.directories import known_directory
from sagelet_api.cli.exit_codes import ERROR
from sagelet_api.cli.options import directory_options, endpoint_options, json_option
from sagelet_api.cli.output import age, console, facts
from sagelet_api.cli.text import echo_json, size
from sagelet_api.servers.server import Directory, NoServer, Server
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.state.notice import Notice, read_notice

ENDED = ("Completed", "Failed", "Stopped")


@click.command()
@json_option
@click.pass_context
@endpoint_options
def status(context: click.Context, as_json: bool, server: Server) -> None:
    """Show whether a server runs, and its state.

    Shows endpoint, runtime, GPUs, jobs by status and free disk space. Exits with 1 when no server runs.
    """
    health, why = _health(server)
    notice = _notice(server, health)
    disk = _disk(server.data) if server.directory is Directory.OWN else None
    if as_json:
        echo_json(
            {
                "running": health is not None,
                "endpoint": server.address,
                "named_by": server.named_by,
                "pid": notice and notice.pid,
                "data": str(server.data),
                "disk": disk,
                "server": health,
            }
        )
    elif health is None:
        click.echo(why, err=True)
    else:
        console().print(facts(_rows(server, notice, health, disk)))
    context.exit(ERROR if health is None else 0)


def _health(server: Server) -> tuple[JsonObject | None, str]:
    try:
        return ask_health(server), ""
    except (NoServer, ServerRefused) as error:
        return None, str(error)


def _notice(server: Server, health: JsonObject | None) -> Notice | None:
    """Returns the notice in the data directory, if it was left by the server that answers."""
    notice = read_notice(server.data)
    return notice if notice and health and notice.instance == health["instance"] else None


def _rows(
    server: Server, notice: Notice | None, health: JsonObject, disk: Mapping[str, int] | None
) -> list[tuple[str, str]]:
    rows = [("Endpoint", server.endpoint), ("Version", health["version"])]
    if server.named_by:
        rows.insert(1, ("Named by", server.named_by))
    if notice is not None:
        since = datetime.fromtimestamp(notice.started_ms / 1000, tz=timezone.utc)
        how = f"; output in {server.data / LOG}" if notice.detached else ", in the foreground"
        rows.append(("Process", f"{notice.pid}, started {age(since)}{how}"))
        rows.append(("Data", str(server.data)))
    if disk is not None:
        rows.append(("Disk", f"{size(disk['free'])} free of {size(disk['total'])}"))
    rows += [
        ("Runtime", health["runtime"]),
        ("GPUs", str(health["gpus"] or "none: CPU workers stand in")),
        ("Signatures", "checked" if health["auth"] else "not checked"),
        ("Jobs", ", ".join(f"{count} {name}" for name, count in health["jobs"].items() if count) or "none"),
    ]
    return rows


def _disk(data: Path) -> dict[str, int] | None:
    """Returns the bytes of the file system that holds, or would hold, the data directory."""
    there = next((path for path in (data, *data.parents) if path.exists()), None)
    if there is None:
        return None
    usage = shutil.disk_usage(there)
    return {"free": usage.free, "total": usage.total}


@click.command()
@json_option
@directory_options
def down(as_json: bool, server: Server) -> None:
    """End the server; jobs go on.

    Ends the server of the data directory. The next `sagelet up` on that directory adopts the jobs.
    """
    data = known_directory(server)
    unfinished = _unfinished(server)
    notice = stop_server(data)
    if as_json:
        echo_json({"stopped": notice is not None, "pid": notice and notice.pid, "unfinished": unfinished})
    elif notice is None:
        click.echo(f"No server runs on {data}")
    else:
        click.echo(f"The server on {data} has ended (process {notice.pid}); {_left(unfinished)}")


def _unfinished(server: Server) -> int | None:
    """Returns the number of jobs that have not ended, or None if the server does not answer."""
    if (notice := read_notice(server.data)) is None:
        return None
    try:
        jobs: dict[str, int] = ask_health(server.at(notice.endpoint))["jobs"]
    except (NoServer, ServerRefused):
        return None
    return sum(int(count) for name, count in jobs.items() if name not in ENDED)


def _left(unfinished: int | None) -> str:
    if not unfinished:
        return "no job was under way"
    what = "1 job is" if unfinished == 1 else f"{unfinished} jobs are"
    return f"{what} under way: they go on, and the next `sagelet up` on this directory adopts all of them"
