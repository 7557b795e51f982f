"""SQL of what people look at: lines that hold a text, and the curve of a metric, of which a screen shows a part."""

from collections.abc import Callable, Sequence
from typing import Any

from sagelet_engine.telemetry.events import FoundLines, LogEvent
from sagelet_engine.telemetry.series import Sample

Rows = Callable[[str, Sequence[Any]], list[Any]]

_TO_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


class Lines:
    """Looks only; `rows` reads."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def find(self, stream_id: int, text: str, *, at_least: int, scan: int, limit: int) -> FoundLines:
        """Lines with at_least <= seq < at_least + scan that hold `text`; ASCII letters compare without case."""
        end = at_least + scan
        rows = self._rows(
            "SELECT time_ms, text, seq, ingested_ms FROM log_events WHERE stream_id = ? AND seq >= ? AND seq < ?"
            # SQLite's lower knows ASCII alone.
            " AND instr(lower(text), ?) > 0 ORDER BY seq LIMIT ?",
            (stream_id, at_least, end, text.translate(_TO_LOWER), limit),
        )
        events = [LogEvent(*row) for row in rows]
        return FoundLines(events, events[-1].seq + 1 if len(events) == limit else end)

    def metric_names(self, job_id: str) -> list[str]:
        """The metrics that a job's metric definitions have found in its log."""
        rows = self._rows("SELECT DISTINCT name FROM metric_points WHERE job_id = ? ORDER BY name", (job_id,))
        return [row[0] for row in rows]

    def curve(self, job_id: str, name: str, most: int) -> list[Sample]:
        """A metric's samples in order; of more than `most`, the lowest and the highest of equal parts: peaks stay."""
        which = (job_id, name)
        where = "FROM metric_points WHERE job_id = ? AND name = ?"
        ((count, first, last),) = self._rows(f"SELECT count(*), min(seq), max(seq) {where}", which)
        if count <= most:
            return [Sample(*row) for row in self._rows(f"SELECT time_ms, value {where} ORDER BY seq", which)]
        # With one min or max SQLite takes the other columns from the row that has it.
        extreme = f"SELECT seq, time_ms, {{}}(value) AS value {where} GROUP BY (seq - ?) * ? / ?"
        parts = (*which, first, max(1, most // 2), last - first + 1)
        rows = self._rows(
            f"SELECT time_ms, value FROM ({extreme.format('min')} UNION {extreme.format('max')}) ORDER BY seq",
            (*parts, *parts),
        )
        return [Sample(*row) for row in rows]
