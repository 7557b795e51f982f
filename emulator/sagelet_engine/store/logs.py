"""SQL of logs: their events, one stream or several by time, and the log group as a whole: retention, tags, deletion.

`insert` is the only statement of the store that runs for every line of every job.

`merged_events` reads each stream through its own index, in order, from where the page begins. So the cost of a page
depends on what it shows, not on the length of the streams. A stream is read only when the page reaches its first event,
because few of ten thousand streams overlap.

`Logs` also serves what people look at: lines that contain a text, and a metric's curve as a screen shows it.

There is one group for each kind of job, account and region. It exists if somebody made it or if it has a stream. A
deleted stream stays as an empty, hidden row: its job may still run, and the row holds the position up to which its
output was read. The job's next line shows the stream again, as CloudWatch's agent recreates a stream that was deleted
under it.
"""

import heapq
import json
import sqlite3
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sagelet_engine.model.job import Job, JobKind
from sagelet_engine.model.log_events import FoundLines, LogEvent, LogGroup, LogStream, MergedEvents
from sagelet_engine.model.series import Sample

Rows = Callable[[str, Sequence[Any]], list[Any]]
Write = Callable[[], AbstractContextManager[sqlite3.Connection]]
Connection = Write

_STREAM = "id, job_id, host, name, created_ms, position, first_ms, last_ms, ingested_ms, events, bytes"
SELECT_STREAM = f"SELECT {_STREAM} FROM log_streams"
#: Sorts after every text that continues a prefix, so an index can serve the range.
LAST_CHARACTER = "\U0010ffff"


#: Rows of one statement. With fewer rows, sqlite3's own work for each statement takes most of the time.
ROWS = 100
_ONE = "INSERT INTO log_events (stream_id, ingested_ms, seq, time_ms, text) VALUES (?, ?, ?, ?, ?)"
#: Numbered parameters would spare 0.2 µs a row. Python 3.12 warns of them in a sequence, and 3.14 refuses them.
_MANY = _ONE + ", (?, ?, ?, ?, ?)" * (ROWS - 1)


def rising(events: Sequence[LogEvent], floor: int) -> list[int]:
    """Returns the events' times. A time before the last one is raised to it."""
    times = []
    for event in events:
        if event.time_ms > floor:
            floor = event.time_ms
        times.append(floor)
    return times


def insert(
    db: sqlite3.Connection, stream_id: int, first_seq: int, now_ms: int, times: Sequence[int], texts: Sequence[str]
) -> None:
    whole = len(times) - len(times) % ROWS
    rows = [(stream_id, now_ms, first_seq + row, times[row], texts[row]) for row in range(len(times))]
    for start in range(0, whole, ROWS):
        db.execute(_MANY, [value for row in rows[start : start + ROWS] for value in row])
    db.executemany(_ONE, rows[whole:])


_TO_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


