"""Durable state in SQLite. Fixed statements are in this module; the modules beside it build SQL from a query.

A commit of a job is flushed to the disk before it returns. A batch of log lines and metric points is committed together
with the position up to which the output was read, and flushed by the next checkpoint. So a crash leaves neither a gap
nor a duplicate.
"""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sagelet_engine.base.changes import Changes
from sagelet_engine.base.database import Database, DatabaseDamaged, Waiting
from sagelet_engine.base.errors import JobNameInUse, JobNotFound, SageletError, TooManyTags
from sagelet_engine.model.job import J, Job, JobKey, JobKind, PoolStatus
from sagelet_engine.model.listing import JobPage, JobQuery, ListedJob
from sagelet_engine.model.log_events import LogEvent, LogStream, utf8_size
from sagelet_engine.model.search import JobSearch, SearchCursor, SearchPage
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.store import codec
from sagelet_engine.store import iam as sql_iam
from sagelet_engine.store import lists as sql_pages
from sagelet_engine.store import logs as sql_logs
from sagelet_engine.store import metrics as sql_metrics
from sagelet_engine.store import notes as sql_notes
from sagelet_engine.store import orchestrations as sql_orchestrations
from sagelet_engine.store import pipelines as sql_pipelines
from sagelet_engine.store import registry as sql_registry
from sagelet_engine.store import search as sql_search
from sagelet_engine.store.schema import SCHEMA

T = TypeVar("T")


@dataclass(frozen=True)
class EndedJob:
    """The names of an ended job's directory, and the time of the record's last change."""

    id: str
    account: str
    region: str
    #: ms since the epoch.
    modified_ms: int


class KnownPoints(NamedTuple):
    """Snapshot bounds: log points with seq up to a number, host points from before a time."""

    last_seq: int
    before_ms: int


class StaleRecord(SageletError):
    """Somebody else changed the job since it was loaded. Load it again and decide anew."""


