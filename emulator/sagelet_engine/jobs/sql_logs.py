"""SQL of the log group as a whole: retention, tags, deletion; and the search within a stream.

There is one group for each account and region.

The group is there when somebody made it or when it has a stream. A stream that is deleted stays as an empty, hidden
row: its job may run on, and the row holds the position that its output was read up to. Its next line shows it again,
as CloudWatch's agent makes a stream again that was deleted under it.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sagelet_engine.telemetry.events import LogGroup

Rows = Callable[[str, Sequence[Any]], list[Any]]
Write = Callable[[], AbstractContextManager[sqlite3.Connection]]

MIGRATION = """
    CREATE TABLE log_groups (
        account TEXT NOT NULL, region TEXT NOT NULL, created_ms INTEGER NOT NULL, retention_days INTEGER,
        tags TEXT NOT NULL DEFAULT '{}', PRIMARY KEY (account, region)
    ) WITHOUT ROWID;
    ALTER TABLE log_streams ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;
    """

_HIDE = "UPDATE log_streams SET deleted = 1, first_ms = NULL, last_ms = NULL, ingested_ms = NULL, bytes = 0"


def holding(rows: Rows, stream_id: int, marks: Sequence[str], at_least: int, limit: int) -> list[tuple[int, str]]:
    """Place and text of the lines from a place on that hold one of the marks, in order."""
    held = " OR ".join(["instr(text, ?) > 0"] * len(marks))
    select = f"SELECT seq, text FROM log_events WHERE stream_id = ? AND seq >= ? AND ({held}) ORDER BY seq LIMIT ?"
    return [tuple(row) for row in rows(select, (stream_id, at_least, *marks, limit))]


class LogGroups:
    """Rows about log groups. `rows` reads, `write` opens a durable transaction."""

    def __init__(self, rows: Rows, write: Write) -> None:
        self._rows = rows
        self._write = write

    def get(self, account: str, region: str) -> LogGroup | None:
        where = "WHERE account = ? AND region = ?"
        ((oldest_ms, size),) = self._rows(
            f"SELECT min(created_ms), sum(bytes) FROM log_streams {where} AND deleted = 0", (account, region)
        )
        made = self._rows(f"SELECT created_ms, retention_days, tags FROM log_groups {where}", (account, region))
        if not made:
            return None if oldest_ms is None else LogGroup(oldest_ms, size)
        ((created_ms, days, tags),) = made
        return LogGroup(created_ms, size or 0, days, json.loads(tags))

    def exists(self, account: str, region: str) -> bool:
        where = "FROM {} WHERE account = ? AND region = ?"
        select = f"SELECT EXISTS (SELECT 1 {where} AND deleted = 0) OR EXISTS (SELECT 1 {where})"
        ((found,),) = self._rows(select.format("log_streams", "log_groups"), (account, region) * 2)
        return bool(found)

    def retention_days(self, account: str, region: str) -> int | None:
        """None: for ever. Looks at no stream."""
        select = "SELECT retention_days FROM log_groups WHERE account = ? AND region = ?"
        return next((row[0] for row in self._rows(select, (account, region))), None)

    def put(self, account: str, region: str, group: LogGroup) -> None:
        """Makes the group, or replaces its retention and tags."""
        with self._write() as db:
            db.execute(
                "INSERT INTO log_groups VALUES (?, ?, ?, ?, ?) ON CONFLICT (account, region) DO UPDATE SET"
                " retention_days = excluded.retention_days, tags = excluded.tags",
                (account, region, group.created_ms, group.retention_days, _json(group.tags)),
            )

    def delete(self, account: str, region: str) -> None:
        """Forgets the group and all its events."""
        where, which = "WHERE account = ? AND region = ?", (account, region)
        with self._write() as db:
            db.execute(f"DELETE FROM log_events WHERE stream_id IN (SELECT id FROM log_streams {where})", which)
            db.execute(f"{_HIDE} {where}", which)
            db.execute(f"DELETE FROM log_groups {where}", which)

    def delete_stream(self, stream_id: int) -> None:
        with self._write() as db:
            db.execute("DELETE FROM log_events WHERE stream_id = ?", (stream_id,))
            db.execute(f"{_HIDE} WHERE id = ?", (stream_id,))

    def limited(self) -> list[tuple[str, str, int]]:
        """Account, region and days of every group that has a retention."""
        found = self._rows(
            "SELECT account, region, retention_days FROM log_groups WHERE retention_days IS NOT NULL", ()
        )
        return [tuple(row) for row in found]

    def expire(self, account: str, region: str, before_ms: int) -> None:
        """Removes the events older than `before_ms`, a stream at a time: others want to write meanwhile."""
        old = self._rows(
            "SELECT id FROM log_streams WHERE account = ? AND region = ? AND first_ms < ?", (account, region, before_ms)
        )
        for (stream_id,) in old:
            with self._write() as db:
                db.execute("DELETE FROM log_events WHERE stream_id = ? AND time_ms < ?", (stream_id, before_ms))
                db.execute(
                    "UPDATE log_streams SET"
                    " first_ms = (SELECT min(time_ms) FROM log_events WHERE stream_id = id),"
                    " bytes = (SELECT coalesce(sum(length(CAST(text AS BLOB))), 0) FROM log_events"
                    " WHERE stream_id = id) WHERE id = ?",
                    (stream_id,),
                )


def _json(tags: Mapping[str, str]) -> str:
    return json.dumps(dict(tags), ensure_ascii=False)
