"""Connections, transactions and schema versions of the databases of a data directory. It has no SQL of tables.

SQLite in write-ahead-log mode. A connection is borrowed for one statement or one transaction, so there are never more
connections than threads that use a database at once. Writers take turns with a lock of this module, because SQLite's
lock lets them sleep and retry. A commit goes to the log without a flush (`synchronous = NORMAL`). A caller that asked
for a durable commit waits for a flush of the log, which is what `synchronous = FULL` does for each commit alone, with
the lock held.

A database may have been made by somebody else (an import, a copy). So its schema is compared with the schema that
sagelet's scripts of its version make, before any statement that could run a foreign trigger or view
(sqlite.org/security.html).

Commits of several threads become durable with one flush of the disk.
"""

import os
import sqlite3
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sagelet_engine.base import held_files
from sagelet_engine.base.errors import SageletError

#: Makes a context that a thread is in while it waits for the disk.
Waiting = Callable[[], AbstractContextManager[None]]


class Flusher:
    """Flushes a file that other file descriptors write to. Thread-safe.

    A flush takes milliseconds. Other threads write meanwhile, and the next flush covers all of them.
    """

    def __init__(self, path: Path, waiting: Waiting = nullcontext) -> None:
        self._path = path
        self._waiting = waiting
        self._counting = threading.Lock()
        self._asked = 0
        self._flushing = threading.Lock()
        #: Number of the last request that is done: what was written before it is on the disk.
        self._flushed = 0

    def flush(self) -> None:
        """Waits until what this thread wrote is on the disk. Raises OSError."""
        with self._counting:
            self._asked += 1
            mine = self._asked
        with self._waiting(), self._flushing:
            if self._flushed >= mine:
                return
            with self._counting:
                everybody = self._asked
            self._sync()
            self._flushed = everybody

    def _sync(self) -> None:
        # Opened anew: the file may have been replaced.
        file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(file)
        finally:
            os.close(file)


class StoreUnavailable(SageletError):
    """The database cannot be read or written just now: it was locked for long, or its disk is full. The caller may try
    again.
    """


class NotFlushed(StoreUnavailable):
    """A change was made and is visible, but a crash of the machine might lose it."""


class DatabaseDamaged(StoreUnavailable):
    """The file is not a sound database of sagelet."""

    def __init__(self, path: Path, why: object) -> None:
        super().__init__(f"{path} is damaged: {str(why).rstrip('.')}. {REPAIR}")
        self.path = path


#: The remedy for damage.
REPAIR = "Stop the server, and run `sagelet check --repair`: it keeps the damaged file, and saves what can be read"

#: Connections that are kept open; each has megabytes of pages. More are opened while more threads ask at once.
MOST_IDLE = 8


#: Pages of the log after which a commit copies it into the database. The more there are, the more are the same few, and
#: the fewer are copied. A log of this many has 16 MiB, which the first reader after a crash reads in 20 ms.
CHECKPOINT_PAGES = 4000


class UnknownSchema(SageletError):
    """The database was written by a newer sagelet, or before the first release."""


@dataclass(frozen=True)
class Schema:
    """What a database holds. `PRAGMA user_version` has the version."""

    #: The version of the tables. Those below it were never released.
    first: int
    tables: str
    #: A script for each version after the first, in order.
    migrations: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        """The version that this sagelet writes."""
        return self.first + len(self.migrations)

    def until(self, version: int) -> tuple[str, ...]:
        """Returns the scripts that make a database of this version, which is 0 for an empty one."""
        return (self.tables, *self.migrations)[: max(0, version - self.first + 1)]

    def after(self, version: int) -> Iterator[tuple[int, str]]:
        """Yields each later version with the script that makes it."""
        scripts = enumerate((self.tables, *self.migrations), start=self.first)
        return ((number, script) for number, script in scripts if number > version)

    def why_unknown(self, version: int) -> str | None:
        """Returns why this sagelet does not know a version, or None if it does."""
        if version > self.version:
            return f"has schema {version}, this sagelet knows up to {self.version}: use the newer sagelet"
        if 0 < version < self.first:
            return f"has schema {version}, this sagelet knows from {self.first} on: it is from before the first release"
        return None

    def check(self, path: Path, version: int) -> None:
        """Raises UnknownSchema for a file with a version that this sagelet does not know."""
        if (why := self.why_unknown(version)) is not None:
            remedy = ", or" if version > self.version else ". Remove the data directory, or"
            raise UnknownSchema(f"{path} {why}{remedy} name another --data directory")