class Store(Database):
    """All durable state of one data directory. `waiting`: entered by a thread while it waits for a flush."""

    def __init__(self, path: Path, waiting: Waiting = nullcontext) -> None:
        #: Set when a status may be waiting to be announced.
        self.status_noted = threading.Event()
        #: Counts every change of a job's record or tags, and every line and metric point, of any job.
        self.changes = Changes()
        self.logs = sql_logs.Logs(self._rows, self._connection)
        self.log_groups = sql_logs.LogGroups(self._rows, self._write)
        access = sql_orchestrations.Access(self._rows, self._write, self._changing, path)
        self.orchestrations = sql_orchestrations.Orchestrations(access)
        self.pipelines = sql_pipelines.Pipelines(self._rows, self._write)
        self.registry = sql_registry.Registry(self._rows, self._write)
        self.iam = sql_iam.IamRecords(self._rows, self._write)
        self.points = sql_metrics.Points(self._rows, lambda: self._write(durable=False))
        super().__init__(path, SCHEMA, waiting)

    @contextmanager
    def _changing(self, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Runs a transaction that changes a record, and says so."""
        with self.changes.changing():
            with self._write(durable) as db:
                yield db
            self.status_noted.set()

    # --- jobs -------------------------------------------------------------------------------------------------

    def insert(self, job: Job) -> None:
        """Makes a new job durable. Raises JobNameInUse."""
        key = job.key
        row = (job.id, key.account, key.region, key.name, key.arn, *_state(job))
        with self._changing() as db:
            try:
                db.execute(
                    "INSERT INTO jobs (id, account, region, name, arn, status, created_ms, modified_ms, terminal,"
                    " record, secondary, training_end_ms, shown, version, kind)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*row, job.version, key.kind.value),
                )
            except sqlite3.IntegrityError as error:
                raise JobNameInUse(job.key.arn) from error
            _put_tags(db, job.id, job.tags)
            parameters = [(job.id, *given) for given in job.hyperparameters.items()]
            db.executemany("INSERT INTO hyperparameters VALUES (?, ?, ?)", parameters)

    def update(self, job: J, *, durable: bool = True) -> J:
        """Replaces the record if nobody else has changed it since it was loaded. Returns it with its new version.

        Otherwise raises StaleRecord. Without `durable`, a crash of the machine may undo the change.
        """
        return self.update_all(job, durable=durable)[0]

    def update_all(self, *jobs: J, durable: bool = True) -> list[J]:
        """Replaces all of these records, or none of them; see `update`."""
        with self._changing(durable) as db:
            for job in jobs:
                changed = db.execute(
                    "UPDATE jobs SET status = ?, created_ms = ?, modified_ms = ?, terminal = ?, record = ?,"
                    " secondary = ?, training_end_ms = ?, shown = ?, version = version + 1"
                    " WHERE id = ? AND version = ?",
                    (*_state(job), job.id, job.version),
                ).rowcount
                if not changed:
                    raise StaleRecord(job.key.name)
        return [replace(job, version=job.version + 1) for job in jobs]

    def delete(self, job: Job) -> None:
        """Forgets a job with its tags, log streams and metric points. Raises StaleRecord if it has changed."""
        with self._changing() as db:
            if not db.execute("DELETE FROM jobs WHERE id = ? AND version = ?", (job.id, job.version)).rowcount:
                raise StaleRecord(job.key.name)

    def get(self, key: JobKey) -> Job:
        """Returns a job. Raises JobNotFound."""
        return self._one("arn = ?", key.arn)

    def get_by_id(self, job_id: str) -> Job:
        """Returns a job by its id. Raises JobNotFound."""
        return self._one("id = ?", job_id)

    def by_ids(self, job_ids: Sequence[str]) -> dict[str, Job]:
        """Returns those of these jobs that exist, by their ids."""
        return {job.id: job for job in self._jobs(_BY_IDS, (json.dumps(list(job_ids)),))}

    def unfinished(self) -> list[Job]:
        """Returns every job that has not ended, of all accounts and regions, the oldest first."""
        return self._jobs("WHERE terminal = 0 ORDER BY created_ms, rowid", ())

    def unfinished_arns(self) -> frozenset[str]:
        """Returns the ARNs of all jobs and orchestrations that have not ended. Reads no record."""
        of = " UNION ALL ".join(f"SELECT arn FROM {table} WHERE terminal = 0" for table in ("jobs", "orchestrations"))
        return frozenset(arn for (arn,) in self._rows(of))

    def with_warm_pool(self, status: PoolStatus) -> list[Job]:
        """Returns every job whose warm pool has this status, of all accounts and regions."""
        return self._jobs(f"WHERE {sql_pages.HAS_WARM_POOL} ORDER BY rowid", (status.value,))

    def page(self, query: JobQuery) -> JobPage[Job]:
        """Returns one page of jobs: filtered, then sorted, then cut."""
        return sql_pages.cut(self._jobs(*sql_pages.page(query, query.kind.value)), query)

    def listing(self, query: JobQuery) -> JobPage[ListedJob]:
        """Returns the same page, with only what a list shows of each job."""
        clauses, parameters = sql_pages.page(query, query.kind.value)
        # As one row: at each, SQLite gives Python's lock away, and may wait for it while others compute.
        ((page,),) = self._rows(
            f"SELECT json_group_array(json_array({codec.LISTED})) FROM (SELECT {codec.LISTED} FROM jobs {clauses})",
            parameters,
        )
        return sql_pages.cut([self._read("row", codec.decode_listed, *row) for row in json.loads(page)], query)

    def search(self, query: JobSearch) -> SearchPage[Job]:
        """Returns one page of the training jobs that satisfy an expression."""
        rows = self._rows(*sql_search.search(query))
        page = rows[: query.limit]
        jobs = self.by_ids([row[0] for row in page])
        more = SearchCursor(page[-1][1], page[-1][0]) if len(rows) > query.limit else None
        total = rows[0][2] if rows else self._rows(*sql_search.count(query))[0][0]
        return SearchPage([jobs[row[0]] for row in page if row[0] in jobs], total, more)

    def property_names(self, account: str, region: str, beginning: str, limit: int) -> list[str]:
        """Returns the names `HyperParameters.NAME`, `Tags.KEY` and `Metrics.NAME` of jobs that begin with `beginning`,
        in order.
        """
        return [row[0] for row in self._rows(*sql_search.names(account, region, beginning, limit))]

    def counts(self) -> dict[str, int]:
        """Returns the number of jobs by TrainingJobStatus."""
        return dict(self._rows("SELECT status, count(*) FROM jobs GROUP BY status"))

    def counts_of(self, query: JobQuery | JobSearch) -> dict[str, int]:
        """Returns the number of jobs on all pages of a list or a search, by status."""
        counted = sql_search.counts(query) if isinstance(query, JobSearch) else sql_pages.counts(query)
        return dict(self._rows(*counted))

    def places(self) -> list[tuple[str, str]]:
        """Returns every account and region that has jobs."""
        return self._rows("SELECT DISTINCT account, region FROM jobs ORDER BY account, region")

    def ended_jobs(self) -> list[EndedJob]:
        """Returns every ended job, of all accounts and regions, by the time of its last change."""
        columns = "id, account, region, modified_ms"
        rows = self._rows(f"SELECT {columns} FROM jobs WHERE terminal = 1 ORDER BY modified_ms, rowid")
        return [EndedJob(*row) for row in rows]

    def every_job(self) -> Iterator[Job]:
        """Yields all jobs, of all accounts and regions."""
        for row in self._rows("SELECT id FROM jobs ORDER BY rowid"):
            yield from self._jobs("WHERE id = ?", row)

    def job_places(self) -> list[tuple[str, str, str]]:
        """Returns account, region and id of every job."""
        return self._rows("SELECT account, region, id FROM jobs")

    def broken_records(self) -> list[tuple[str, str]]:
        """Returns the ids of jobs with unreadable records, and why they are unreadable."""
        found = []
        for (job_id,) in self._rows("SELECT id FROM jobs ORDER BY rowid"):
            try:
                self._jobs("WHERE id = ?", (job_id,))
            except DatabaseDamaged as error:
                found.append((job_id, str(error.__cause__)))
        return found

    def drop_record(self, job_id: str) -> None:
        """Forgets a job, whatever its record holds."""
        with self._write() as db:
            db.execute("DELETE FROM jobs WHERE id = ?", (job_id,))

    # --- notes ------------------------------------------------------------------------------------------------

    def noted_statuses(self, limit: int) -> list[tuple[int, Job]]:
        """Returns the oldest statuses that were not announced yet: a number that grows, and the job's record at that
        time.
        """
        with self._connection() as db:
            return sql_notes.oldest(db, limit)

    def last_noted_status(self) -> int:
        """Returns the number of the newest status that was not announced yet, or 0."""
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM noted_statuses")[0][0])

    def drop_noted_statuses(self, last: int) -> None:
        """Forgets the noted statuses up to a number, after they are announced. After a crash they may come again."""
        with self._write(durable=False) as db:
            db.execute("DELETE FROM noted_statuses WHERE seq <= ?", (last,))

    def throttle(self, job_id: str, limit: int) -> bool:
        """Counts one more throttled call of a job. Returns False if `limit` calls were throttled already."""
        with self._write() as db:
            return sql_notes.throttle(db, job_id, limit)

    # --- tags -------------------------------------------------------------------------------------------------

    def put_tags(self, job_id: str, tags: Mapping[str, str], limit: int) -> None:
        """Adds tags or replaces their values: all of them, or none. Raises TooManyTags, JobNotFound."""
        with self._write() as db:
            try:
                _put_tags(db, job_id, tags)
            except sqlite3.IntegrityError as error:
                raise JobNotFound(job_id) from error
            if db.execute("SELECT count(*) FROM tags WHERE job_id = ?", (job_id,)).fetchone()[0] > limit:
                raise TooManyTags(limit)

    def delete_tags(self, job_id: str, keys: Sequence[str]) -> None:
        with self._write() as db:
            db.executemany("DELETE FROM tags WHERE job_id = ? AND key = ?", [(job_id, key) for key in keys])

    # --- logs and metrics -------------------------------------------------------------------------------------

    def open_stream(self, job: Job, host: str, name: str, now_ms: int) -> LogStream:
        """Returns the log stream of a host of the job's present attempt. Makes it if it does not exist yet.

        `name` ends with an epoch second, and so does the stream's name. The stream gets a later second if another
        attempt has the name.
        """
        key, which = job.key, (job.id, host, job.attempt)
        wanted = f"{sql_logs.SELECT_STREAM} WHERE job_id = ? AND host = ? AND attempt = ?"
        with self._write(durable=False) as db:
            if (found := db.execute(wanted, which).fetchone()) is None:
                db.execute(
                    "INSERT INTO log_streams (job_id, host, attempt, account, region, kind, name, created_ms)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (*which, key.account, key.region, key.kind.value, _free_name(db, job, name), now_ms),
                )
                found = db.execute(wanted, which).fetchone()
        return LogStream(*found)

    def append_output(
        self,
        stream: LogStream,
        events: Sequence[LogEvent],
        position: str | None,
        points: Sequence[MetricPoint],
        now_ms: int,
    ) -> LogStream:
        """Appends events, the metric points found in them and the position up to which the output was read, all or
        nothing.

        Times never go back within a stream: an event older than the last one gets the last one's time.
        """
        times, size = sql_logs.rising(events, stream.last_ms or 0), sum(utf8_size(event.text) for event in events)
        first = times[0] if times else None
        after = replace(
            stream,
            position=position or stream.position,
            first_ms=first if stream.first_ms is None else stream.first_ms,
            last_ms=times[-1] if times else stream.last_ms,
            ingested_ms=now_ms if times else stream.ingested_ms,
            events=stream.events + len(times),
            bytes=stream.bytes + size,
        )
        with self.changes.changing(), self._write(durable=False) as db:
            sql_logs.insert(db, stream.id, stream.events, now_ms, times, [event.text for event in events])
            sql_metrics.insert_points(db, stream.job_id, stream.host, points)
            db.execute(
                # Relative, because events may have been removed meanwhile. A line makes a deleted stream visible again.
                "UPDATE log_streams SET position = ?, first_ms = coalesce(first_ms, ?), last_ms = ?, ingested_ms = ?,"
                " events = ?, bytes = bytes + ?, deleted = deleted AND ? WHERE id = ?",
                (
                    after.position, first, after.last_ms, after.ingested_ms, after.events, size, not times, stream.id,
                ),
            )  # fmt: skip
        return after

    def last_points(self, job_id: str) -> list[MetricPoint]:
        """Returns the last value of every metric of a job, by name."""
        rows = self._rows(
            "SELECT name, value, time_ms FROM metric_points WHERE seq IN"
            " (SELECT max(seq) FROM metric_points WHERE job_id = ? GROUP BY name) ORDER BY name",
            (job_id,),
        )
        return [MetricPoint(*row) for row in rows]

    def known_points(self, now_ms: int) -> KnownPoints:
        """Returns bounds of the metric points that exist now."""
        return KnownPoints(self._rows("SELECT coalesce(max(seq), 0) FROM metric_points")[0][0], now_ms)

    def newest_points(self, known: KnownPoints, most: int) -> Iterator[tuple[JobKey, list[MetricPoint]]]:
        """Yields metric points of the newest jobs that have `most` points together, the oldest job first.

        Each job's points are in order, with those of its hosts last.
        """
        counted = self._rows(
            "SELECT id, account, region, name, kind,"
            " (SELECT count(*) FROM metric_points WHERE job_id = id AND seq <= ?)"
            " + (SELECT count(*) FROM host_points WHERE job_id = id AND time_ms < ?) FROM jobs"
            " ORDER BY created_ms DESC, rowid DESC",
            known,
        )
        before = accumulate((row[5] for row in counted), initial=0)
        jobs = [row[:5] for row, seen in zip(counted, before, strict=False) if row[5] and seen < most]
        for job_id, account, region, name, kind in reversed(jobs):
            points = "SELECT name, value, time_ms FROM metric_points WHERE job_id = ? AND seq <= ? ORDER BY seq"
            rows = self._rows(points, (job_id, known.last_seq))
            of_hosts = [point for point in self.points.of_hosts(job_id) if point.time_ms < known.before_ms]
            key = JobKey(account, region, name, JobKind(kind))
            yield key, [*(MetricPoint(*row) for row in rows), *of_hosts]

    # --- connections ------------------------------------------------------------------------------------------

    def _one(self, condition: str, value: str) -> Job:
        found = self._jobs(f"WHERE {condition}", (value,))
        if not found:
            raise JobNotFound(value)
        return found[0]

    def _jobs(self, clauses: str, parameters: Sequence[Any]) -> list[Job]:
        """Returns the jobs that `clauses` choose, in one statement: job and tags are of one moment."""
        rows = self._rows(f"SELECT id, record, version, {_TAGS} FROM jobs {clauses}", parameters)
        return [self._read("record", _job, *row) for row in rows]

    def _read(self, what: str, decode: Callable[..., T], job_id: str, *columns: Any) -> T:
        try:
            return decode(job_id, *columns)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DatabaseDamaged(self._path, f"the {what} of job {job_id} cannot be read") from error


def _job(_job_id: str, record: str, version: int, tags: str) -> Job:
    return codec.decode(record, version, json.loads(tags))


#: A job's tags as a JSON object, by their keys.
_TAGS = "(SELECT json_group_object(key, value) FROM (SELECT key, value FROM tags WHERE job_id = jobs.id ORDER BY key))"
_BY_IDS = "WHERE id IN (SELECT value FROM json_each(?))"


def _state(job: Job) -> tuple[Any, ...]:
    return (
        job.status.value, job.created_ms, job.modified_ms, int(job.terminal), codec.encode(job), job.secondary.value,
        job.training_end_ms, codec.shown(job),
    )  # fmt: skip


def _free_name(db: sqlite3.Connection, job: Job, name: str) -> str:
    """Returns a free name. Two attempts may start within a second, and names of streams are unique."""
    taken = "SELECT 1 FROM log_streams WHERE account = ? AND region = ? AND name = ?"
    while db.execute(taken, (job.key.account, job.key.region, name)).fetchone():
        head, _, epoch = name.rpartition("-")
        name = f"{head}-{int(epoch) + 1}"
    return name


def _put_tags(db: sqlite3.Connection, job_id: str, tags: Mapping[str, str]) -> None:
    db.executemany(
        "INSERT INTO tags VALUES (?, ?, ?) ON CONFLICT (job_id, key) DO UPDATE SET value = excluded.value",
        [(job_id, key, value) for key, value in tags.items()],
    )
