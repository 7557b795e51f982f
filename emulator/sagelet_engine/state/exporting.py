"""Writes the content of a data directory into one file, even while a server uses it.

The databases are copied as of one moment, and a copy cannot change. Files of objects are never written again, only
replaced. So it is enough to make hard links to them while no writer may commit. After that the server goes on, and the
archive is written from the links. Jobs are copied before objects, so every object that a copied job has written is in
the archive.
"""

import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import sagelet_engine
from sagelet_engine.base.database import copy_database
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.hub.records import DamagedRepository, files_of
from sagelet_engine.hub.store import BLOBS, HubStore, place_of
from sagelet_engine.hub.store import DIRECTORY as HUB
from sagelet_engine.s3.catalog import Catalog
from sagelet_engine.s3.errors import DamagedObject
from sagelet_engine.s3.files import Files, link_or_copy
from sagelet_engine.s3.records import StoredObject
from sagelet_engine.s3.verifying import damaged, verifier
from sagelet_engine.state import archive, contents
from sagelet_engine.state.change import workspace
from sagelet_engine.store.jobs import Store

BLOBS_PATH = f"{HUB}/{BLOBS}"
_ENDINGS = {".tar": False, ".tar.gz": True, ".tgz": True}


@dataclass(frozen=True)
class Exported:
    jobs: int
    objects: int
    #: Bytes of the objects.
    bytes: int
    #: Entries of jobs' directories that no archive can hold: pipes, sockets, links that lead out.
    left_out: int
    #: Bytes of the hub.
    repositories: int


def export_data(data: Path, target: Path, *, job_files: bool = True) -> Exported:
    """Writes all of a data directory to a new file. `job_files`: with the directories of jobs.

    Raises NoDataDirectory, UnknownSchema, SettingsError, DamagedObject, DamagedRepository.
    """
    compressed = _compressed(target)
    contents.check_data_directory(data)
    try:
        with workspace(data) as place, _finished(target) as out:
            snapshot = _Snapshot(data, place)
            try:
                return snapshot.write(out, compressed=compressed, job_files=job_files)
            finally:
                snapshot.close()
    except OSError as error:
        raise SettingsError(f"The export failed: {error}. Nothing was left of {target}") from error


def _compressed(target: Path) -> bool:
    for ending, compressed in _ENDINGS.items():
        if target.name.endswith(ending):
            return compressed
    raise SettingsError(f"{target}: the name must end with {', '.join(_ENDINGS)}, which says the format")


