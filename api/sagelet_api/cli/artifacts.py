"""`sagelet artifacts`: lists and downloads what a job leaves in S3.

What a job wrote is hostile, including its keys and its archives. Nothing lands outside of the given directory.
"""

import errno
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import click
from rich.text import Text

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ServerRefused, unreachable
from sagelet_api.cli.exit_codes import ERROR
from sagelet_api.cli.kind_rows import described as job_of
from sagelet_api.cli.kinds import Job, JobName
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import Column, age, console, show_rows
from sagelet_api.cli.suggestions import Suggesting
from sagelet_api.cli.text import echo_json, iso, one_line, say, size
from sagelet_api.cli.training_jobs import TRAINING
from sagelet_api.protocol.members import Output, Parameters
from sagelet_api.servers.server import Server
from sagelet_engine.base import nofollow, tarballs
from sagelet_engine.base.errors import SageletError
from sagelet_engine.model.objects import S3Uri

MODEL, OUTPUT, CHECKPOINT = "model", "output", "checkpoint"
#: Archives, and the directories that they become.
ARCHIVES = {"model.tar.gz": "model", "output.tar.gz": "output"}
_CHUNK = 1024 * 1024
_FULL = (errno.ENOSPC, errno.EDQUOT)


class NotSafe(SageletError):
    """The name or the archive would land outside of the directory, or is damaged."""


class NoRoom(SageletError):
    """The directory cannot be written."""


@dataclass(frozen=True)
class Artifact:
    kind: str
    bucket: str
    key: str
    #: The path below the directory that `get` fills: `model.tar.gz`, `checkpoints/step-10.pt`. The job chose the words.
    name: str
    size: int
    modified: datetime

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


COLUMNS: Sequence[Column[Artifact]] = (
    Column("KIND", lambda one: one.kind),
    Column("SIZE", lambda one: size(one.size), plain=lambda one: str(one.size), right=True),
    Column("WRITTEN", lambda one: age(one.modified), plain=lambda one: iso(one.modified), optional=1),
    Column("OBJECT", lambda one: one.uri),
)


@click.group(cls=Suggesting)
def artifacts() -> None:
    """What a job leaves: model, output, checkpoints."""


@artifacts.command()
@click.argument("job", type=JobName(TRAINING))
@json_option
@server_options
def ls(job: str, as_json: bool, server: Server) -> None:
    """List what a job left in S3."""
    aws = Aws(server)
    described = job_of(TRAINING, aws, server, job)
    found = list(_artifacts(aws, described))
    if as_json:
        echo_json([{"kind": one.kind, "uri": one.uri, "bytes": one.size, "modified": one.modified} for one in found])
        return
    show_rows(COLUMNS, found)
    if not found:
        say(f"{job} ({described['TrainingJobStatus']}) has left nothing in S3", err=True)


@artifacts.command()
@click.argument("job", type=JobName(TRAINING))
@click.option(
    "--to",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="A directory that is new or empty. Default: one of the job's name.",
)
@click.option(
    "--only",
    "kinds",
    multiple=True,
    type=click.Choice([MODEL, OUTPUT, CHECKPOINT]),
    help="Only these; may be given several times.",
)
@click.option("--unpack", is_flag=True, help="Directories model/ and output/ instead of their archives.")
@json_option
@click.pass_context
@server_options
def get(
    context: click.Context,
    job: str,
    directory: Path | None,
    kinds: tuple[str, ...],
    unpack: bool,
    as_json: bool,
    server: Server,
) -> None:
    """Download what a job left.

    It prints the files that it has written, one a line in a pipe. Control characters of a name are shown as symbols
    there; --json has the names as they are. An object whose name would lead out of the directory
    is left out, and so is an archive with such a member (--unpack). The others are downloaded, and the exit code is 1.
    """
    aws = Aws(server)
    described = job_of(TRAINING, aws, server, job)
    found = [one for one in _artifacts(aws, described) if not kinds or one.kind in kinds]
    if not found:
        raise SageletError(
            f"{job} ({described['TrainingJobStatus']}) has left nothing" + (f" of {', '.join(kinds)}" if kinds else "")
        )
    target = _fresh(directory or Path(job))
    written, refused = _fetched(aws, server, found, target, unpack=unpack)
    if as_json:
        echo_json({"directory": str(target), "files": [str(path) for path in written], "left_out": refused})
    elif console().is_terminal:
        say(f"{len(written)} file{'s' if len(written) != 1 else ''} in {target}")
    else:
        for path in written:
            say(one_line(str(path)))
    for message in refused:
        say(f"Left out: {one_line(message)}", err=True)
    context.exit(ERROR if refused else 0)


