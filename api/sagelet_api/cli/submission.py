"""Makes the parts of a job that a command submits: its image, its sources and its inputs, in the account's own
bucket.
"""

import json
import os
import re
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ServerRefused
from sagelet_api.cli.progress import UploadProgress
from sagelet_api.cli.text import printable, say
from sagelet_api.servers.server import Server
from sagelet_api.services.iam import execution_role
from sagelet_engine.base.errors import SageletError

_REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
#: What the SDK's PyTorch estimator would name, without and with its TrainingCompilerConfig.
NATIVE_IMAGE = f"{_REGISTRY}/pytorch-training:1.13.1-gpu-py39"
COMPILED_IMAGE = f"{_REGISTRY}/pytorch-trcomp-training:1.13.1-gpu-py39"
#: These switch the Training Compiler on, as the SDK's TrainingCompilerConfig does.
COMPILE = {"sagemaker_training_compiler_enabled": "true"}
#: Directories that do not hold sources.
_LEFT_OUT = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", ".ipynb_checkpoints", ".mypy_cache"})
#: Characters of a job's name, and of the suffix that sagelet adds to make it unique.
_LONGEST_NAME = 63
#: The most files that are named when they are not uploaded.
_NAMED = 5


class BadSource(SageletError):
    """A file or directory that a job needs is missing or cannot be read."""


def new_name(stem: str) -> str:
    """Returns `train-2026-11-24-02-43-08-123`, in the form of the SDK's names."""
    now = time.time()
    stamp = f"{time.strftime('%Y-%m-%d-%H-%M-%S', time.gmtime(now))}-{int(now * 1000) % 1000:03d}"
    base = re.sub(r"[^a-zA-Z0-9]+", "-", stem).strip("-") or "job"
    return f"{base[: _LONGEST_NAME - len(stamp) - 1].rstrip('-')}-{stamp}"


def role_of(server: Server) -> str:
    """Returns the execution role that every account has."""
    return f"arn:aws:iam::{server.account}:role{execution_role.PATH}{execution_role.NAME}"


def own_bucket(server: Server) -> str:
    """Returns the SDK's default bucket of the account and region."""
    return f"sagemaker-{server.region}-{server.account}"


def ensure_bucket(aws: Aws, server: Server, bucket: str) -> None:
    """Makes a bucket if it does not exist. Raises ServerRefused, NoServer."""
    # S3 has no location constraint for us-east-1.
    place = {} if server.region == "us-east-1" else {"LocationConstraint": server.region}
    try:
        aws.call("s3", "create_bucket", Bucket=bucket, **({"CreateBucketConfiguration": place} if place else {}))
    except ServerRefused as refused:
        if refused.code != "BucketAlreadyOwnedByYou":
            raise


def upload_sources(aws: Aws, bucket: str, key: str, script: Path, source_dir: Path | None) -> Mapping[str, str]:
    """Uploads the sources. Returns the hyperparameters by which a job finds its script. Without `source_dir` the script
    is the only source.

    Raises BadSource, ServerRefused, NoServer.
    """
    program = script.name
    if source_dir is not None:
        try:
            program = script.resolve().relative_to(source_dir.resolve()).as_posix()
        except ValueError as error:
            raise BadSource(f"{script} is not in --source-dir {source_dir}") from error
    with tempfile.TemporaryFile() as archive:
        try:
            _pack(archive, script, source_dir)
        except OSError as error:
            raise BadSource(f"{error.filename or script}: {error.strerror or error}") from error
        archive.seek(0)
        aws.call("s3", "put_object", Bucket=bucket, Key=key, Body=archive)
    # The toolkit reads hyperparameters as JSON.
    return {
        "sagemaker_program": json.dumps(program),
        "sagemaker_submit_directory": json.dumps(f"s3://{bucket}/{key}"),
    }


def input_files(channel: str, source: Path) -> list[Path]:
    """Returns the files of a channel that is here: a file itself, or all below a directory. Says what else is there,
    which is not uploaded. Raises BadSource if there are none, or one cannot be uploaded.
    """
    option = f"--input {channel}={source}"
    try:
        files, others = ([source], []) if source.is_file() else _files(source)
    except OSError as error:
        raise BadSource(f"{option}: {error.filename}: {error.strerror}") from error
    if others:
        more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
        named = ", ".join(printable(str(path.relative_to(source))) for path in others[:_NAMED])
        say(f"{option}: not uploaded: {named}{more} (pipes, and links to directories or to nothing)", err=True)
    for file in files:
        _name(source, file)
    if files:
        return files
    if source.is_dir():
        raise BadSource(f"{option}: {source} has no files")
    if source.exists():
        raise BadSource(f"{option}: {source} is neither a file nor a directory")
    raise BadSource(f"{option}: {source}: no such file or directory; data in S3 is s3://BUCKET/PREFIX")


def upload_input(aws: Aws, bucket: str, prefix: str, source: Path, files: list[Path]) -> str:
    """Uploads the files of a file or a directory and returns the S3 URI of their objects. Raises BadSource,
    ServerRefused, NoServer.
    """
    try:
        with UploadProgress(len(files), sum(file.stat().st_size for file in files)) as progress:
            for file in files:
                _upload(aws, bucket, f"{prefix}/{_name(source, file)}", file, progress)
    except OSError as error:
        raise BadSource(f"{error.filename or source}: {error.strerror or error}") from error
    return f"s3://{bucket}/{prefix}"


def _upload(aws: Aws, bucket: str, key: str, file: Path, progress: UploadProgress) -> None:
    """Raises BadSource if the file is not the same at the end: its object may be a part of it, or of two contents."""
    before = _state(file)
    try:
        aws.upload(bucket, key, file, progress.seen)
    except ServerRefused as refused:
        # A file that became shorter is a body that never ends, for the server.
        if _state(file) == before:
            raise
        raise BadSource(f"{file} was changed while it was uploaded") from refused
    if _state(file) != before:
        raise BadSource(f"{file} was changed while it was uploaded")


def _state(file: Path) -> tuple[int, int]:
    facts = file.stat()
    return facts.st_size, facts.st_mtime_ns


def _name(source: Path, file: Path) -> str:
    """Returns the end of an object's key. Raises BadSource for a name that no key can hold."""
    name = file.name if file is source else file.relative_to(source).as_posix()
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise BadSource(f"{os.fsencode(file)!r}: the name is not UTF-8, as an object's key must be") from error
    return name


def _files(directory: Path) -> tuple[list[Path], list[Path]]:
    """Returns the files below a directory, and what else is there and has no files. Raises OSError."""
    files: list[Path] = []
    others: list[Path] = []
    for place, names, ends in os.walk(directory, onerror=_raised if directory.is_dir() else None):
        others += [path for name in names if (path := Path(place, name)).is_symlink()]
        for path in (Path(place, name) for name in ends):
            (files if path.is_file() else others).append(path)
    return sorted(files), sorted(others)


def _raised(error: OSError) -> None:
    raise error


def _pack(archive: Any, script: Path, source_dir: Path | None) -> None:
    with tarfile.open(fileobj=archive, mode="w:gz") as opened:
        if source_dir is None:
            opened.add(script.resolve(), script.name, filter=_anonymous)
        else:
            opened.add(source_dir, ".", filter=_source)


def _source(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = Path(member.name).parts
    is_kept = member.isfile() or member.isdir() or member.issym()
    return _anonymous(member) if is_kept and not _LEFT_OUT & set(parts) else None


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Removes the owner: users of this machine mean nothing in the container."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
