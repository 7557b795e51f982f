"""SQLite as a part of the simulated world. Each statement is a step, the disk may fill, a process may die at a commit.

No thread switches in the middle of a transaction, because SQLite would make the other thread wait. A thread switches
before BEGIN and after COMMIT, and dies before either or after COMMIT. Commits are reported in order.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from sagelet_engine.base import database, held_files
from support.histories.schedule import Schedule

#: The result of a commit: the record after it by the job's id, or None if the job was deleted.
Committed = Callable[[str, dict[str, Any] | None], None]


class Disk:
    """The disk under the database."""

    def __init__(self) -> None:
        self.full = False
        self.gone = False
        self.opened: list[sqlite3.Connection] = []
        self.held: list[Held] = []

    def close(self) -> None:
        """Closes everything, because the process that had it open is gone."""
        for connection in self.opened:
            connection.close()
        self.opened.clear()
        while self.held:
            held_files.release(self.held.pop())


class Held(held_files.Identity):
    """What one process holds. It equals what another process holds, but is another object."""


def holding(disk: Callable[[], Disk]) -> SimpleNamespace:
    """Replaces `held_files`, for processes that die. `disk` returns what the calling process holds."""

    def hold(path: Path) -> Held:
        held = Held(held_files.hold(path))
        disk().held.append(held)
        return held

    def release(held: Held) -> None:
        """Does nothing for a process that is gone: the system has released its files."""
        mine = disk().held
        for index, one in enumerate(mine):
            if one is held:
                held_files.release(mine.pop(index))
                return

    return SimpleNamespace(hold=hold, release=release, Identity=held_files.Identity)


def connection_type(schedule: Schedule, disk: Disk, committed: Committed) -> type[sqlite3.Connection]:
    """Returns a connection class whose statements are steps."""

    class Connection(sqlite3.Connection):
        jobs: list[tuple[str, str | None]]

        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            if self.in_transaction:
                return self._inside(sql, parameters)
            writes = sql == "BEGIN IMMEDIATE"
            if sql.startswith("PRAGMA"):
                return super().execute(sql, parameters)
            schedule.step()
            if disk.gone or (not writes and schedule.point("a read fails", 0.02)):
                raise sqlite3.OperationalError("disk I/O error")
            if writes:
                self.jobs = []
            return super().execute(sql, parameters)

        def _inside(self, sql: str, parameters: Any) -> sqlite3.Cursor:
            if sql == "COMMIT":
                schedule.mortal()
                if disk.full or disk.gone or schedule.point("a commit fails", 0.02):
                    raise sqlite3.OperationalError("database or disk is full")
                cursor = super().execute(sql)
                for job_id, record in self.jobs:
                    committed(job_id, None if record is None else json.loads(record))
                schedule.step()
                return cursor
            cursor = super().execute(sql, parameters)
            if sql.startswith("INSERT INTO jobs"):
                self.jobs.append((parameters[0], parameters[9]))
            elif sql.startswith("UPDATE jobs") and cursor.rowcount:
                self.jobs.append((parameters[8], parameters[4]))
            elif sql.startswith("DELETE FROM jobs") and cursor.rowcount:
                self.jobs.append((parameters[0], None))
            return cursor

    return Connection


@contextmanager
def under_control(schedule: Schedule, disk: Disk, committed: Committed) -> Iterator[None]:
    factory = connection_type(schedule, disk, committed)

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = sqlite3.connect(*arguments, **options, factory=factory)
        disk.opened.append(connection)
        return connection

    with replaced(connect, lambda: disk):
        yield


@contextmanager
def replaced(connect: Callable[..., sqlite3.Connection], disk: Callable[[], Disk]) -> Iterator[None]:
    """Replaces, during the block, the functions with which the databases open and hold their files."""
    with ExitStack() as stack:
        sqlite = SimpleNamespace(**{**vars(sqlite3), "connect": connect})
        stack.enter_context(mock.patch.object(database, "sqlite3", sqlite))
        stack.enter_context(mock.patch.object(database, "held_files", holding(disk)))
        yield
