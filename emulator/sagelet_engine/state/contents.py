"""The names that are sagelet's in a data directory. Everything else there belongs to others, and stays."""

import os
import sqlite3
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from sagelet_engine.base.database import Schema, StoreUnavailable, remove_database, schema_of
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.compile_cache.store import DIRECTORY as COMPILE_CACHE
from sagelet_engine.data import removal
from sagelet_engine.functions.invocations import DIRECTORY as FUNCTIONS
from sagelet_engine.hub.store import DIRECTORY as HUB
from sagelet_engine.runtimes.node.kept_packages import DIRECTORY as ENVIRONMENTS
from sagelet_engine.s3 import catalog
from sagelet_engine.s3.names import ESCAPED, is_bucket_name
from sagelet_engine.store.schema import SCHEMA as JOBS_SCHEMA

JOBS_DATABASE = "sagelet.db"
OBJECTS = "s3"
CATALOG = f"{OBJECTS}/.catalog.db"
#: Directories that hold only what sagelet and its jobs wrote: hosts' directories, caches, the process runtime's
#: notes, functions that run, what is being deleted.
TREES = ("jobs", "warm-pools", "runtime", FUNCTIONS, removal.REMOVED)
JOBS = (JOBS_DATABASE, *TREES)
#: What is made anew if it is missing, so exports leave it out.
CACHES = (COMPILE_CACHE, ENVIRONMENTS)
EVERYTHING = (*JOBS, OBJECTS, HUB, *CACHES)
#: Databases by the name that people use.
SCOPES: Mapping[str, Sequence[str]] = MappingProxyType(
    {"all": EVERYTHING, "jobs": JOBS, "objects": (OBJECTS,), "hub": (HUB,)}
)
#: Other names: who uses the directory and how, its log, its key pair, its certificate, its image rules.
BESIDE = frozenset(
    {"lock", "server.json", "server.log", "server.log.1", "credentials", "tls", "image-rules.toml", "identity.json"}
)
#: A change of the whole directory that must be finished; see `change.py`.
CHANGE = ".change"


class NoDataDirectory(SettingsError):
    """The directory exists and is not a data directory of sagelet."""


def is_data_directory(data: Path) -> bool:
    return any((data / name).exists() for name in (JOBS_DATABASE, CATALOG, HUB, CHANGE))


#: The remedy for a missing database.
LOST_REMEDY = (
    "Put it back from a copy, or run `sagelet check --repair`: it makes a lost s3/.catalog.db anew from the files of "
    "objects. If sagelet.db is lost, the jobs are lost, too, and their files are moved aside"
)


class LostDatabase(SettingsError):
    """A database is missing beside data that it knew. A new one in its place would hide that."""


def lost_database(data: Path, name: str) -> str | None:
    """Returns what is wrong if a database is missing or empty beside data that it knew. Otherwise None."""
    path = data / name
    if path.exists() and path.stat().st_size:
        return None
    beside = _job_files(data) if name == JOBS_DATABASE else _object_files(data)
    what = "is empty" if path.exists() else "is missing"
    return f"{path} {what}, and {beside} is there" if beside is not None else None


def _job_files(data: Path) -> Path | None:
    return next(iter(sorted((data / "jobs").glob("*/*/*"))), None)


def _object_files(data: Path) -> Path | None:
    """Returns a bucket's directory, or staged bytes, if there are any."""
    places = (data / OBJECTS, data / OBJECTS / ESCAPED, data / OBJECTS / ".staged")
    found = (path for place in places if place.is_dir() for path in sorted(place.iterdir()))
    # A disk of its own has a `lost+found`, which is not the name of a bucket.
    return next((path for path in found if path.parent != data / OBJECTS or is_bucket_name(path.name)), None)


def check_complete(data: Path) -> None:
    """Raises LostDatabase if a database is missing beside its data."""
    for name in SCHEMAS:
        if (lost := lost_database(data, name)) is not None:
            raise LostDatabase(f"{lost}. {LOST_REMEDY}")


def is_empty(data: Path) -> bool:
    """True if the directory holds nothing but names in BESIDE."""
    return not data.exists() or {*os.listdir(data)} <= BESIDE


def check_is_data_directory(data: Path) -> None:
    """Accepts a data directory even if its databases are lost. Raises NoDataDirectory."""
    if not is_data_directory(data) and not any(lost_database(data, name) for name in SCHEMAS):
        raise NoDataDirectory(
            f"--data {data}: is not a data directory of sagelet (it has neither {JOBS_DATABASE} nor {CATALOG}); "
            "nothing was changed"
        )


def check_data_directory(data: Path, *, damaged: bool = False) -> None:
    """Raises NoDataDirectory, StoreUnavailable, and UnknownSchema for content that this sagelet does not know.

    `damaged`: accepts databases that cannot be read.
    """
    check_is_data_directory(data)
    if not damaged:
        check_complete(data)
    for name, schema in SCHEMAS.items():
        try:
            version = schema_of(data / name)
        except StoreUnavailable:
            if not damaged:
                raise
            continue
        if version is not None:
            schema.check(data / name, version)
    for name in EVERYTHING:
        if (data / name).is_symlink():
            raise SettingsError(
                f"{data / name} is a symbolic link, which sagelet does not follow here: put the directory in its place"
            )


#: The schema of each database, by its name.
SCHEMAS: Mapping[str, Schema] = MappingProxyType({JOBS_DATABASE: JOBS_SCHEMA, CATALOG: catalog.SCHEMA})


def clear(data: Path, name: str) -> Path | None:
    """Removes one of EVERYTHING. Returns the directory where files of others that were in the way are now, if there are
    any.

    May be repeated after a crash. Raises OSError, DirectoryStays.
    """
    if name == JOBS_DATABASE:
        remove_database(data / name)
        return None
    if name != OBJECTS:
        removal.remove_tree(data / name)
        return None
    return _clear_objects(data)


def _clear_objects(data: Path) -> Path | None:
    """Removes objects. People may look at objects as files, so they may have put their own files beside them."""
    root = data / OBJECTS
    if not root.is_dir():
        return None
    # Only the catalogue distinguishes objects from files of others. Without it all of them stay.
    with suppress(StoreUnavailable, sqlite3.DatabaseError):
        _remove_objects(root)
    with suppress(OSError):
        root.rmdir()
    if not root.exists():
        return None
    kept = data / f"not-sagelet-{uuid.uuid4().hex[:8]}"
    root.rename(kept)
    return kept


def _remove_objects(root: Path) -> None:
    path = root / ".catalog.db"
    if path.exists():
        opened = catalog.Catalog(path)
        try:
            for stored in opened.every_object():
                (root / stored.path).unlink(missing_ok=True)
        finally:
            opened.close()
    removal.remove_tree(root / ".staged")
    for directory, _, _ in os.walk(root / ESCAPED, topdown=False):
        _remove_if_empty(directory)
    for directory, _, _ in os.walk(root, topdown=False):
        if Path(directory) != root:
            _remove_if_empty(directory)
    # The catalogue is removed after everything that it names.
    remove_database(path)
    for name in (".lock", ".imports"):
        (root / name).unlink(missing_ok=True)


def _remove_if_empty(directory: str) -> None:
    with suppress(OSError):
        os.rmdir(directory)
