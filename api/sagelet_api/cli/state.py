"""`sagelet reset`, `sagelet export` and `sagelet import`: handle a data directory as a whole."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from sagelet_api.cli.control_client import ask, ask_owner
from sagelet_api.cli.directories import known_directory, own_directory
from sagelet_api.cli.options import directory_options, endpoint_options, json_option
from sagelet_api.cli.output import console
from sagelet_api.cli.text import echo_json
from sagelet_api.servers.server import NoServer, Server
from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.errors import DataDirectoryInUse, SageletError
from sagelet_engine.settings import Settings
from sagelet_engine.state.contents import SCOPES, check_data_directory

#: Seconds that a server may take to come back.
RESTART_SECONDS = 120
FORGOTTEN = "Queues and other services' state are in the server's memory only: not exported"


class NotBack(SageletError):
    """The server did not come back after a reset."""


@click.command()
@click.option(
    "--only",
    type=click.Choice(["jobs", "objects", "hub"]),
    help="Leave the others. Jobs: with logs, metrics, pipelines and IAM.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@endpoint_options
def reset(only: str | None, yes: bool, as_json: bool, server: Server) -> None:
    """Delete all jobs and objects, and the hub.

    Deletes jobs with their logs and metrics, of all accounts and regions. Running jobs are killed. Files that are not
    sagelet's stay. A server on the directory restarts.
    """
    data = own_directory(server)
    check_data_directory(data, damaged=True)
    what = {
        None: "all jobs, logs, metrics, objects and repositories of the hub",
        "jobs": "all jobs, logs and metrics",
        "objects": "all objects",
        "hub": "all repositories of the hub",
    }
    if not yes:
        click.confirm(f"Delete {what[only]} in {data}?", abort=True, err=True)
    scope = only or "all"
    assert scope in SCOPES
    try:
        kept = _reset_stopped(data, scope)
    except DataDirectoryInUse as error:
        _reset_running(server, scope, error)
        kept = []
    if as_json:
        echo_json({"data": str(data), "scope": scope, "kept": [str(path) for path in kept]})
        return
    click.echo(f"Deleted {what[only]} in {data}")
    _tell_kept(kept)


def _reset_stopped(data: Path, scope: str) -> Sequence[Path]:
    from sagelet_engine.machine.runtimes import every_runtime
    from sagelet_engine.state.resetting import reset_data

    return reset_data(data, scope, every_runtime(Settings(data=data), SystemClock()))


def _reset_running(server: Server, scope: str, in_use: DataDirectoryInUse) -> None:
    """Asks the server to reset. It ends, empties the directory and starts again with another id."""
    try:
        before = _instance(server)
    except NoServer as error:
        raise DataDirectoryInUse(f"{in_use}. {error}") from error
    ask_owner(server, "reset", {"scope": scope})
    deadline = time.monotonic() + RESTART_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.1)
        try:
            if _instance(server) != before:
                return
        except NoServer:
            continue
    raise NotBack(f"The server did not come back within {RESTART_SECONDS} s: its output says why")


def _instance(server: Server) -> Any:
    return ask(server, "GET", "health").get("instance")


@click.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--no-job-files", is_flag=True, help="Leave the directories of jobs out (/opt/ml of their hosts).")
@json_option
@directory_options
def export(file: Path, no_job_files: bool, as_json: bool, server: Server) -> None:
    """Write the whole data directory to a file.

    FILE is a .tar or .tar.gz. A server may run on the directory meanwhile.
    """
    from sagelet_engine.state.exporting import export_data

    with console(stderr=True).status(f"writing {file}"):
        done = export_data(known_directory(server), file.expanduser(), job_files=not no_job_files)
    if as_json:
        echo_json({"file": str(file), **asdict(done)})
        return
    click.echo(f"{done.jobs} jobs and {done.objects} objects ({done.bytes} bytes) in {file}")
    if done.repositories:
        click.echo(f"{done.repositories} repositories of the hub")
    if done.left_out:
        click.echo(f"{done.left_out} entries of jobs' directories are left out: pipes, sockets, links that lead out")
    click.echo(FORGOTTEN)


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Delete what the data directory holds, once the archive is checked.")
@json_option
@directory_options
def import_(file: Path, replace: bool, as_json: bool, server: Server) -> None:
    """Fill the data directory from an export.

    `sagelet export` wrote FILE. No server may run on the directory.
    Import only what you trust: jobs that had not ended go on, so their code runs.
    """
    from sagelet_engine.state.importing import import_data

    data = own_directory(server)
    with console(stderr=True).status(f"reading {file}"):
        done = import_data(file.expanduser(), data, replace=replace)
    if as_json:
        kept = [str(path) for path in done.kept]
        echo_json({"data": str(data), "jobs": done.jobs, "objects": done.objects, "repositories": done.repositories,
                   "kept": kept})  # fmt: skip
        return
    click.echo(f"{done.jobs} jobs and {done.objects} objects are in {data}")
    if done.repositories:
        click.echo(f"{done.repositories} repositories are in its hub")
    _tell_kept(done.kept)


def _tell_kept(kept: Sequence[Path]) -> None:
    for path in kept:
        click.echo(f"Files that are not sagelet's were among the objects; they are in {path}")