class Database:
    """One database file. `waiting`: entered by a thread while it waits for a flush.

    Every method may raise StoreUnavailable; the constructor may raise UnknownSchema, too.
    """

    def __init__(self, path: Path, schema: Schema, waiting: Waiting = nullcontext) -> None:
        self._path = path
        self._writing = threading.Lock()
        self._log = Flusher(path.with_name(f"{path.name}-wal"), waiting)
        #: A file system without shared memory has no write-ahead log. There SQLite flushes each commit.
        self._has_log = True
        self._idle: deque[sqlite3.Connection] = deque()
        self._closed = False
        self._guard = threading.Lock()
        #: Open connections, plus one for the object itself until it is closed.
        self._open = 1
        #: Device and inode. A file that took the database's place meanwhile is not written to.
        self._file = self._held = _make_private(path)
        try:
            self._migrate(schema)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the idle connections. A connection in use is closed when it comes back."""
        with self._guard:
            first, self._closed = not self._closed, True
        self._close_idle()
        if first:
            self._count(-1)

    def compact(self) -> int:
        """Returns the space of deleted rows to the disk, and its size in bytes. Writers wait meanwhile. Needs room for
        a copy.

        Raises StoreUnavailable.
        """
        before = self._bytes()
        with self._writing, self._connection() as db:
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return max(0, before - self._bytes())

    def _bytes(self) -> int:
        paths = (self._path, self._path.with_name(self._path.name + "-wal"))
        return sum(path.stat().st_size for path in paths if path.exists())

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._disconnect(self._idle.pop())

    def _disconnect(self, connection: sqlite3.Connection) -> None:
        connection.close()
        self._count(-1)

    def _count(self, more: int) -> None:
        with self._guard:
            if not self._open:
                # Somebody used the database after it was closed.
                self._held = held_files.hold(self._path)
            self._open += more
            if not self._open:
                held_files.release(self._held)

    def _rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self._connection() as db:
            return db.execute(sql, parameters).fetchall()

    def _connection(self) -> "_Borrowed":
        return _Borrowed(self._borrow, self._give_back, self._as_ours)

    def _borrow(self) -> sqlite3.Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def _as_ours(self, error: sqlite3.DatabaseError) -> SageletError | None:
        """Returns the error to raise instead of SQLite's, or None for an error of a statement."""
        return _as_ours(self._path, error)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        self._idle.append(connection)
        if self._closed:
            self._close_idle()
        elif len(self._idle) > MOST_IDLE:
            with suppress(IndexError):
                self._disconnect(self._idle.popleft())

    def _connect(self) -> sqlite3.Connection:
        if _identity(self._path) != self._file:
            raise StoreUnavailable(f"{self._path} was removed or replaced while it was in use. Start the server again")
        connection = connect(self._path, isolation_level=None, check_same_thread=False)
        self._count(1)
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            self._has_log = mode == "wal"
            connection.execute(f"PRAGMA synchronous = {'NORMAL' if self._has_log else 'FULL'}")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        except BaseException:
            self._disconnect(connection)
            raise
        return connection

    @contextmanager
    def _write(self, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Runs a transaction. `durable`: it is on the disk when this returns. Raises NotFlushed if the flush failed."""
        with self._writing, self._connection() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        if durable and self._has_log:
            self._flush()

    def _flush(self) -> None:
        try:
            self._log.flush()
        except FileNotFoundError:
            # The last connection was closed meanwhile. SQLite then copied the log into the database and flushed it.
            return
        except OSError as error:
            raise NotFlushed(f"{self._path}: {error}. Look at its disk, then try again") from error

    def _migrate(self, schema: Schema) -> None:
        ((version,),) = self._rows("PRAGMA user_version")
        schema.check(self._path, version)
        with self._connection() as db:
            if (foreign := foreign_schema(db, schema.until(version))) is not None:
                raise DatabaseDamaged(self._path, foreign)
        for number, script in schema.after(version):
            with self._connection() as db:
                try:
                    db.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {number}; COMMIT;")
                except BaseException:
                    db.rollback()
                    raise


def remove_database(path: Path) -> None:
    """Deletes a database that nobody has open, and SQLite's files beside it. May be repeated. Raises OSError."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def schema_of(path: Path) -> int | None:
    """Returns the schema version of a database that others may be writing to, or None if there is no file.

    Raises StoreUnavailable if the file is not a database.
    """
    if not path.is_file():
        return None
    with opened(path) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def connect(path: Path, **options: Any) -> sqlite3.Connection:
    """Connects to a file that exists, and trusts nothing in its schema. Raises sqlite3's errors."""
    connection: sqlite3.Connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw", uri=True, timeout=30, **options
    )
    try:
        if _can_distrust():
            connection.execute("PRAGMA trusted_schema = OFF")
        if (configure := getattr(connection, "setconfig", None)) is not None:  # Python 3.12
            configure(getattr(sqlite3, "SQLITE_DBCONFIG_DEFENSIVE"), True)  # noqa: B009 - unknown to Python 3.10
    except BaseException:
        connection.close()
        raise
    return connection


