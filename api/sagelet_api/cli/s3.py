"""`sagelet s3`: operations that are faster outside of S3's API."""

from collections.abc import Iterable
from pathlib import Path

import click

from sagelet_api.cli.directories import served_directory
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import console
from sagelet_api.cli.suggestions import Suggesting
from sagelet_api.cli.text import echo_json, size
from sagelet_api.servers.server import Server
from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.s3.errors import NoSuchBucket
from sagelet_engine.s3.importing import LINKED, Imported, import_directory
from sagelet_engine.s3.store import S3Store
from sagelet_engine.state.contents import check_complete


@click.group(cls=Suggesting)
def s3() -> None:
    """Bring files of this machine into S3."""


@s3.command("import")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("target", metavar="S3://BUCKET[/PREFIX]")
@click.option("--copy", is_flag=True, help="Copy the files even where links would do.")
@json_option
@server_options
def import_(directory: Path, target: str, copy: bool, as_json: bool, server: Server) -> None:
    """Store the files of a directory as objects.

    All files in DIRECTORY become objects under S3://BUCKET/PREFIX; a missing bucket is made. The server runs
    meanwhile; without one, and for the directory of another server, the import is refused.

    If the file system allows it, nothing is copied: the objects share blocks with the files (btrfs, XFS), or they are
    hard links to them. Do not change a linked file afterwards: reads of an object whose file has changed are refused.
    """
    uri = _parsed(target)
    data = served_directory(server)
    check_complete(data)
    try:
        store = S3Store(data / "s3", SystemClock())
    except OSError as error:
        raise SettingsError(f"--data {data}: cannot be used as a directory: {error.strerror}") from error
    try:
        _ensure_bucket(store, uri.bucket, server.account, server.region)
        done = _shown(import_directory(store, directory, uri.bucket, uri.key, copy=copy))
    except OSError as error:
        raise SettingsError(f"{error.filename or directory}: {error.strerror}") from error
    finally:
        store.close()
    total = sum(one.size for one in done)
    linked = sum(one.how == LINKED for one in done)
    if as_json:
        echo_json({"uri": str(uri), "objects": len(done), "bytes": total, "links": linked})
        return
    click.echo(
        f"{_objects(len(done))}, {total} bytes in {uri}" + (f"; links to your files: {linked}" if linked else "")
    )


def _shown(imported: Iterable[Imported]) -> list[Imported]:
    """Returns all of them. On a terminal, shows a line that counts them."""
    done: list[Imported] = []
    total = 0
    with console(stderr=True).status("") as line:
        for one in imported:
            done.append(one)
            total += one.size
            line.update(f"{_objects(len(done))}, {size(total)}")
    return done


def _parsed(target: str) -> S3Uri:
    try:
        return S3Uri.parse(target)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _ensure_bucket(store: S3Store, name: str, account: str, region: str) -> None:
    try:
        bucket = store.catalog.bucket(name)
    except NoSuchBucket:
        bucket = store.create_bucket(name, account, region)
    if bucket.account != account:
        raise SettingsError(f"The bucket {name} belongs to the account {bucket.account}: name it with --account")


def _objects(count: int) -> str:
    return f"{count} object{'' if count == 1 else 's'}"