class Logs:
    """What the hosts of jobs have printed. Read-only queries: `rows` reads all rows, `connection` some."""

    def __init__(self, rows: Rows, connection: Connection) -> None:
        self._rows = rows
        self._connection = connection

    def stream(self, account: str, region: str, name: str, kind: JobKind = JobKind.TRAINING) -> LogStream | None:
        rows = self._rows(
            f"{SELECT_STREAM} WHERE account = ? AND region = ? AND name = ? AND kind = ? AND deleted = 0",
            (account, region, name, kind.value),
        )
        return LogStream(*rows[0]) if rows else None

    def position(self, job: Job, host: str) -> str | None:
        """Returns the position up to which the output of a host of the job's present attempt is stored, or None."""
        where = "WHERE job_id = ? AND host = ? AND attempt = ?"
        rows = self._rows(f"SELECT position FROM log_streams {where}", (job.id, host, job.attempt))
        return rows[0][0] if rows else None

    def streams(
        self,
        account: str,
        region: str,
        prefix: str = "",
        *,
        kind: JobKind = JobKind.TRAINING,
        by_time: bool = False,
        descending: bool = False,
        after: tuple[int, str] | None = None,
        limit: int = -1,
    ) -> list[LogStream]:
        """Returns log streams whose name starts with `prefix`, by name or by the time of their last event.

        `after`: the time of the last event (0 without events, and in an order by name) and the name of the stream to
        continue after. `limit` below 0: all.
        """
        time = "coalesce(last_ms, 0)" if by_time else "0"
        order, beyond = ("DESC", "<") if descending else ("ASC", ">")
        where = "account = ? AND region = ? AND name >= ? AND name < ? AND kind = ? AND deleted = 0"
        bounds: list[Any] = [account, region, prefix, prefix + LAST_CHARACTER, kind.value]
        if after is not None and by_time:
            where += f" AND ({time}, name) {beyond} (?, ?)"
            bounds += after
        elif after is not None:
            where += f" AND name {beyond} ?"
            bounds.append(after[1])
        columns = f"{time} {order}, name {order}" if by_time else f"name {order}"
        rows = self._rows(f"{SELECT_STREAM} WHERE {where} ORDER BY {columns} LIMIT ?", (*bounds, limit))
        return [LogStream(*row) for row in rows]

    def events(
        self,
        stream: LogStream,
        *,
        start_ms: int = 0,
        end_ms: int = 2**62,
        at_least: int = 0,
        below: int = 2**62,
        limit: int,
        max_bytes: int = 2**62,
        newest_first: bool = False,
    ) -> list[LogEvent]:
        """Returns events of a stream with start_ms <= time < end_ms and at_least <= seq < below.

        At most `limit` and at most `max_bytes` (LogEvent.page_bytes), but always at least one.
        """
        select = (
            "SELECT seq, time_ms, ingested_ms, text FROM log_events"
            " WHERE stream_id = ? AND seq >= ? AND seq < ? AND time_ms >= ? AND time_ms < ?"
            f" ORDER BY seq {'DESC' if newest_first else 'ASC'} LIMIT ?"
        )
        found: list[LogEvent] = []
        # Row by row: otherwise ten thousand lines of 256 KiB would be in memory to fill a page of 1 MiB.
        which = (stream.id, at_least, below, start_ms, end_ms, limit)
        with self._connection() as db, closing(db.execute(select, which)) as rows:
            for seq, time_ms, ingested_ms, text in rows:
                event = LogEvent(seq=seq, time_ms=time_ms, ingested_ms=ingested_ms, text=text)
                max_bytes -= event.page_bytes
                if found and max_bytes < 0:
                    break
                found.append(event)
        return found

    def merged_events(
        self,
        streams: Sequence[LogStream],
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
        """Returns matching events of several streams with start_ms <= time < end_ms, by time, from after `after`.

        `after`: time, stream id and seq. At most `limit` and at most `max_bytes` (LogEvent.page_bytes), but always at
        least one. Looks at `scan` events at most.
        """
        edge = 2**62 if newest_first else -1
        page, place = _Page(limit, scan, max_bytes, matches), tuple(after) or (edge,) * 3
        ids, step = [stream.id for stream in streams], -1 if newest_first else 1
        with self._connection() as db:
            spans = _spans(db, ids, start_ms, end_ms, place, newest_first)
            with closing(_in_order(db, spans, step)) as events:
                for stream_id, event in events:
                    if not page.takes(stream_id, event):
                        return MergedEvents(page.found, place)
                    place = (event.time_ms, stream_id, event.seq)
        return MergedEvents(page.found, None)

    def holding(self, stream: LogStream, marks: Sequence[str], *, at_least: int, limit: int) -> list[tuple[int, str]]:
        """Returns place and text of the lines that hold one of the marks, from a place on, in order."""
        held = " OR ".join(["instr(text, ?) > 0"] * len(marks))
        select = f"SELECT seq, text FROM log_events WHERE stream_id = ? AND seq >= ? AND ({held}) ORDER BY seq LIMIT ?"
        return [tuple(row) for row in self._rows(select, (stream.id, at_least, *marks, limit))]

    def find(self, stream: LogStream, text: str, *, at_least: int, scan: int, limit: int) -> FoundLines:
        """Finds lines with at_least <= seq < at_least + scan that contain `text`. ASCII letters are compared without
        case.
        """
        end = at_least + scan
        rows = self._rows(
            "SELECT time_ms, text, seq, ingested_ms FROM log_events WHERE stream_id = ? AND seq >= ? AND seq < ?"
            # SQLite's lower handles ASCII only.
            " AND instr(lower(text), ?) > 0 ORDER BY seq LIMIT ?",
            (stream.id, at_least, end, text.translate(_TO_LOWER), limit),
        )
        events = [LogEvent(*row) for row in rows]
        return FoundLines(events, events[-1].seq + 1 if len(events) == limit else end)

    def times_around(self, job_id: str, time_ms: int) -> tuple[int, int]:
        """Returns when the last line up to this time and the first one after it came, of any stream of a job.

        In ms since the epoch: 0 if no line came before, 2**62 if none came after.
        """
        times = "FROM log_events WHERE stream_id = log_streams.id AND time_ms"
        ((before, after),) = self._rows(
            f"SELECT coalesce(max((SELECT max(time_ms) {times} <= ?1)), 0),"
            f" coalesce(min((SELECT min(time_ms) {times} > ?1)), 1 << 62) FROM log_streams WHERE job_id = ?2",
            (time_ms, job_id),
        )
        return before, after

    def metric_names(self, job_id: str) -> list[str]:
        """Returns the metrics that a job's metric definitions have found in its log."""
        rows = self._rows("SELECT DISTINCT name FROM metric_points WHERE job_id = ? ORDER BY name", (job_id,))
        return [row[0] for row in rows]

    def curve(self, job_id: str, name: str, most: int, host: str | None = None) -> list[Sample]:
        """Returns a metric's samples in order. If there are more than `most`, returns the lowest and the highest of
        equal parts, so peaks stay.

        `host`: only those of this host's lines.
        """
        which = (job_id, name, *([] if host is None else [host]))
        where = "FROM metric_points WHERE job_id = ? AND name = ?" + ("" if host is None else " AND host = ?")
        ((count, first, last),) = self._rows(f"SELECT count(*), min(seq), max(seq) {where}", which)
        if count <= most:
            return [Sample(*row) for row in self._rows(f"SELECT time_ms, value {where} ORDER BY seq", which)]
        # With a single min or max, SQLite takes the other columns from the row with that value.
        extreme = f"SELECT seq, time_ms, {{}}(value) AS value {where} GROUP BY (seq - ?) * ? / ?"
        parts = (*which, first, max(1, most // 2), last - first + 1)
        rows = self._rows(
            f"SELECT time_ms, value FROM ({extreme.format('min')} UNION {extreme.format('max')}) ORDER BY seq",
            (*parts, *parts),
        )
        return [Sample(*row) for row in rows]


@dataclass
class _Page:
    """A page that is being filled, and what it may still hold."""

    limit: int
    scan: int
    max_bytes: int
    matches: Callable[[str], bool] | None
    found: list[tuple[int, LogEvent]] = field(default_factory=list)
    seen: int = 0

    def takes(self, stream_id: int, event: LogEvent) -> bool:
        """Looks at an event and returns True. False if the page has no room for more."""
        if self.seen == self.scan or len(self.found) == self.limit:
            return False
        if self.matches is None or self.matches(event.text):
            self.max_bytes -= event.page_bytes
            if self.found and self.max_bytes < 0:
                return False
            self.found.append((stream_id, event))
        self.seen += 1
        return True


class _Span(NamedTuple):
    """The part of one stream that is needed. Times within a stream never go back."""

    #: Where the reading begins, in ms: the time of the first event, or of the last if the newest come first.
    begin_ms: int
    stream_id: int
    select: str
    parameters: tuple[int, ...]


def _spans(
    db: sqlite3.Connection,
    stream_ids: Sequence[int],
    start_ms: int,
    end_ms: int,
    place: tuple[int, ...],
    newest_first: bool,
) -> deque[_Span]:
    """Returns a span for each stream that has events in the window, in the order in which the reading gets to them."""
    order, beyond, sign = ("DESC", "<", -1) if newest_first else ("ASC", ">", 1)
    select = (
        "SELECT seq, time_ms, ingested_ms, text FROM log_events WHERE stream_id = ? AND time_ms >= ? AND time_ms < ?"
        f" AND (time_ms, seq) {beyond} (?, ?) ORDER BY time_ms {order}, seq {order}"
    )
    time_ms, last_stream, seq = place
    unread, read = (-1, 2**62)[::sign]
    found = db.execute(
        "SELECT id, first_ms, last_ms FROM log_streams WHERE id IN (SELECT value FROM json_each(?))"
        " AND first_ms < ? AND last_ms >= ?",
        (
            json.dumps(list(stream_ids)),
            min(end_ms, time_ms + 1) if newest_first else end_ms,
            start_ms if newest_first else max(start_ms, time_ms),
        ),
    )
    spans = []
    for stream_id, first_ms, last_ms in found:
        # At exactly the place's time, streams before its stream were read to their end, and streams after it not at
        # all.
        behind = sign * (stream_id - last_stream)
        within = seq if behind == 0 else unread if behind > 0 else read
        parameters = (stream_id, start_ms, end_ms, time_ms, within)
        spans.append(_Span(last_ms if newest_first else first_ms, stream_id, select, parameters))
    return deque(sorted(spans, key=lambda span: sign * span.begin_ms))


def _in_order(db: sqlite3.Connection, waiting: deque[_Span], sign: int) -> Generator[tuple[int, LogEvent], None, None]:
    """Yields events by time. `sign`: 1 for the oldest first, -1 for the newest."""
    #: For each stream that is read: its next event, as a place to sort by, and the source of the others.
    heap: list[tuple[tuple[int, int, int], tuple[int, int, int, str], sqlite3.Cursor]] = []
    with ExitStack() as cursors:
        while waiting or heap:
            while waiting and (not heap or sign * waiting[0].begin_ms <= heap[0][0][0]):
                span = waiting.popleft()
                rows = cursors.enter_context(closing(db.execute(span.select, span.parameters)))
                if (row := rows.fetchone()) is not None:
                    heapq.heappush(heap, (_key(row, span.stream_id, sign), row, rows))
            if not heap:
                continue
            (_, signed_id, _), (seq, time_ms, ingested_ms, text), rows = heap[0]
            stream_id = sign * signed_id
            yield stream_id, LogEvent(seq=seq, time_ms=time_ms, ingested_ms=ingested_ms, text=text)
            if (row := rows.fetchone()) is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (_key(row, stream_id, sign), row, rows))


def _key(row: tuple[int, int, int, str], stream_id: int, sign: int) -> tuple[int, int, int]:
    return sign * row[1], sign * stream_id, sign * row[0]


TABLES = """
    CREATE TABLE log_streams (
        id INTEGER PRIMARY KEY,
        job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, host TEXT NOT NULL, attempt INTEGER NOT NULL,
        account TEXT NOT NULL, region TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        position TEXT, first_ms INTEGER, last_ms INTEGER, ingested_ms INTEGER, events INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL DEFAULT 0, deleted INTEGER NOT NULL DEFAULT 0, UNIQUE (account, region, name)
    );
    CREATE UNIQUE INDEX log_streams_by_attempt ON log_streams (job_id, host, attempt);
    CREATE TABLE log_events (
        stream_id INTEGER NOT NULL REFERENCES log_streams (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL, time_ms INTEGER NOT NULL, ingested_ms INTEGER NOT NULL, text TEXT NOT NULL,
        PRIMARY KEY (stream_id, seq)
    ) WITHOUT ROWID;
    CREATE INDEX log_events_by_time ON log_events (stream_id, time_ms, seq);
    -- Jobs of each kind have a log group.
    CREATE TABLE log_groups (
        account TEXT NOT NULL, region TEXT NOT NULL, kind TEXT NOT NULL, created_ms INTEGER NOT NULL,
        retention_days INTEGER, tags TEXT NOT NULL DEFAULT '{}', PRIMARY KEY (account, region, kind)
    ) WITHOUT ROWID;
    """

_HIDE = "UPDATE log_streams SET deleted = 1, first_ms = NULL, last_ms = NULL, ingested_ms = NULL, bytes = 0"


class LogGroups:
    """Rows of log groups. `rows` reads, `write` opens a durable transaction."""

    def __init__(self, rows: Rows, write: Write) -> None:
        self._rows = rows
        self._write = write

    def get(self, account: str, region: str, kind: JobKind) -> LogGroup | None:
        where, which = "WHERE account = ? AND region = ? AND kind = ?", (account, region, kind.value)
        ((oldest_ms, size),) = self._rows(
            f"SELECT min(created_ms), sum(bytes) FROM log_streams {where} AND deleted = 0", which
        )
        made = self._rows(f"SELECT created_ms, retention_days, tags FROM log_groups {where}", which)
        if not made:
            return None if oldest_ms is None else LogGroup(oldest_ms, size)
        ((created_ms, days, tags),) = made
        return LogGroup(created_ms, size or 0, days, json.loads(tags))

    def exists(self, account: str, region: str, kind: JobKind) -> bool:
        where, which = "FROM {} WHERE account = ? AND region = ? AND kind = ?", (account, region, kind.value)
        select = f"SELECT EXISTS (SELECT 1 {where} AND deleted = 0) OR EXISTS (SELECT 1 {where})"
        ((found,),) = self._rows(select.format("log_streams", "log_groups"), which * 2)
        return bool(found)

    def retention_days(self, account: str, region: str, kind: JobKind) -> int | None:
        """Returns the retention in days, or None for no limit. Looks at no stream."""
        select = "SELECT retention_days FROM log_groups WHERE account = ? AND region = ? AND kind = ?"
        return next((row[0] for row in self._rows(select, (account, region, kind.value))), None)

    def put(self, account: str, region: str, kind: JobKind, group: LogGroup) -> None:
        """Makes the group, or replaces its retention and tags."""
        with self._write() as db:
            db.execute(
                "INSERT INTO log_groups VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (account, region, kind) DO UPDATE SET"
                " retention_days = excluded.retention_days, tags = excluded.tags",
                (account, region, kind.value, group.created_ms, group.retention_days, _json(group.tags)),
            )

    def delete(self, account: str, region: str, kind: JobKind) -> None:
        """Forgets the group and all its events."""
        where, which = "WHERE account = ? AND region = ? AND kind = ?", (account, region, kind.value)
        with self._write() as db:
            db.execute(f"DELETE FROM log_events WHERE stream_id IN (SELECT id FROM log_streams {where})", which)
            db.execute(f"{_HIDE} {where}", which)
            db.execute(f"DELETE FROM log_groups {where}", which)

    def delete_stream(self, stream_id: int) -> None:
        with self._write() as db:
            db.execute("DELETE FROM log_events WHERE stream_id = ?", (stream_id,))
            db.execute(f"{_HIDE} WHERE id = ?", (stream_id,))

    def limited(self) -> list[tuple[str, str, JobKind, int]]:
        """Returns account, region, kind and days of every group with a retention."""
        found = self._rows(
            "SELECT account, region, kind, retention_days FROM log_groups WHERE retention_days IS NOT NULL", ()
        )
        return [(account, region, JobKind(kind), days) for account, region, kind, days in found]

    def expire(self, account: str, region: str, kind: JobKind, before_ms: int) -> None:
        """Removes the events older than `before_ms`, one stream at a time, because others need to write meanwhile."""
        old = self._rows(
            "SELECT id FROM log_streams WHERE account = ? AND region = ? AND kind = ? AND first_ms < ?",
            (account, region, kind.value, before_ms),
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
