"""`sagelet cache`: compiled programs that outlive their jobs."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import click

from sagelet_api.cli.options import data_option, json_option
from sagelet_api.cli.output import Column, echo_json, iso, show_rows
from sagelet_api.cli.output import size as in_words
from sagelet_engine.compile_cache.store import CacheStore, Entry


def _used(entry: Entry) -> datetime:
    return datetime.fromtimestamp(entry.used_ms / 1000, tz=timezone.utc)


COLUMNS: Sequence[Column[Entry]] = (
    Column("NAME", lambda entry: entry.name[:16]),
    Column("SIZE", lambda entry: in_words(entry.size), plain=lambda entry: str(entry.size), right=True),
    Column("USED", lambda entry: f"{_used(entry):%Y-%m-%d %H:%M}Z", plain=lambda entry: iso(_used(entry))),
    Column("ACCOUNT", lambda entry: entry.account),
    Column("IMAGE", lambda entry: entry.image),
)


@click.group()
@data_option
@click.pass_context
def cache(context: click.Context, data: Path) -> None:
    """Compiled programs that outlive their jobs.

    Of a data directory, whose server may run meanwhile.
    """
    context.obj = CacheStore(data, 0)


@cache.command()
@json_option
@click.pass_obj
def ls(store: CacheStore, as_json: bool) -> None:
    """List the entries.

    The least recently used come first: they are dropped first when the cache is full.
    """
    entries = store.entries()
    if as_json:
        echo_json([asdict(entry) for entry in entries])
        return
    show_rows(COLUMNS, entries)
    click.echo(_total(entries), err=True)


@cache.command()
@json_option
@click.pass_obj
def size(store: CacheStore, as_json: bool) -> None:
    """How many entries there are, and their bytes."""
    entries = store.entries()
    if as_json:
        echo_json({"entries": len(entries), "bytes": sum(entry.size for entry in entries)})
        return
    click.echo(_total(entries))


@cache.command()
@click.option("--account", help="Only the entries of this account.")
@click.option("--image", help="Only the entries of this local image.")
@json_option
@click.pass_obj
def clear(store: CacheStore, account: str | None, image: str | None, as_json: bool) -> None:
    """Drop entries. Running jobs keep their copies."""
    dropped = store.clear(account, image)
    if as_json:
        echo_json({"entries": len(dropped), "bytes": sum(entry.size for entry in dropped)})
        return
    click.echo(f"{len(dropped)} entries dropped, {sum(entry.size for entry in dropped)} bytes")


def _total(entries: Sequence[Entry]) -> str:
    return f"{len(entries)} entries, {sum(entry.size for entry in entries)} bytes"
