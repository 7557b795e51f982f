"""`sagelet cache`: compiled programs that outlive their jobs."""

import json
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import click

from sagelet_engine.compile_cache.store import CacheStore, Entry
from sagelet_engine.settings import default_data_directory


@click.group()
@click.option(
    "--data",
    default=default_data_directory,
    envvar="SAGELET_DATA",
    show_envvar=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory of the server, which may run meanwhile.",
)
@click.pass_context
def cache(context: click.Context, data: Path) -> None:
    """Show and clear the compile cache."""
    context.obj = CacheStore(data.expanduser().resolve(), 0)


@cache.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def ls(store: CacheStore, as_json: bool) -> None:
    """The entries, the least recently used first: these go first when the cache is full."""
    entries = store.entries()
    if as_json:
        click.echo(json.dumps([asdict(entry) for entry in entries], indent=2))
        return
    for entry in entries:
        used = datetime.fromtimestamp(entry.used_ms / 1000, tz=timezone.utc)
        click.echo(f"{entry.name[:16]}  {entry.size:>12}  {used:%Y-%m-%d %H:%M}Z  {entry.account}  {entry.image}")
    _echo_total(entries)


@cache.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def size(store: CacheStore, as_json: bool) -> None:
    """How many entries there are, and their bytes."""
    entries = store.entries()
    if as_json:
        click.echo(json.dumps({"entries": len(entries), "bytes": sum(entry.size for entry in entries)}))
        return
    _echo_total(entries)


@cache.command()
@click.option("--account", help="Only the entries of this account.")
@click.option("--image", help="Only the entries of this local image.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def clear(store: CacheStore, account: str | None, image: str | None, as_json: bool) -> None:
    """Drop entries. Jobs that run keep their copies."""
    dropped = store.clear(account, image)
    if as_json:
        click.echo(json.dumps({"entries": len(dropped), "bytes": sum(entry.size for entry in dropped)}))
        return
    click.echo(f"{len(dropped)} entries dropped, {sum(entry.size for entry in dropped)} bytes")


def _echo_total(entries: list[Entry]) -> None:
    click.echo(f"{len(entries)} entries, {sum(entry.size for entry in entries)} bytes")
