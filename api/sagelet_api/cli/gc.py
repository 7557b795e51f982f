"""`sagelet gc`: frees disk space."""

from dataclasses import asdict
from pathlib import Path

import click

from sagelet_api.cli.control_client import ask_owner
from sagelet_api.cli.directories import own_directory
from sagelet_api.cli.options import endpoint_options, json_option
from sagelet_api.cli.quantities import Age, Size
from sagelet_api.cli.text import echo_json, size
from sagelet_api.servers.server import NoServer, Server
from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.errors import DataDirectoryInUse
from sagelet_engine.model.runtime import Runtime
from sagelet_engine.retention.gc import Keep
from sagelet_engine.settings import Settings
from sagelet_engine.state.contents import check_data_directory
from sagelet_engine.state.garbage import Garbage, Rules, collect_stopped


@click.command()
@click.option("--keep-files", default="0s", show_default=True, type=Age(), help="Files of ended jobs, by age.")
@click.option("--keep-files-size", type=Size(), help="The youngest ended jobs' files, up to this much, at any age.")
@click.option("--keep-jobs", default="forever", show_default=True, type=Age(), help="Ended jobs, logs and metrics.")
@click.option("--keep-uploads", default="7d", show_default=True, type=Age(), help="Multipart uploads under way.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", is_flag=True, help="Do not ask before jobs are removed.")
@json_option
@endpoint_options
def gc(
    keep_files: int | None,
    keep_files_size: int | None,
    keep_jobs: int | None,
    keep_uploads: int | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    server: Server,
) -> None:
    """Free disk space.

    Removes files of ended jobs (from /opt/ml; objects in S3 and reports stay), packages from jobs' requirements.txt
    that no running job uses, unfinished uploads, files of the hub that no repository has, free pages of the databases,
    and hosts that run although their job or their data directory is gone. Jobs, logs and metrics are removed only with
    --keep-jobs. Ages: 90s, 12h, 7d, forever. A server may run on the directory. The options of `sagelet up` say what it
    removes by itself.
    """
    check_data_directory(own_directory(server))
    if keep_jobs is not None and not (yes or dry_run):
        click.confirm("Forget ended jobs, their logs and metrics, of all accounts and regions?", abort=True, err=True)
    if keep_files_size is not None and keep_files == 0:
        keep_files = None
    rules = Rules(Keep(keep_files, keep_files_size, keep_jobs), keep_uploads)
    found = _collect(server, rules, dry_run=dry_run)
    if as_json:
        echo_json({"data": str(server.data), "dry_run": dry_run, **asdict(found)})
        return
    _tell(found, "would go" if dry_run else "gone")


def _collect(server: Server, rules: Rules, *, dry_run: bool) -> Garbage:
    try:
        return collect_stopped(server.data, rules, lambda: _runtimes(server.data), dry_run=dry_run)
    except DataDirectoryInUse as error:
        in_use = error
    body = {**asdict(rules.keep), "uploads_seconds": rules.uploads_seconds, "dry_run": dry_run}
    try:
        found = ask_owner(server, "gc", body)
    except NoServer as error:
        raise DataDirectoryInUse(f"{in_use}. {error}") from error
    return Garbage(**{**found, "stays": tuple(found["stays"]), "hosts": tuple(found["hosts"])})


def _runtimes(data: Path) -> list[Runtime]:
    from sagelet_engine.machine.runtimes import every_runtime

    return every_runtime(Settings(data=data), SystemClock())


def _tell(found: Garbage, what: str) -> None:
    click.echo(f"files of {found.directories} ended jobs {what}: {size(found.directory_bytes)}")
    if found.jobs:
        click.echo(f"{found.jobs} jobs {what}, with their logs and metrics")
    if found.tuning_jobs:
        click.echo(f"{found.tuning_jobs} tuning jobs {what}")
    if found.executions:
        click.echo(f"{found.executions} executions of pipelines {what}, with their steps")
    if found.environments:
        click.echo(f"packages of {found.environments} requirements files {what}: {size(found.environment_bytes)}")
    if found.uploads:
        click.echo(f"{found.uploads} unfinished uploads {what}: {size(found.upload_bytes)}")
    if found.hub_files:
        click.echo(f"{found.hub_files} files of the hub that no repository has {what}: {size(found.hub_bytes)}")
    if found.database_bytes:
        click.echo(f"databases are smaller by {size(found.database_bytes)}")
    for host in found.hosts:
        click.echo(f"{what}: {host}")
    for message in found.stays:
        click.echo(message, err=True)
