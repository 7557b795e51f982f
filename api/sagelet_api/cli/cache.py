"""`sagelet cache`: compiled programs that outlive their jobs."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone

import click

from sagelet_api.cli.directories import known_directory, own_directory
from sagelet_api.cli.options import directory_options, json_option
from sagelet_api.cli.output import Column, show_rows
from sagelet_api.cli.suggestions import Suggesting
from sagelet_api.cli.text import echo_json, iso
from sagelet_api.cli.text import size as in_words
from sagelet_api.servers.server import Server
from sagelet_engine.compile_cache.store import CacheStore, Entry


def _used(entry: Entry) -> datetime:
    return datetime.fromtimestamp(entry.used_ms / 1000, tz=timezone.utc)


COLUMNS: Sequence[Column[Entry]] = (
    Column("NAME", lambda entry: entry.name[:16]),
    Column("SIZE", lambda entry: in_words(entry.size), plain=lambda entry: str(entry.size), right=True),
    Column("USED", lambda entry: f"{_used(entry):%Y-%m-%d %H:%M}Z", plain=lambda entry: iso(_used(entry))),
    Column("ACCOUNT", lambda entry: entry.account),
    Column("IMAGE", lambda entry: entry.image),
    Column("KIND", lambda entry: entry.kind),
)


@click.group(cls=Suggesting)
def cache() -> None:
    """Compiled programs that outlive their jobs.

    They belong to a data directory. Its server may run meanwhile.
    """


@cache.command()
@json_option
@directory_options
def ls(as_json: bool, server: Server) -> None:
    """List the entries.

    The least recently used come first: they are dropped first when the cache is full.
    """
    entries = CacheStore(known_directory(server), 0).entries()
    if as_json:
        echo_json([asdict(entry) for entry in entries])
        return
    show_rows(COLUMNS, entries)
    click.echo(_total(entries), err=True)


@cache.command()
@json_option
@directory_options
def size(as_json: bool, server: Server) -> None:
    """The number of entries, and their bytes."""
    entries = CacheStore(known_directory(server), 0).entries()
    if as_json:
        echo_json({"entries": len(entries), "bytes": sum(entry.size for entry in entries)})
        return
    click.echo(_total(entries))


@cache.command()
@click.option("--account", help="Only the entries of this account.")
@click.option("--image", help="Only the entries of this local image.")
@json_option
@directory_options
def clear(account: str | None, image: str | None, as_json: bool, server: Server) -> None:
    """Drop entries. Running jobs keep their copies."""
    dropped = CacheStore(own_directory(server), 0).clear(account, image)
    if as_json:
        echo_json({"entries": len(dropped), "bytes": sum(entry.size for entry in dropped)})
        return
    click.echo(f"{len(dropped)} entries dropped, {sum(entry.size for entry in dropped)} bytes")


def _total(entries: Sequence[Entry]) -> str:
    return f"{len(entries)} entries, {sum(entry.size for entry in entries)} bytes"