@contextmanager
def _finished(target: Path) -> Iterator[BinaryIO]:
    """Gives a new file, which gets its name when it is complete."""
    partial = target.with_name(f".{target.name}.part")
    if os.path.lexists(target):
        raise SettingsError(f"{target} exists already: name another file, or move it away")
    partial.unlink(missing_ok=True)
    try:
        # Jobs have secrets in their Environment.
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        # Unlike a rename, this does not replace a file that was made there meanwhile.
        _name(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _name(partial: Path, target: Path) -> None:
    try:
        os.link(partial, target)
    except OSError as error:
        if error.errno == errno.EEXIST:
            raise
        partial.rename(target)


class _Snapshot:
    """A data directory as of now."""

    def __init__(self, data: Path, place: Path) -> None:
        self._data = data
        self._place = place
        self._files = place / "files"
        self._files.mkdir()
        self._damaged: list[str] = []
        if (data / contents.JOBS_DATABASE).exists():
            copy_database(data / contents.JOBS_DATABASE, self._database)
        self._link_objects()
        self._repositories = self._link_hub()
        # These bring the copies to the current schema. The originals stay as the server that uses them needs them.
        self.store = Store(self._database)
        self.catalog = Catalog(self._catalog)

    @property
    def _database(self) -> Path:
        return self._place / "sagelet.db"

    @property
    def _catalog(self) -> Path:
        return self._place / "catalog.db"

    def close(self) -> None:
        self.store.close()
        self.catalog.close()

    def write(self, out: BinaryIO, *, compressed: bool, job_files: bool) -> Exported:
        jobs, sizes = sum(self.store.counts().values()), [stored.size for stored in self.catalog.every_object()]
        ended = [Path("jobs", job.account, job.region, job.id) for job in self.store.ended_jobs()]
        self.close()
        with archive.writing(out, _head(), compressed=compressed) as writer:
            writer.file(archive.DATABASE, self._database)
            writer.file(archive.CATALOG, self._catalog)
            self._write_objects(writer)
            self._write_hub(writer)
            # What a running job writes there is not a state that a job could go on from.
            trees = [*ended, Path("warm-pools")] if job_files else []
            left_out = sum(writer.tree(path.as_posix(), self._data / path) for path in trees)
        return Exported(
            jobs=jobs, objects=len(sizes), bytes=sum(sizes), left_out=left_out, repositories=len(self._repositories)
        )

    def _write_hub(self, writer: archive.Writer) -> None:
        """Writes the hub's records and files. Raises DamagedRepository."""
        for name in self._repositories:
            writer.file(name, self._place / name)
        blobs = self._place / BLOBS_PATH
        for path in sorted(blobs.iterdir()) if blobs.is_dir() else ():
            digest = hashlib.sha256()
            writer.file(f"{BLOBS_PATH}/{path.name}", path, digest.update)
            if digest.hexdigest() != path.name:
                raise DamagedRepository(
                    f"{self._data / BLOBS_PATH / path.name} was changed by others: run `sagelet check --repair`, "
                    "and add the repository that has it again; nothing was exported"
                )

    def _write_objects(self, writer: archive.Writer) -> None:
        """Writes the objects. Raises DamagedObject for changed bytes, because the export would otherwise seem sound."""
        catalog = Catalog(self._catalog)
        try:
            for path in sorted(self._files.iterdir()):
                stored = catalog.by_file(path.name)
                known = None if stored is None else verifier(stored)
                writer.file(f"{archive.FILES}{path.name}", path, *(() if known is None else (known.update,)))
                if stored is not None and known is not None and not known.matches():
                    raise damaged(stored)
        finally:
            catalog.close()

    def _link_objects(self) -> None:
        root = self._data / contents.OBJECTS
        if not (self._data / contents.CATALOG).exists():
            return
        files = Files(root)
        with (root / ".lock").open("a") as lock:
            # Holds the writers' lock, so that nobody commits meanwhile.
            fcntl.flock(lock, fcntl.LOCK_EX)
            copy_database(self._data / contents.CATALOG, self._catalog)
            catalog = Catalog(self._catalog)
            try:
                for stored in catalog.every_object():
                    self._link_object(files, stored)
                for file_id in catalog.every_upload_file():
                    if files.staged(file_id).exists():
                        _link(files.staged(file_id), self._files / file_id)
            finally:
                catalog.close()
        if self._damaged:
            raise DamagedObject(
                f"The files of {len(self._damaged)} objects are gone or were changed by other programs: "
                f"{', '.join(self._damaged[:5])}. Put them again, or delete them; nothing was exported"
            )

    def _link_hub(self) -> list[str]:
        """Links the hub's files and returns the records of repositories, by their names in the archive. Raises
        DamagedRepository.
        """
        store = HubStore(self._data)
        if not store.root.is_dir():
            return []
        copy = HubStore(self._place)
        with store.committing():
            found = store.readable()
            copy.adopt(found)
            (self._place / BLOBS_PATH).mkdir()
            for file in files_of(found):
                with store.open(file) as opened:
                    link_or_copy(store.root / BLOBS / file.sha256, opened, self._place / BLOBS_PATH / file.sha256)
        return [f"{HUB}/{place}" for place in map(place_of, found)]

    def _link_object(self, files: Files, stored: StoredObject) -> None:
        staged = files.staged(stored.file_id)
        path = staged if staged.exists() else files.root / stored.path
        try:
            status = path.lstat()
        except FileNotFoundError:
            status = None
        if status is None or status.st_size != stored.size or stored.linked_ns not in (None, status.st_mtime_ns):
            self._damaged.append(f"s3://{stored.bucket}/{stored.key}")
        else:
            _link(path, self._files / stored.file_id)


def _link(path: Path, target: Path) -> None:
    with path.open("rb") as opened:
        link_or_copy(path, opened, target)


def _head() -> dict[str, object]:
    schemas = {archive.DATABASE: contents.SCHEMAS[contents.JOBS_DATABASE].version}
    return {
        "sagelet": sagelet_engine.__version__,
        "schemas": {**schemas, archive.CATALOG: contents.SCHEMAS[contents.CATALOG].version},
    }