@cache
def _can_distrust() -> bool:
    """True if this SQLite counts the JSON functions, which our schema uses, among the harmless ones.

    Otherwise it would refuse our own schema, too. There the comparison of the schemas has to suffice: before it, only
    the text of the schema is read.
    """
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("PRAGMA trusted_schema = OFF")
        try:
            db.executescript(
                "CREATE TABLE t (a); CREATE INDEX i ON t (json_extract(a, '$.b')); INSERT INTO t VALUES (1)"
            )
        except sqlite3.DatabaseError:
            return False
    return True


def foreign_schema(db: sqlite3.Connection, scripts: tuple[str, ...]) -> str | None:
    """Returns what in a database's schema is missing or not of these scripts, in words. None if the schema is as it
    should be.
    """
    found, wanted = _schema(db), _schema_of(scripts)
    for kind, name in sorted(found.keys() - wanted.keys()):
        return f"it has a {kind} {name!r}, which is not sagelet's"
    for kind, name in sorted(wanted.keys() - found.keys()):
        return f"its {kind} {name!r} is missing"
    for kind, name in sorted(one for one in wanted if wanted[one] != found[one]):
        return f"its {kind} {name!r} differs from the one that sagelet makes"
    return None


@cache
def _schema_of(scripts: tuple[str, ...]) -> dict[tuple[str, str], str]:
    with closing(sqlite3.connect(":memory:")) as db:
        for script in scripts:
            db.executescript(script)
        return _schema(db)


def _schema(db: sqlite3.Connection) -> dict[tuple[str, str], str]:
    rows = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    return {(kind, name): f"{table}: {' '.join((sql or '').split())}" for kind, name, table, sql in rows}


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _make_private(path: Path) -> held_files.Identity:
    """Makes a database its owner's alone, whatever the directory's mode. SQLite gives the database's mode to its other
    files.

    Returns the identity of the file, which is held.
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise StoreUnavailable(f"{path} is not a file: move away what is there, and run `sagelet check --repair`")
        if status.st_nlink > 1:
            raise StoreUnavailable(
                f"{path} has a second name (a hard link), under which another program may write to it: "
                "copy it (`cp`), and put the copy in its place"
            )
        for file in (path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm"))):
            with suppress(FileNotFoundError):
                file.chmod(0o600)
        return held_files.hold(path)
    except OSError as error:
        raise StoreUnavailable(
            f"{path}: {error.strerror}. Make it the server's user's own, or name another --data"
        ) from error


def copy_database(source: Path, target: Path) -> None:
    """Copies a database as of one moment, even while others write to it. Raises StoreUnavailable."""
    with opened(source) as db, closing(sqlite3.connect(target)) as copy:
        db.backup(copy)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Opens a database without migrating it. The class Database would migrate it, but its server may be older.

    Raises StoreUnavailable.
    """
    try:
        with closing(connect(path)) as db:
            yield db
    except sqlite3.DatabaseError as error:
        if (ours := _as_ours(path, error)) is not None:
            raise ours from error
        raise


def _as_ours(path: Path, error: sqlite3.DatabaseError) -> StoreUnavailable | None:
    """Returns an error that says what to do about the file, or None for an error of a statement."""
    if isinstance(error, sqlite3.OperationalError):
        return StoreUnavailable(f"{path}: {error}. Free space on its disk, or try again")
    # Subclasses are errors of one statement. This class alone is an error of the file (SQLITE_CORRUPT,
    # SQLITE_NOTADB).
    return DatabaseDamaged(path, error) if type(error) is sqlite3.DatabaseError else None


class _Borrowed:
    """A connection for one statement or one transaction. SQLite's errors of the file become `translated` ones.

    Not a generator, which takes longer: every read passes here.
    """

    __slots__ = ("_borrow", "_connection", "_give_back", "_translated")

    def __init__(
        self,
        borrow: Callable[[], sqlite3.Connection],
        give_back: Callable[[sqlite3.Connection], None],
        translated: Callable[[sqlite3.DatabaseError], SageletError | None],
    ) -> None:
        self._borrow = borrow
        self._give_back = give_back
        self._translated = translated

    def __enter__(self) -> sqlite3.Connection:
        try:
            self._connection = self._borrow()
        except sqlite3.DatabaseError as error:
            if (ours := self._translated(error)) is not None:
                raise ours from error
            raise
        return self._connection

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._give_back(self._connection)
        if isinstance(error, sqlite3.DatabaseError) and (ours := self._translated(error)) is not None:
            raise ours from error
