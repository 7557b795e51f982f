"""SQL of metrics that do not come from log lines: those of hosts, and those of BatchPutMetrics."""

import math
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from sagelet_engine.model.series import Sample
from sagelet_engine.model.sinks import MetricPoint

Rows = Callable[[str, Sequence[Any]], list[Any]]
Write = Callable[[], AbstractContextManager[sqlite3.Connection]]

TABLES = """
    -- The host is the one whose line a point is from.
    CREATE TABLE metric_points (
        seq INTEGER PRIMARY KEY,
        job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, host TEXT NOT NULL,
        name TEXT NOT NULL, value REAL NOT NULL, time_ms INTEGER NOT NULL
    );
    CREATE INDEX metric_points_by_name ON metric_points (job_id, name, seq);
    -- The newest value of a metric that was NaN or infinite, and the number of the newest finite one before it.
    CREATE TABLE not_finite_points (
        job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
        name TEXT NOT NULL, value TEXT NOT NULL, time_ms INTEGER NOT NULL, after_seq INTEGER NOT NULL,
        PRIMARY KEY (job_id, name)
    ) WITHOUT ROWID;
    CREATE TABLE host_points (
        job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
        host TEXT NOT NULL, name TEXT NOT NULL, time_ms INTEGER NOT NULL, value REAL NOT NULL,
        PRIMARY KEY (job_id, host, name, time_ms)
    ) WITHOUT ROWID;
    CREATE TABLE component_points (
        seq INTEGER PRIMARY KEY, job_id TEXT REFERENCES jobs (id) ON DELETE CASCADE,
        account TEXT NOT NULL, region TEXT NOT NULL, component TEXT NOT NULL,
        name TEXT NOT NULL, value REAL NOT NULL, time_ms INTEGER NOT NULL, step INTEGER
    );
    CREATE INDEX component_points_by_name ON component_points (account, region, component, name, seq);
    CREATE INDEX component_points_by_job ON component_points (job_id) WHERE job_id IS NOT NULL;
    """


class NotFinite(NamedTuple):
    """A metric that was NaN or infinite."""

    name: str
    #: `nan`, `inf`, `-inf`: the newest such value.
    value: str
    #: True if no finite value came after it.
    last: bool


def insert_points(db: sqlite3.Connection, job_id: str, host: str, points: Sequence[MetricPoint]) -> None:
    """Adds values that metric definitions found, in their order. SQLite has no NaN, so such values go apart."""
    for point in points:
        if math.isfinite(point.value):
            db.execute(
                "INSERT INTO metric_points (job_id, name, value, time_ms, host) VALUES (?, ?, ?, ?, ?)",
                (job_id, point.name, point.value, point.time_ms, host),
            )
        else:
            db.execute(
                "INSERT OR REPLACE INTO not_finite_points SELECT ?1, ?2, ?3, ?4, coalesce(max(seq), 0)"
                " FROM metric_points WHERE job_id = ?1 AND name = ?2",
                (job_id, point.name, str(point.value), point.time_ms),
            )


class Points:
    """Rows of metric points. `rows` reads, `write` opens a transaction."""

    def __init__(self, rows: Rows, write: Write) -> None:
        self._rows = rows
        self._write = write

    def put_host(self, job_id: str, points: Sequence[MetricPoint]) -> None:
        with self._write() as db:
            db.executemany(
                "INSERT OR REPLACE INTO host_points VALUES (?, ?, ?, ?, ?)",
                [(job_id, point.host, point.name, point.time_ms, point.value) for point in points],
            )

    def of_hosts(self, job_id: str) -> list[MetricPoint]:
        """Returns the instance metrics of a job, by time."""
        found = self._rows(
            "SELECT name, value, time_ms, host FROM host_points WHERE job_id = ? ORDER BY time_ms, host, name",
            (job_id,),
        )
        return [MetricPoint(*row) for row in found]

    def put(
        self, account: str, region: str, component: str, job_id: str | None, named: Sequence[tuple[str, Sample]]
    ) -> None:
        """Adds samples of metrics to a trial component. Samples of a job's component are deleted with the job."""
        rows = [
            (job_id, account, region, component, name, sample.value, sample.time_ms, sample.step)
            for name, sample in named
        ]
        with self._write() as db:
            db.executemany(
                "INSERT INTO component_points (job_id, account, region, component, name, value, time_ms, step)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )

    def of_component(self, account: str, region: str, component: str, name: str) -> list[Sample]:
        """Returns the samples that were put into a metric of a trial component, in order."""
        found = self._rows(
            "SELECT time_ms, value, step FROM component_points"
            " WHERE account = ? AND region = ? AND component = ? AND name = ? ORDER BY seq",
            (account, region, component, name),
        )
        return [Sample(*row) for row in found]

    def of_job(self, job_id: str, name: str) -> list[Sample]:
        """Returns the samples that the job's metric definition found in its log, in order."""
        found = self._rows(
            "SELECT time_ms, value FROM metric_points WHERE job_id = ? AND name = ? ORDER BY seq", (job_id, name)
        )
        return [Sample(*row) for row in found]

    def not_finite(self, job_id: str) -> list[NotFinite]:
        """Returns the metrics of a job that were NaN or infinite, by name."""
        found = self._rows(
            "SELECT name, value, after_seq >= coalesce((SELECT max(seq) FROM metric_points AS newer"
            " WHERE newer.job_id = odd.job_id AND newer.name = odd.name), 0)"
            " FROM not_finite_points AS odd WHERE job_id = ? ORDER BY name",
            (job_id,),
        )
        return [NotFinite(name, value, bool(last)) for name, value, last in found]

    def beyond(self, job_id: str, name: str, seq: int) -> list[tuple[int, float]]:
        """Returns number and value of the samples of a job's metric that came after the sample with number `seq`.

        The numbers grow with every sample of any job, from 1.
        """
        return self._rows(
            "SELECT seq, value FROM metric_points WHERE job_id = ? AND name = ? AND seq > ? ORDER BY seq",
            (job_id, name, seq),
        )
