"""Makes a data directory from an export. Everything is unpacked and checked before anything existing is changed."""

import re
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from sagelet_engine.base.database_damage import damage_of
from sagelet_engine.base.errors import SageletError, SettingsError
from sagelet_engine.base.extraction import Parts, Tree, size_of
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.hub.records import DamagedRepository, files_of
from sagelet_engine.hub.store import BLOBS, HubStore, place_of
from sagelet_engine.model.job import Job
from sagelet_engine.s3.catalog import Catalog
from sagelet_engine.s3.files import Files
from sagelet_engine.s3.names import is_bucket_name
from sagelet_engine.s3.records import StoredObject
from sagelet_engine.s3.staged import READ_ONLY
from sagelet_engine.state import archive, contents
from sagelet_engine.state.archive import ArchiveDamaged, Member
from sagelet_engine.state.change import changing
from sagelet_engine.state.owner import lock_directory
from sagelet_engine.state.writers import without_imports
from sagelet_engine.store.jobs import Store

_FILE_ID = re.compile("[0-9a-f]{32}")
#: A part of a path that cannot lead elsewhere.
_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)


class UnknownArchive(SageletError):
    """The archive was written by a newer sagelet, or before the first release."""


class DataThere(SettingsError):
    """The data directory already holds something."""


@dataclass(frozen=True)
class Imported:
    jobs: int
    objects: int
    #: Counts the hub's repositories.
    repositories: int
    #: Where files of others that were in the way are now.
    kept: list[Path]


def import_data(source: Path, data: Path, *, replace: bool = False) -> Imported:
    """Fills an empty data directory or, with `replace`, replaces the content of one.

    Raises DataThere, NoDataDirectory, DataDirectoryInUse, ArchiveDamaged, UnknownArchive, UnknownSchema, SettingsError.
    """
    if not source.is_file():
        raise SettingsError(f"{source}: no such file")
    _check_target(data, replace=replace)
    lock = lock_directory(data)
    try:
        _check_target(data, replace=replace)
        with source.open("rb") as packed, changing(data) as change:
            _Unpacking(change.new).run(packed)
            _check_databases(change.new)
            jobs, objects = _check_jobs(change.new), _publish_objects(change.new)
            repositories = _check_hub(change.new)
            with without_imports(data):
                return Imported(jobs, objects, repositories, change.commit(contents.EVERYTHING))
    except OSError as error:
        raise SettingsError(f"{error.filename or data}: {error.strerror or error}") from error
    finally:
        lock.close()


def _check_target(data: Path, *, replace: bool) -> None:
    if contents.is_empty(data):
        return
    contents.check_data_directory(data)
    if not replace:
        raise DataThere(f"--data {data}: holds jobs or objects; --replace puts the archive in their place")


@dataclass
class _Unpacking:
    """Puts members in their places below `root`. Except within trees, the archive does not name these places itself."""

    root: Path
    seen: set[str] = field(default_factory=set)
    trees: dict[str, Tree] = field(default_factory=dict)

    def run(self, packed: BinaryIO) -> None:
        with ExitStack() as stack:
            own = stack.enter_context(Tree(self.root))
            for number, member in enumerate(archive.read_archive(packed)):
                if member.name in self.seen:
                    raise ArchiveDamaged(f"{member.name} occurs twice")
                self.seen.add(member.name)
                if (number == 0) != (member.name == archive.HEAD):
                    raise ArchiveDamaged(f"the archive begins with {member.name}, and an export of sagelet does not")
                self._place(own, member, stack)
            for needed in (archive.DATABASE, archive.CATALOG):
                if needed not in self.seen:
                    raise ArchiveDamaged(f"{needed} is missing")
            for tree in self.trees.values():
                with archive.as_damage():
                    tree.make_links()
        (self.root / "s3" / ".staged").mkdir(parents=True, exist_ok=True)

    def _place(self, own: Tree, member: Member, stack: ExitStack) -> None:
        if member.name == archive.HEAD:
            _check_head(member.json())
        elif member.name == archive.DATABASE:
            _write(own, contents.JOBS_DATABASE, member)
        elif member.name == archive.CATALOG:
            _write(own, contents.CATALOG, member)
        elif member.name.startswith(archive.FILES) and _FILE_ID.fullmatch(member.name.removeprefix(archive.FILES)):
            _write(own, f"s3/.staged/{member.name.removeprefix(archive.FILES)}", member)
        else:
            self._place_in_tree(member, stack)

    def _place_in_tree(self, member: Member, stack: ExitStack) -> None:
        name, *parts = member.name.split("/")
        fine = parts and name in archive.TREES and "\0" not in member.name
        if not fine or any(part in ("", ".", "..") for part in parts):
            raise ArchiveDamaged(f"{member.name} has no place in a data directory")
        if not (member.info.isdir() or member.info.isreg() or member.info.issym()):
            raise ArchiveDamaged(f"{member.name} is not a file, a directory or a link within its tree")
        if name not in self.trees:
            self.trees[name] = stack.enter_context(Tree(self.root / name))
        _put(self.trees[name], tuple(parts), member.info, member)


