"""Imports a directory into a bucket without a copy: `sagelet s3 import`.

Each file becomes an object that shares the file's blocks (a reflink), if the file system can. Otherwise it shares the
inode (a hard link), if both are on one file system. Otherwise it is copied. Nobody may change a linked file from then
on: if its time or size changes, reads of the object fail with DamagedObject. The bytes are read once, for the ETag.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.key_names import MAX_KEY
from sagelet_engine.s3.checksums import Digests
from sagelet_engine.s3.errors import DamagedObject
from sagelet_engine.s3.files import clean_disk_full, clone, copy_range
from sagelet_engine.s3.staged import CHUNK, rest
from sagelet_engine.s3.store import S3Store

#: How a file's bytes came into the store.
LINKED, SHARED, COPIED = "linked", "shared", "copied"


class UnfitName(SageletError):
    """A file's path cannot be a key."""


@dataclass(frozen=True)
class Imported:
    key: str
    size: int
    how: str


def files_under(directory: Path) -> Iterator[tuple[str, Path]]:
    """Yields every ordinary file and its path in the directory, in order. Symbolic links are left out."""
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path.relative_to(directory).as_posix(), path


def import_directory(
    store: S3Store, directory: Path, bucket: str, prefix: str, *, copy: bool = False
) -> Iterator[Imported]:
    """Makes objects of all files, one after another. `copy`: copies even if a link is possible.

    Raises NoSuchBucket, DamagedObject if a file changes meanwhile, and OSError if one cannot be read.
    """
    base = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
    with store.importing():
        for name, path in files_under(directory):
            yield _import(store, path, bucket, _key(base + name), copy=copy)


def _key(name: str) -> str:
    try:
        length = len(name.encode())
    except UnicodeEncodeError as error:
        raise UnfitName(f"{name!a} is not UTF-8, so it cannot be a key: rename the file") from error
    if length > MAX_KEY:
        raise UnfitName(
            f"{name} makes a key of {length} bytes; S3 takes {MAX_KEY} at most: use a shorter prefix or path"
        )
    return name


def _import(store: S3Store, path: Path, bucket: str, key: str, *, copy: bool) -> Imported:
    digests = Digests()
    with path.open("rb") as source, store.files.stage(digests) as staged, clean_disk_full(store.files.root):
        staged.close()
        before = os.fstat(source.fileno())
        target = store.files.staged(staged.file_id)
        how = _take(path, source.fileno(), target, before, linking=not copy)
        with target.open("rb") as data:
            while chunk := data.read(CHUNK):
                digests.update(chunk)
        after = os.fstat(source.fileno())
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise DamagedObject(f"{path} was changed while it was imported: import it again when nobody writes to it")
        linked_ns = after.st_mtime_ns if how == LINKED else None
        stored = store.commit(
            bucket, key, staged.file_id, after.st_size,
            etag=digests.md5.hex(), linked_ns=linked_ns, attributes={"ContentType": "binary/octet-stream"},
        )  # fmt: skip
    return Imported(stored.key, stored.size, how)


def _take(path: Path, source: int, target: Path, status: os.stat_result, *, linking: bool) -> str:
    """Puts a file's bytes into `target`, an empty file."""
    descriptor = os.open(target, os.O_WRONLY)
    try:
        if linking and clone(source, descriptor):
            rest(descriptor)
            return SHARED
        if linking and _linked(path, target, status):
            return LINKED
        copy_range(source, descriptor, 0, status.st_size)
        rest(descriptor)
        return COPIED
    finally:
        os.close(descriptor)


def _linked(path: Path, target: Path, status: os.stat_result) -> bool:
    beside = target.with_name(f"{target.name}.link")
    try:
        os.link(path, beside, follow_symlinks=False)
    except OSError:
        return False
    if not os.path.samestat(beside.stat(), status):
        beside.unlink()
        return False
    beside.replace(target)
    return True