def _artifacts(aws: Aws, job: Job) -> Iterator[Artifact]:
    output = S3Uri.parse(job["OutputDataConfig"]["S3OutputPath"]) / job["TrainingJobName"] / "output/"
    for one in _objects(aws, output):
        name = one["Key"].removeprefix(output.key)
        kind = MODEL if name.startswith(("model.tar.gz", "model/")) else OUTPUT
        yield Artifact(kind, output.bucket, one["Key"], name, one["Size"], one["LastModified"])
    if "CheckpointConfig" not in job:
        return
    place = S3Uri.parse(job["CheckpointConfig"]["S3Uri"])
    prefix = f"{place.key.rstrip('/')}/" if place.key.strip("/") else ""
    for one in _objects(aws, S3Uri(place.bucket, prefix)):
        name = f"checkpoints/{one['Key'].removeprefix(prefix)}"
        yield Artifact(CHECKPOINT, place.bucket, one["Key"], name, one["Size"], one["LastModified"])


def _objects(aws: Aws, prefix: S3Uri) -> Iterator[Output]:
    """Yields the objects, without the keys that stand for directories."""
    more: Parameters = {}
    while True:
        try:
            page = aws.call("s3", "list_objects_v2", Bucket=prefix.bucket, Prefix=prefix.key, **more)
        except ServerRefused as refused:
            if refused.code != "NoSuchBucket":  # Its first object brings it.
                raise
            return
        yield from (one for one in page.get("Contents", []) if not one["Key"].endswith("/"))
        if not page.get("IsTruncated"):
            return
        more = {"ContinuationToken": page["NextContinuationToken"]}


def _fresh(directory: Path) -> Path:
    """Returns a new directory. An existing file is never overwritten, because the job's names are not known before."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise NoRoom(f"{directory} is not empty: name another directory with --to")
    except OSError as error:
        raise NoRoom(f"{directory}: {error.strerror}") from error
    return directory


def _fetched(
    aws: Aws, server: Server, found: Sequence[Artifact], target: Path, *, unpack: bool
) -> tuple[list[Path], list[str]]:
    """Returns the files that were written, and why others were not."""
    written: list[Path] = []
    refused: list[str] = []
    with console(stderr=True).status("") as line:
        for one in found:
            line.update(Text(f"{size(one.size)}, {one.name[:80]}"))
            try:
                directory = ARCHIVES.get(one.name) if unpack else None
                if directory is None:
                    written.append(_file(aws, server, one, target))
                else:
                    written += _unpacked(aws, server, one, target / directory)
            except NotSafe as error:
                refused.append(str(error))
    return written, refused


def _file(aws: Aws, server: Server, one: Artifact, target: Path) -> Path:
    # Not the parts of a Path, which leave out empty parts and dots.
    parts = tuple(one.name.split("/"))
    try:
        with (
            _directories(target, nofollow.parts_of(parts)[:-1]) as parent,
            nofollow.create_at(parent, parts[-1]) as file,
        ):
            try:
                _download(aws, server, one, file)
            except BaseException:
                os.unlink(parts[-1], dir_fd=parent)
                raise
    except OSError as error:
        if error.errno in _FULL:
            raise NoRoom(f"{target}: {error.strerror}") from error
        raise NotSafe(f"{one.uri}: cannot be a file's name here ({error.strerror})") from error
    return target.joinpath(*parts)


@contextmanager
def _directories(target: Path, parts: Sequence[str]) -> Iterator[int]:
    """Opens the innermost of directories below `target`. Makes those that are missing."""
    for depth in range(len(parts)):
        with nofollow.directory(target, tuple(parts[:depth])) as above:
            nofollow.make_directory_at(above, parts[depth])
    with nofollow.directory(target, tuple(parts)) as found:
        yield found


def _unpacked(aws: Aws, server: Server, one: Artifact, directory: Path) -> list[Path]:
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".unpacking-") as place:
        archive = Path(place, "archive")
        with archive.open("wb") as file:
            _download(aws, server, one, file)
        try:
            directory.mkdir()
        except FileExistsError as error:
            raise NotSafe(f"{one.uri}: {directory} is there already") from error
        with _whole_or_gone(directory):
            try:
                tarballs.unpack(archive, directory)
            except tarfile.TarError as error:
                raise NotSafe(f"{one.uri}: cannot be unpacked: {error}") from error
            except OSError as error:
                raise NoRoom(f"{directory}: {error.strerror}") from error
    return sorted(path for path in directory.rglob("*") if path.is_symlink() or not path.is_dir())


@contextmanager
def _whole_or_gone(directory: Path) -> Iterator[None]:
    """Removes a directory that was not filled to its end, also by Ctrl-C: a part would look like the whole."""
    try:
        yield
    except BaseException:
        shutil.rmtree(directory)
        raise


def _download(aws: Aws, server: Server, one: Artifact, file: BinaryIO) -> None:
    """Downloads an object. Raises ServerRefused, NoServer, NoRoom."""
    from botocore.exceptions import BotoCoreError
    from urllib3.exceptions import HTTPError

    body = aws.call("s3", "get_object", Bucket=one.bucket, Key=one.key)["Body"]
    try:
        with body:
            while chunk := body.read(_CHUNK):
                try:
                    file.write(chunk)
                except OSError as error:
                    raise NoRoom(f"{one.name}: {error.strerror}") from error
    except (BotoCoreError, HTTPError) as error:
        raise unreachable(server, error) from error
