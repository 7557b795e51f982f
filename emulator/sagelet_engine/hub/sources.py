"""The sources of a repository's files: a directory of this machine, or a prefix of a bucket.

A directory may contain links: huggingface_hub's cache consists of them. A link is followed if it leads into the same
directory, or into the same repository of that cache. Any other link is refused, because every job could read the file
behind it.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote

from sagelet_engine.base import nofollow
from sagelet_engine.base.errors import SageletError
from sagelet_engine.hub.names import COMMIT, Kind, is_path
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.model.principal import allow_all, owner
from sagelet_engine.s3.job_objects import JobObjectStore
from sagelet_engine.s3.store import S3Store

#: Files that tools keep beside a repository's files.
LEFT_OUT = frozenset({".git", ".cache", ".locks", "__pycache__", ".ipynb_checkpoints", ".DS_Store"})
#: The beginning of a file that git put in the place of a large one.
_POINTER = b"version https://git-lfs.github.com/spec/"
_LONGEST_POINTER = 1024


class UnfitSource(SageletError):
    """The source has something that cannot be added, or nothing to add."""


@dataclass(frozen=True)
class SourceFile:
    #: The path in the repository.
    path: str
    #: Bytes.
    size: int


class Source(Protocol):
    def files(self) -> Iterator[SourceFile]:
        """Yields the files in order. Raises UnfitSource, OSError."""
        ...

    def open(self, file: SourceFile) -> BinaryIO:
        """Opens a file. Raises UnfitSource, OSError."""
        ...

    def overlap(self, directory: Path) -> str | None:
        """Returns `contains` or `is in` if the files and a directory of this machine have some in common, or None."""
        ...


class Folder:
    """A directory, or a repository of huggingface_hub's cache (`models--ORGANISATION--NAME`)."""

    def __init__(self, directory: Path) -> None:
        """Raises UnfitSource if the directory cannot be a source."""
        self._root, self._above = _cached(directory.resolve())

    def files(self) -> Iterator[SourceFile]:
        for parts in self._below():
            path = "/".join(parts)
            with self._opened(parts) as data:
                yield SourceFile(path, os.fstat(data.fileno()).st_size)

    def open(self, file: SourceFile) -> BinaryIO:
        return self._open(tuple(file.path.split("/")))

    def overlap(self, directory: Path) -> str | None:
        # Links of the repository may lead to everything in `_above`.
        if _is_within(directory.resolve(), self._above):
            return "contains"
        return "is in" if _is_within(self._root, directory) else None

    def _below(self) -> Iterator[tuple[str, ...]]:
        pending = self._entries(())
        while pending:
            parts, mode = pending.pop()
            if stat.S_ISDIR(mode):
                if not is_path("/".join(parts)):
                    raise UnfitSource(f"{'/'.join(parts)!a} cannot be in a repository: rename it")
                pending += self._entries(parts)
            elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
                yield parts
            else:
                raise UnfitSource(f"{self._root.joinpath(*parts)} is not a file: take it out of the directory")

    def _entries(self, above: tuple[str, ...]) -> list[tuple[tuple[str, ...], int]]:
        """Returns the entries of a directory, the last first."""
        with nofollow.directory(self._root, above, listing=True) as opened:
            names = sorted({*os.listdir(opened)} - LEFT_OUT, reverse=True)
            return [((*above, name), os.lstat(name, dir_fd=opened).st_mode) for name in names]

    @contextmanager
    def _opened(self, parts: tuple[str, ...]) -> Iterator[BinaryIO]:
        data = self._open(parts)
        try:
            yield data
        finally:
            data.close()

    def _open(self, parts: tuple[str, ...]) -> BinaryIO:
        path = self._root.joinpath(*parts)
        if path.is_symlink():
            path = self._behind(path, parts)
        try:
            return nofollow.open_path(path, len(path.relative_to(self._above).parts))
        except nofollow.NoFile as error:
            path = self._root.joinpath(*parts)
            raise UnfitSource(f"{path} is not an ordinary file: put a copy in its place") from error

    def _behind(self, path: Path, parts: tuple[str, ...]) -> Path:
        place = (*self._root.relative_to(self._above).parts, *parts)
        if not nofollow.leads_within(self._above, place, os.readlink(path)):
            raise UnfitSource(
                f"{path} is a link that leads out of {self._above}, and the file behind it would be shown to every "
                "job: put a copy in its place"
            )
        return path.resolve()


class Bucket:
    """The objects under a prefix, in a bucket of the data directory."""

    def __init__(self, store: S3Store, uri: S3Uri) -> None:
        """Raises NoSuchBucket if the bucket does not exist."""
        self._store, self._bucket = store, store.catalog.bucket(uri.bucket)
        self._prefix = f"{uri.key.rstrip('/')}/" if uri.key.strip("/") else ""

    def files(self) -> Iterator[SourceFile]:
        bucket = self._bucket
        for stored in JobObjectStore(self._store, allow_all).list(owner(bucket.account), bucket.name, self._prefix):
            path = stored.key.removeprefix(self._prefix)
            # Consoles show a directory by a key that ends with a slash.
            if path and not path.endswith("/") and not {*path.split("/")} & LEFT_OUT:
                yield SourceFile(path, stored.size)

    def overlap(self, directory: Path) -> str | None:  # noqa: ARG002 - those of a bucket are its owner's objects
        return None

    def open(self, file: SourceFile) -> BinaryIO:
        return self._store.open(self._bucket.name, self._prefix + file.path)[1]


def _is_within(inner: Path, outer: Path) -> bool:
    """True if a directory is another one or below it, by whichever name: a mount gives a directory a second one."""
    return (
        any(above.exists() and above.samefile(outer) for above in (inner, *inner.parents)) if outer.exists() else False
    )


def refuse_pointer(file: SourceFile, data: BinaryIO) -> None:
    """Raises UnfitSource for a pointer that `git clone` leaves without git-lfs. Leaves `data` at its beginning."""
    if file.size <= _LONGEST_POINTER and data.read(len(_POINTER)) == _POINTER:
        raise UnfitSource(f"{file.path} is not the file but git's pointer to it: run `git lfs pull` there first")
    data.seek(0)


def named_by_cache(directory: Path) -> tuple[Kind, str] | None:
    """Returns the kind and name of the repository in a directory of huggingface_hub's cache. None if it is not in such
    a cache.
    """
    resolved = directory.resolve()
    for place in (resolved, resolved.parent.parent):
        kind, separator, rest = place.name.partition("--")
        if separator and (place / "snapshots").is_dir() and kind in {one.value for one in Kind}:
            return Kind(kind), unquote(rest).replace("--", "/")
    return None


def _cached(directory: Path) -> tuple[Path, Path]:
    """Returns the directory with a repository's files, and the directory that its links may lead to."""
    if COMMIT.fullmatch(directory.name) and directory.parent.name == "snapshots":
        return directory, directory.parent.parent
    snapshots = directory / "snapshots"
    if named_by_cache(directory) is None:
        return directory, directory
    main = directory / "refs" / "main"
    there = sorted(path.name for path in snapshots.iterdir())
    newest = main.read_text().strip() if main.is_file() else there[0] if len(there) == 1 else ""
    if newest not in there:
        raise UnfitSource(f"{snapshots} holds {len(there)} revisions: name the directory of one")
    return snapshots / newest, directory
