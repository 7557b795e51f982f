"""SQL that adds log events: the one statement of the store that runs for every line of every job."""

import sqlite3
from collections.abc import Sequence

from sagelet_engine.telemetry.events import LogEvent

#: Rows of one statement: with fewer, sqlite3's own work for each statement is most of the time.
ROWS = 100
_COLUMNS = "INSERT INTO log_events (stream_id, ingested_ms, seq, time_ms, text) VALUES "


def _statement(rows: int) -> str:
    """The stream, the time of taking in and the first row's place come once; then time and text of each row."""
    return _COLUMNS + ", ".join(f"(?1, ?2, ?3 + {row}, ?{4 + 2 * row}, ?{5 + 2 * row})" for row in range(rows))


_MANY, _ONE = _statement(ROWS), _statement(1)


def rising(events: Sequence[LogEvent], floor: int) -> list[int]:
    """The events' times; one that is before the last takes that one's."""
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
    for start in range(0, whole, ROWS):
        row_values = zip(times[start : start + ROWS], texts[start : start + ROWS], strict=True)
        values = [value for row in row_values for value in row]
        db.execute(_MANY, (stream_id, now_ms, first_seq + start, *values))
    rest = [(stream_id, now_ms, first_seq + row, times[row], texts[row]) for row in range(whole, len(times))]
    db.executemany(_ONE, rest)
