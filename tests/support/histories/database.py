"""SQLite as a part of the outside world: each statement is a step, a disk may be full, a process dies at a commit.

A transaction is never left half way for another thread, since SQLite would have it wait; a thread switches before
BEGIN and after COMMIT, and dies before either or after COMMIT. What was committed is told in order.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from sagelet_engine import database, held_files
from support.histories.schedule import Schedule

#: What a commit did: the record after it (None: the job was deleted), by the job's id.
Committed = Callable[[str, dict[str, Any] | None], None]


class Disk:
    """What the database lies on."""

    def __init__(self) -> None:
        self.full = False
        self.gone = False
        self.opened: list[sqlite3.Connection] = []
        self.held: list[Held] = []

    def close(self) -> None:
        """The process that had it open is gone."""
        for connection in self.opened:
            connection.close()
        self.opened.clear()
        while self.held:
            held_files.release(self.held.pop())


class Held(held_files.Identity):
    """What one process holds: equal to what another one does, and not the same."""


def holding(disk: Callable[[], Disk]) -> SimpleNamespace:
    """In the place of `held_files`, for processes that die: `disk` has what the one holds that asks."""

    def hold(path: Path) -> Held:
        held = Held(held_files.hold(path))
        disk().held.append(held)
        return held

    def release(held: Held) -> None:
        """Nothing for a process that is gone: its system has done it."""
        mine = disk().held
        for index, one in enumerate(mine):
            if one is held:
                held_files.release(mine.pop(index))
                return

    return SimpleNamespace(hold=hold, release=release, Identity=held_files.Identity)


def connection_type(schedule: Schedule, disk: Disk, committed: Committed) -> type[sqlite3.Connection]:
    """Connections whose statements are steps."""

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
                self.jobs.append((parameters[5], parameters[4]))
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
    """For as long as the block lasts, what the databases call to open and to hold their files."""
    with ExitStack() as stack:
        sqlite = SimpleNamespace(**{**vars(sqlite3), "connect": connect})
        stack.enter_context(mock.patch.object(database, "sqlite3", sqlite))
        stack.enter_context(mock.patch.object(database, "held_files", holding(disk)))
        yield
