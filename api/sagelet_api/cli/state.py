"""`sagelet reset`, `sagelet export` and `sagelet import`: a data directory as a whole."""

import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from sagelet_api.cli.control_client import ServerUnreachable, ask, control_url
from sagelet_api.cli.server_options import endpoint_option
from sagelet_engine.clock import SystemClock
from sagelet_engine.errors import DataDirectoryInUse, SageletError
from sagelet_engine.settings import Settings, default_data_directory
from sagelet_engine.state.contents import SCOPES, check_data_directory

#: Seconds that a server may take to come back.
RESTART_SECONDS = 120
FORGOTTEN = "IAM roles, bucket configuration and other services' state are in the server's memory only: not exported"


class NotBack(SageletError):
    """The server did not come back after a reset."""


def data_option(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--data",
        envvar="SAGELET_DATA",
        show_envvar=True,
        default=default_data_directory,
        show_default=True,
        type=click.Path(file_okay=False, path_type=Path),
        help="The data directory.",
    )(command)


@click.command()
@data_option
@click.option("--only", type=click.Choice(["jobs", "objects"]), help="Leave the others. Jobs: with logs and metrics.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@endpoint_option
def reset(data: Path, only: str | None, yes: bool, endpoint: str) -> None:
    """Delete all jobs, logs, metrics and objects of the data directory, of all accounts and regions.

    Jobs that run are killed. What sagelet did not put there stays. A server that runs on the directory starts anew.
    """
    data = data.expanduser().resolve()
    check_data_directory(data, damaged=True)
    what = {None: "all jobs, logs, metrics and objects", "jobs": "all jobs, logs and metrics", "objects": "all objects"}
    if not yes:
        click.confirm(f"Delete {what[only]} in {data}?", abort=True)
    scope = only or "all"
    assert scope in SCOPES
    try:
        kept = _reset_stopped(data, scope)
    except DataDirectoryInUse as error:
        _reset_running(data, scope, endpoint, error)
        kept = []
    click.echo(f"Deleted {what[only]} in {data}")
    _tell_kept(kept)


def _reset_stopped(data: Path, scope: str) -> Sequence[Path]:
    from sagelet_engine.runtimes.choose import every_runtime
    from sagelet_engine.state.resetting import reset_data

    return reset_data(data, scope, every_runtime(Settings(data=data), SystemClock()))


def _reset_running(data: Path, scope: str, endpoint: str, in_use: DataDirectoryInUse) -> None:
    """Asks the server; it ends, empties the directory and is there again under another name of its own."""
    try:
        before = _instance(endpoint)
    except ServerUnreachable as error:
        raise DataDirectoryInUse(f"{in_use}. {error}") from error
    proof = data / f".reset-{uuid.uuid4().hex}"
    proof.touch(mode=0o600)
    try:
        ask("POST", control_url(endpoint, "reset"), {"scope": scope, "proof": proof.name})
    finally:
        proof.unlink(missing_ok=True)
    deadline = time.monotonic() + RESTART_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.1)
        try:
            if _instance(endpoint) != before:
                return
        except ServerUnreachable:
            continue
    raise NotBack(f"The server did not come back within {RESTART_SECONDS} s: its output says why")


def _instance(endpoint: str) -> Any:
    return ask("GET", control_url(endpoint, "health")).get("instance")


@click.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@data_option
@click.option("--no-job-files", is_flag=True, help="Leave the directories of jobs out (/opt/ml of their hosts).")
def export(file: Path, data: Path, no_job_files: bool) -> None:
    """Write the whole data directory to FILE (.tar, .tar.gz), also while a server runs on it."""
    from sagelet_engine.state.exporting import export_data

    done = export_data(data.expanduser().resolve(), file.expanduser(), job_files=not no_job_files)
    click.echo(f"{done.jobs} jobs and {done.objects} objects ({done.bytes} bytes) in {file}")
    if done.left_out:
        click.echo(f"{done.left_out} entries of jobs' directories are left out: pipes, sockets, links that lead out")
    click.echo(FORGOTTEN)


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@data_option
@click.option("--replace", is_flag=True, help="Delete what the data directory holds, once the archive is checked.")
def import_(file: Path, data: Path, replace: bool) -> None:
    """Fill the data directory from FILE, which `sagelet export` wrote. No server may run on it.

    Import only what you trust: jobs that had not ended go on, so their code runs.
    """
    from sagelet_engine.state.importing import import_data

    data = data.expanduser().resolve()
    done = import_data(file.expanduser(), data, replace=replace)
    click.echo(f"{done.jobs} jobs and {done.objects} objects are in {data}")
    _tell_kept(done.kept)


def _tell_kept(kept: Sequence[Path]) -> None:
    for path in kept:
        click.echo(f"Files that are not sagelet's were among the objects; they are in {path}")
