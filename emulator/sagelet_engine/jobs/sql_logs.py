"""SQL of the log group as a whole: events of all streams, retention, tags, deletion.

There is one group for each account and region.

The group is there when somebody made it or when it has a stream. A stream that is deleted stays as an empty, hidden
row: its job may run on, and the row holds the position that its output was read up to. Its next line shows it again,
as CloudWatch's agent makes a stream again that was deleted under it.
"""

import json
import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from typing import Any

from sagelet_engine.telemetry.events import LogEvent, LogGroup, MergedEvents

Rows = Callable[[str, Sequence[Any]], list[Any]]
EachEvent = Callable[[str, Sequence[Any]], Generator[tuple[int, LogEvent], None, None]]
Write = Callable[[], AbstractContextManager[sqlite3.Connection]]

MIGRATION = """
    CREATE TABLE log_groups (
        account TEXT NOT NULL, region TEXT NOT NULL, created_ms INTEGER NOT NULL, retention_days INTEGER,
        tags TEXT NOT NULL DEFAULT '{}', PRIMARY KEY (account, region)
    ) WITHOUT ROWID;
    ALTER TABLE log_streams ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;
    """

_HIDE = "UPDATE log_streams SET deleted = 1, first_ms = NULL, last_ms = NULL, ingested_ms = NULL, bytes = 0"


#: Events of several streams have to be sorted by time; this is done for a span of time at once, not for whole logs.
SPAN_MS = 60_000
#: A span that held fewer events is doubled for the next.
FEW_EVENTS = 10_000


@dataclass
class _Page:
    """A page that fills up, and what it may still hold."""

    limit: int
    scan: int
    max_bytes: int
    matches: Callable[[str], bool] | None
    found: list[tuple[int, LogEvent]] = field(default_factory=list)
    seen: int = 0

    def takes(self, stream_id: int, event: LogEvent) -> bool:
        """Whether the event was looked at; there is no room for more otherwise."""
        if self.seen == self.scan or len(self.found) == self.limit:
            return False
        if self.matches is None or self.matches(event.text):
            self.max_bytes -= event.page_bytes
            if self.found and self.max_bytes < 0:
                return False
            self.found.append((stream_id, event))
        self.seen += 1
        return True


def merged(
    rows: Rows,
    each_event: EachEvent,
    stream_ids: Sequence[int],
    *,
    start_ms: int,
    end_ms: int,
    limit: int,
    after: Sequence[int] = (),
    matches: Callable[[str], bool] | None = None,
    scan: int = 2**62,
    max_bytes: int = 2**62,
    newest_first: bool = False,
) -> MergedEvents:
    """Events of several streams with start_ms <= time < end_ms that match, by time, from behind `after`.

    `after`: time, stream id and seq. At most `limit` and at most `max_bytes` (LogEvent.page_bytes), but always one;
    looks at `scan` events at most.
    """
    which = json.dumps(list(stream_ids))
    order, beyond, edge = ("DESC", "<", 2**62) if newest_first else ("ASC", ">", -1)
    clauses = (
        "WHERE stream_id IN (SELECT value FROM json_each(?)) AND time_ms >= ? AND time_ms < ?"
        f" AND (time_ms, stream_id, seq) {beyond} (?, ?, ?)"
        f" ORDER BY time_ms {order}, stream_id {order}, seq {order}"
    )
    page, place, span = _Page(limit, scan, max_bytes, matches), tuple(after) or (edge,) * 3, SPAN_MS
    low, high = _bounds(rows, which, start_ms, end_ms)
    low, high = (low, min(high, place[0] + 1)) if newest_first else (max(low, place[0]), high)
    while low < high:
        part = (max(low, high - span), high) if newest_first else (low, min(high, low + span))
        before = page.seen
        with closing(each_event(clauses, (which, *part, *place))) as events:
            for stream_id, event in events:
                if not page.takes(stream_id, event):
                    return MergedEvents(page.found, place)
                place = (event.time_ms, stream_id, event.seq)
        low, high = (low, part[0]) if newest_first else (part[1], high)
        span *= 2 if page.seen - before < FEW_EVENTS else 1
    return MergedEvents(page.found, None)


def _bounds(rows: Rows, which: str, start_ms: int, end_ms: int) -> tuple[int, int]:
    """The window without the time before the first event and after the last."""
    select = "SELECT min(first_ms), max(last_ms) FROM log_streams WHERE id IN (SELECT value FROM json_each(?))"
    ((first, last),) = rows(select, (which,))
    return (0, 0) if first is None else (max(start_ms, first), min(end_ms, last + 1))


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