def _write(tree: Tree, name: str, member: Member) -> None:
    if not member.info.isreg():
        raise ArchiveDamaged(f"{member.name} is not a file")
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = member.info.size, 0o644, member.info.mtime
    _put(tree, tuple(name.split("/")), info, member)


def _put(tree: Tree, parts: Parts, info: tarfile.TarInfo, member: Member) -> None:
    with archive.as_damage():
        tree.charge(info.name, size_of(info))
        tree.put(parts, info, member)


def _check_head(head: JsonObject) -> None:
    if not isinstance(head.get("format"), int):
        raise ArchiveDamaged("the archive does not say its format")
    if head["format"] > archive.FORMAT:
        raise UnknownArchive(
            f"The archive has format {head['format']} (sagelet {head.get('sagelet')}), this sagelet knows up to "
            f"{archive.FORMAT}: use the newer sagelet"
        )
    schemas = head.get("schemas")
    for name, place in ((archive.DATABASE, contents.JOBS_DATABASE), (archive.CATALOG, contents.CATALOG)):
        version = schemas.get(name) if isinstance(schemas, dict) else None
        if isinstance(version, int) and (why := contents.SCHEMAS[place].why_unknown(version)) is not None:
            raise UnknownArchive(f"The archive's {name} (sagelet {head.get('sagelet')}) {why}")


def _check_databases(root: Path) -> None:
    """Checks that the databases are sound and have exactly our own schema, so that nothing in an archive can run
    here.
    """
    for place, name in ((contents.JOBS_DATABASE, archive.DATABASE), (contents.CATALOG, archive.CATALOG)):
        for why in damage_of(root / place, contents.SCHEMAS[place]):
            raise ArchiveDamaged(f"{name}: {why}")


def _check_jobs(root: Path) -> int:
    """Brings the jobs to the current schema and returns their number."""
    store = Store(root / contents.JOBS_DATABASE)
    try:
        for job_id, why in store.broken_records():
            raise ArchiveDamaged(f"{archive.DATABASE}: the record of job {job_id!r} cannot be read: {why}")
        unreadable = [(record_id, why) for _, record_id, why in store.orchestrations.broken_records()]
        for name, why in (*unreadable, *store.pipelines.broken_records(), *store.registry.broken_records()):
            raise ArchiveDamaged(f"{archive.DATABASE}: the record of {name!r} cannot be read: {why}")
        for job in store.every_job():
            _check_names(job)
        return sum(store.counts().values())
    finally:
        store.close()


def _check_names(job: Job) -> None:
    """Checks the names in a record, because they become paths in the data directory."""
    for name in (job.id, job.key.account, job.key.region, job.cluster or "none"):
        if not _NAME.fullmatch(name):
            raise ArchiveDamaged(f"{archive.DATABASE}: {name!r} cannot be the name of a job's directory")


def _check_hub(root: Path) -> int:
    """Checks that all files of the repositories are there, and no other file. Returns the number of repositories."""
    store = HubStore(root)
    if not store.root.is_dir():
        return 0
    try:
        found = store.readable()
        for file in files_of(found):
            store.open(file).close()
    except DamagedRepository as error:
        raise ArchiveDamaged(str(error)) from error
    expected = {place_of(one) for one in found} | {f"{BLOBS}/{file.sha256}" for file in files_of(found)}
    if expected != {path.relative_to(store.root).as_posix() for path in store.root.rglob("*") if not path.is_dir()}:
        raise ArchiveDamaged("hub: there are files that belong to no repository")
    return len(found)


def _publish_objects(root: Path) -> int:
    """Migrates the catalogue to the current schema. Moves each object's file to a path that this file system allows."""
    files, catalog = Files(root / contents.OBJECTS), Catalog(root / contents.CATALOG)
    try:
        paths = list(_published(files, catalog))
        catalog.record_paths(paths)
        left = {*files.staged_ids()} - {*catalog.every_upload_file()}
    finally:
        catalog.close()
    if left:
        raise ArchiveDamaged(f"{len(left)} files belong to no object")
    return len(paths)


def _published(files: Files, catalog: Catalog) -> Iterator[tuple[str, str]]:
    for stored in catalog.every_object():
        _check_object(files, stored)
        path = files.choose_path(stored.bucket, stored.key)
        files.staged(stored.file_id).chmod(READ_ONLY)
        files.staged(stored.file_id).rename(files.root / path)
        yield path, stored.file_id


def _check_object(files: Files, stored: StoredObject) -> None:
    name = f"s3://{stored.bucket}/{stored.key}"
    if not is_bucket_name(stored.bucket) or not _FILE_ID.fullmatch(stored.file_id):
        raise ArchiveDamaged(f"{name} is not named as objects are")
    staged = files.staged(stored.file_id)
    if not staged.is_file() or staged.stat().st_size != stored.size:
        raise ArchiveDamaged(f"the bytes of {name} are missing")
