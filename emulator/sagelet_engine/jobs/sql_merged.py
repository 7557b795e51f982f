"""SQL of the events of several log streams by time.

Each stream is read by its own index, in order, from where the page begins; so a page costs what it shows, however long
the streams are. One is read from when the page gets to its first event: of ten thousand streams few overlap.
"""

import heapq
import json
import sqlite3
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import NamedTuple

from sagelet_engine.telemetry.events import LogEvent, MergedEvents


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
    db: sqlite3.Connection,
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
    edge = 2**62 if newest_first else -1
    page, place = _Page(limit, scan, max_bytes, matches), tuple(after) or (edge,) * 3
    spans = _spans(db, stream_ids, start_ms, end_ms, place, newest_first)
    with closing(_in_order(db, spans, -1 if newest_first else 1)) as events:
        for stream_id, event in events:
            if not page.takes(stream_id, event):
                return MergedEvents(page.found, place)
            place = (event.time_ms, stream_id, event.seq)
    return MergedEvents(page.found, None)


class _Span(NamedTuple):
    """What is wanted of one stream. Times within a stream never go back."""

    #: Where the reading begins, in ms: of the first event, or of the last for the newest first.
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
    """Of each stream that has events in the window, in the order in which the reading gets to them."""
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
        # At the place's own time, streams before its stream are read to their end, and those behind it not at all.
        behind = sign * (stream_id - last_stream)
        within = seq if behind == 0 else unread if behind > 0 else read
        parameters = (stream_id, start_ms, end_ms, time_ms, within)
        spans.append(_Span(last_ms if newest_first else first_ms, stream_id, select, parameters))
    return deque(sorted(spans, key=lambda span: sign * span.begin_ms))


def _in_order(db: sqlite3.Connection, waiting: deque[_Span], sign: int) -> Generator[tuple[int, LogEvent], None, None]:
    """`sign`: 1 for the oldest first, -1 for the newest."""
    #: Of each stream that is read: its next event, as a place to sort by, and where the others come from.
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
