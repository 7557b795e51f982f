"""`sagelet s3`: what is quicker beside S3's API than through it."""

from pathlib import Path

import click

from sagelet_api.cli.control_client import default_account
from sagelet_api.credentials import DEFAULT_REGION
from sagelet_engine.clock import SystemClock
from sagelet_engine.data.objects import S3Uri
from sagelet_engine.errors import SettingsError
from sagelet_engine.s3.errors import NoSuchBucket
from sagelet_engine.s3.importing import LINKED, import_directory
from sagelet_engine.s3.store import S3Store
from sagelet_engine.settings import default_data_directory


@click.group()
def s3() -> None:
    """Objects of the data directory."""


@s3.command("import")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("target", metavar="S3://BUCKET[/PREFIX]")
@click.option(
    "--data",
    envvar="SAGELET_DATA",
    show_envvar=True,
    default=default_data_directory,
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory of the server, which may run meanwhile.",
)
@click.option("--copy", is_flag=True, help="Copy the files even where links would do.")
@click.option("--account", default=default_account, help="Default: AWS_ACCESS_KEY_ID, where that is 12 digits.")
@click.option(
    "--region", envvar=["AWS_REGION", "AWS_DEFAULT_REGION"], default=DEFAULT_REGION, show_default=True, show_envvar=True
)
def import_(directory: Path, target: str, data: Path, copy: bool, account: str, region: str) -> None:
    """Make objects of all files in DIRECTORY, under S3://BUCKET/PREFIX; a bucket that is not there is made.

    Nothing is copied where the file system allows: the objects share blocks with the files (btrfs, XFS), or they are
    hard links to them. Leave a linked file alone afterwards: an object whose file has changed is refused.
    """
    uri = _parsed(target)
    root = data.expanduser().resolve() / "s3"
    try:
        store = S3Store(root, SystemClock())
    except OSError as error:
        raise SettingsError(f"--data {data}: cannot be used as a directory: {error.strerror}") from error
    try:
        _ensure_bucket(store, uri.bucket, account, region)
        done = list(import_directory(store, directory, uri.bucket, uri.key, copy=copy))
    except OSError as error:
        raise SettingsError(f"{error.filename or directory}: {error.strerror}") from error
    finally:
        store.close()
    size = sum(one.size for one in done)
    linked = sum(one.how == LINKED for one in done)
    click.echo(
        f"{len(done)} objects, {size} bytes in {uri}" + (f"; {linked} are links to your files" if linked else "")
    )


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
