"""SQL of orchestrations: their records, their children, and their statuses that are to be announced."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from sagelet_engine.base.database import DatabaseDamaged
from sagelet_engine.base.errors import OrchestrationNameInUse, OrchestrationNotFound, SageletError, TooManyTags
from sagelet_engine.model.listing import JobPage, JobQuery
from sagelet_engine.model.orchestration import C, Child, O, Orchestration, OrchestrationKey, OrchestrationKind
from sagelet_engine.model.search import JobSearch, SearchCursor, SearchPage
from sagelet_engine.store import lists as sql_pages
from sagelet_engine.store import search as sql_search
from sagelet_engine.store.orchestration_codecs import (
    CODECS,
    Codec,
    decode,
    decode_as,
    decode_child,
    encode,
    encode_child,
)
from sagelet_engine.store.searched import Searched

T = TypeVar("T")
Rows = Callable[[str, Sequence[Any]], list[Any]]
Write = Callable[[], AbstractContextManager[sqlite3.Connection]]

#: What a child made itself: a name, an ARN or a token. NULL for the result of another execution's step.
_MADE = (
    "CASE WHEN json_valid(record) THEN CASE WHEN coalesce(json_extract(record, '$.cached_from'),"
    " json_extract(record, '$.selected_from')) IS NULL THEN json_extract(record, '$.made') END END"
)
#: The cache key of a child that made its result itself and succeeded.
_CACHE_KEY = (
    "CASE WHEN json_valid(record) THEN CASE WHEN json_extract(record, '$.status') = 'Succeeded'"
    " AND json_extract(record, '$.cached_from') IS NULL THEN nullif(json_extract(record, '$.cache_key'), '') END END"
)
_ENDED = "CASE WHEN json_valid(record) THEN json_extract(record, '$.end_ms') END"
TABLES = f"""
    CREATE TABLE orchestrations (
        id TEXT PRIMARY KEY, kind TEXT NOT NULL,
        account TEXT NOT NULL, region TEXT NOT NULL, name TEXT NOT NULL, arn TEXT NOT NULL UNIQUE,
        status TEXT NOT NULL, created_ms INTEGER NOT NULL, modified_ms INTEGER NOT NULL,
        terminal INTEGER NOT NULL, version INTEGER NOT NULL, record TEXT NOT NULL
    );
    CREATE INDEX orchestrations_by_creation ON orchestrations (kind, account, region, created_ms, id);
    CREATE INDEX orchestrations_unfinished ON orchestrations (created_ms, id) WHERE terminal = 0;
    CREATE TABLE orchestration_tags (
        orchestration_id TEXT NOT NULL REFERENCES orchestrations (id) ON DELETE CASCADE,
        key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (orchestration_id, key)
    ) WITHOUT ROWID;
    CREATE TABLE orchestration_children (
        orchestration_id TEXT NOT NULL REFERENCES orchestrations (id) ON DELETE CASCADE,
        ordinal INTEGER NOT NULL, list_order INTEGER NOT NULL, record TEXT NOT NULL,
        PRIMARY KEY (orchestration_id, ordinal)
    ) WITHOUT ROWID;
    -- A page of a list reads its own children by the index, because an execution may have thousands of steps.
    CREATE INDEX orchestration_children_in_order ON orchestration_children (orchestration_id, list_order);
    -- A step finds earlier results, and a job the step that made it, without reading the history.
    CREATE INDEX orchestration_children_by_made ON orchestration_children ({_MADE}) WHERE {_MADE} IS NOT NULL;
    CREATE INDEX orchestration_children_by_cache_key ON orchestration_children ({_CACHE_KEY}, {_ENDED})
        WHERE {_CACHE_KEY} IS NOT NULL;
    CREATE TABLE noted_orchestrations (seq INTEGER PRIMARY KEY, orchestration_id TEXT NOT NULL,
        version INTEGER NOT NULL, record TEXT NOT NULL, tags TEXT);
    CREATE TRIGGER note_first_orchestration AFTER INSERT ON orchestrations BEGIN
        INSERT INTO noted_orchestrations (orchestration_id, version, record) VALUES (new.id, new.version, new.record);
    END;
    CREATE TRIGGER note_orchestration AFTER UPDATE OF status ON orchestrations WHEN new.status <> old.status BEGIN
        INSERT INTO noted_orchestrations (orchestration_id, version, record) VALUES (new.id, new.version, new.record);
    END;
    CREATE TRIGGER keep_orchestration_tags BEFORE DELETE ON orchestrations BEGIN
        UPDATE noted_orchestrations SET tags = (
            SELECT json_group_object(key, value) FROM orchestration_tags WHERE orchestration_id = old.id
        ) WHERE orchestration_id = old.id;
    END;
    """

_TAGS = "SELECT json_group_object(key, value) FROM orchestration_tags AS t WHERE t.orchestration_id"
_SELECT = f"SELECT record, version, ({_TAGS} = orchestrations.id) FROM orchestrations"
_OLDEST = (
    f"SELECT seq, record, version, coalesce(tags, ({_TAGS} = noted_orchestrations.orchestration_id))"
    " FROM noted_orchestrations ORDER BY seq LIMIT ?"
)
#: True for an orchestration `o` that a step of an unfinished execution has made. Its parameter: the executions' kind.
_IS_OF_A_STEP = (
    "EXISTS (SELECT 1 FROM orchestrations AS e JOIN orchestration_children AS s ON s.orchestration_id = e.id"
    " WHERE e.terminal = 0 AND e.kind = ? AND e.account = o.account AND e.region = o.region"
    " AND json_extract(s.record, '$.made') = o.name)"
)
_PUT_CHILD = (
    "INSERT INTO orchestration_children (orchestration_id, ordinal, list_order, record) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (orchestration_id, ordinal) DO UPDATE SET list_order = excluded.list_order, record = excluded.record"
)


class StaleOrchestration(SageletError):
    """Somebody else changed the orchestration since it was loaded. Load it again and decide anew."""


class Access(NamedTuple):
    """A database: `rows` reads, `write` opens a flushed transaction, and `changing` one that counts as a change."""

    rows: Rows
    write: Write
    changing: Write
    path: Path

    def decoded(self, decode: Callable[[Any], T], row: Any) -> T:
        """Returns what a row holds. Raises DatabaseDamaged."""
        try:
            return decode(row)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DatabaseDamaged(self.path, "the record of an orchestration cannot be read") from error


class Orchestrations:
    """Rows of orchestrations of all kinds."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._rows, self._write = access.rows, access.write

    def of(self, codec: Codec[O, C]) -> "Kept[O, C]":
        """Returns the rows of one kind."""
        return Kept(self._access, codec)

    def by_id(self, record_id: str) -> Orchestration:
        """Raises OrchestrationNotFound."""
        rows = self._rows(f"{_SELECT} WHERE id = ?", (record_id,))
        if not rows:
            raise OrchestrationNotFound(record_id)
        return self._access.decoded(_decode, rows[0])

    def unfinished(self) -> list[Orchestration]:
        """Returns every orchestration that has not ended, of all accounts and regions, the oldest first."""
        rows = self._rows(f"{_SELECT} WHERE terminal = 0 ORDER BY created_ms, rowid", ())
        return [self._access.decoded(_decode, row) for row in rows]

    def counts(self) -> dict[tuple[str, str], int]:
        """Returns the number of orchestrations by kind and status."""
        select = "SELECT kind, status, count(*) FROM orchestrations GROUP BY kind, status"
        return {(kind, status): number for kind, status, number in self._rows(select, ())}

    def awaited_jobs(self) -> set[str]:
        """Returns the ids of the jobs that unfinished orchestrations look at.

        These are the training jobs of tuning jobs, the jobs of steps, and the training jobs of steps' tuning jobs.
        """
        of_steps = (
            "SELECT j.id FROM jobs AS j JOIN orchestrations AS o ON o.account = j.account AND o.region = j.region"
            " JOIN orchestration_children AS c ON c.orchestration_id = o.id"
            " WHERE o.terminal = 0 AND o.kind = ? AND json_extract(c.record, '$.made') = j.name"
        )
        of_tuning = (
            "SELECT json_extract(c.record, '$.job_id') FROM orchestration_children AS c"
            " JOIN orchestrations AS o ON o.id = c.orchestration_id"
            f" WHERE o.kind = ? AND (o.terminal = 0 OR {_IS_OF_A_STEP})"
        )
        tuning, execution = OrchestrationKind.TUNING.value, OrchestrationKind.PIPELINE_EXECUTION.value
        rows = [*self._rows(of_steps, (execution,)), *self._rows(of_tuning, (tuning, execution))]
        return {job_id for (job_id,) in rows if job_id is not None}

    def forget_ended(self, before_ms: int, *, dry_run: bool = False) -> Mapping[OrchestrationKind, int]:
        """Forgets orchestrations that ended, or were last changed, at this time or earlier. Returns their numbers.

        A tuning job stays while an execution that made it is unfinished.
        """
        where = f"FROM orchestrations AS o WHERE kind = ? AND terminal = 1 AND modified_ms <= ? AND NOT {_IS_OF_A_STEP}"
        gone = {}
        for kind in OrchestrationKind:
            values = (kind.value, before_ms, OrchestrationKind.PIPELINE_EXECUTION.value)
            if dry_run:
                gone[kind] = int(self._rows(f"SELECT count(*) {where}", values)[0][0])
                continue
            with self._write() as db:
                gone[kind] = db.execute(f"DELETE {where}", values).rowcount
        return gone

    def broken_records(self) -> list[tuple[str, str, str]]:
        """Returns kind and id of orchestrations that cannot be read with their children, and why."""
        found = []
        children = "SELECT record FROM orchestration_children WHERE orchestration_id = ?"
        for kind, record_id in self._rows("SELECT kind, id FROM orchestrations ORDER BY rowid", ()):
            try:
                codec = CODECS[self.by_id(record_id).key.kind]
                for (text,) in self._rows(children, (record_id,)):
                    self._access.decoded(partial(decode_child, codec), text)
            except DatabaseDamaged as error:
                found.append((kind, record_id, str(error.__cause__)))
        return found

    def drop_record(self, record_id: str) -> None:
        """Forgets an orchestration, whatever its record holds."""
        with self._write() as db:
            db.execute("DELETE FROM orchestrations WHERE id = ?", (record_id,))

    def noted_statuses(self, limit: int) -> list[tuple[int, Orchestration]]:
        """Returns the oldest statuses that were not announced yet, as Store.noted_statuses does for jobs."""
        return [(row[0], self._access.decoded(_decode, row[1:])) for row in self._rows(_OLDEST, (limit,))]

    def last_noted_status(self) -> int:
        """Returns the number of the newest status that was not announced yet, or 0."""
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM noted_orchestrations", ())[0][0])

    def drop_noted_statuses(self, last: int) -> None:
        with self._write() as db:
            db.execute("DELETE FROM noted_orchestrations WHERE seq <= ?", (last,))


class Kept(Generic[O, C]):
    """Rows of one kind of orchestrations, and of their children."""

    def __init__(self, access: Access, codec: Codec[O, C]) -> None:
        self._access = access
        self._rows, self._write, self._changing = access.rows, access.write, access.changing
        self._codec = codec

    def insert(self, record: O) -> None:
        """Makes a new record durable. Raises OrchestrationNameInUse."""
        key = record.key
        with self._changing() as db:
            try:
                db.execute(
                    "INSERT INTO orchestrations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        record.id, key.kind.value, key.account, key.region, key.name, key.arn, record.status.value,
                        record.created_ms, record.modified_ms, int(record.terminal), record.version, encode(record),
                    ),
                )  # fmt: skip
            except sqlite3.IntegrityError as error:
                raise OrchestrationNameInUse(key.arn) from error
            _put_tags(db, record.id, record.tags)

    def update(self, record: O, changed: Sequence[Child] = (), removed: Sequence[Child] = ()) -> O:
        """Replaces the record and these children, all or nothing. Returns the record with its new version.

        Raises StaleOrchestration if somebody else has changed the record since it was loaded.
        """
        with self._changing() as db:
            row = (record.status.value, record.modified_ms, int(record.terminal), encode(record))
            if not db.execute(
                "UPDATE orchestrations SET status = ?, modified_ms = ?, terminal = ?, record = ?,"
                " version = version + 1 WHERE id = ? AND version = ?",
                (*row, record.id, record.version),
            ).rowcount:
                raise StaleOrchestration(record.key.name)
            db.executemany(_PUT_CHILD, [(record.id, one.ordinal, one.list_order, encode_child(one)) for one in changed])
            db.executemany(
                "DELETE FROM orchestration_children WHERE orchestration_id = ? AND ordinal = ?",
                [(record.id, one.ordinal) for one in removed],
            )
        return replace(record, version=record.version + 1)

    def delete(self, record: O) -> None:
        """Forgets a record with its children. Raises StaleOrchestration."""
        with self._changing() as db:
            which = (record.id, record.version)
            if not db.execute("DELETE FROM orchestrations WHERE id = ? AND version = ?", which).rowcount:
                raise StaleOrchestration(record.key.name)

    def get(self, key: OrchestrationKey) -> O:
        """Raises OrchestrationNotFound."""
        rows = self._select("WHERE arn = ?", key.arn)
        if not rows:
            raise OrchestrationNotFound(key.arn)
        return rows[0]

    def every(self, account: str, region: str) -> list[O]:
        """Returns all of an account in a region, the oldest first."""
        where = "WHERE kind = ? AND account = ? AND region = ? ORDER BY created_ms, rowid"
        return self._select(where, self._codec.kind.value, account, region)

    def below(self, arn: str) -> list[O]:
        """Returns those whose ARN continues this one after a `/`, the oldest first."""
        return self._select("WHERE arn >= ? AND arn < ? ORDER BY created_ms, rowid", f"{arn}/", f"{arn}0")

    def unfinished(self, account: str, region: str) -> list[O]:
        """Returns those that have not ended, the oldest first. Reads no others."""
        where = "INDEXED BY orchestrations_unfinished WHERE terminal = 0 AND kind = ? AND account = ? AND region = ?"
        return self._select(f"{where} ORDER BY created_ms, rowid", self._codec.kind.value, account, region)

    def makers(self, account: str, region: str, made: str) -> list[tuple[O, C]]:
        """Returns each child that made something of this name itself, with its orchestration, the oldest first."""
        ids = f"SELECT orchestration_id FROM orchestration_children WHERE {_MADE} = ?"
        # `+` keeps SQLite from reading the whole account by another index.
        where = f"WHERE id IN ({ids}) AND +kind = ? AND +account = ? AND +region = ? ORDER BY created_ms, rowid"
        records = self._select(where, made, self._codec.kind.value, account, region)
        of_one = (
            f"SELECT record FROM orchestration_children WHERE {_MADE} = ? AND orchestration_id = ? ORDER BY ordinal"
        )
        rows = [(record, text) for record in records for (text,) in self._rows(of_one, (made, record.id))]
        return [(record, self._decoded_child(text)) for record, text in rows]

    def newest_result(self, cache_key: str) -> tuple[C, str] | None:
        """Returns the child that succeeded last with a cache key by its own work, and its orchestration's ARN."""
        rows = self._rows(
            "SELECT c.record, o.arn FROM orchestration_children AS c JOIN orchestrations AS o"
            f" ON o.id = c.orchestration_id WHERE {_CACHE_KEY.replace('record', 'c.record')} = ?"
            f" ORDER BY {_ENDED.replace('record', 'c.record')} DESC, o.created_ms DESC, o.rowid DESC LIMIT 1",
            (cache_key,),
        )
        return (self._decoded_child(rows[0][0]), rows[0][1]) if rows else None

    def page(self, query: JobQuery) -> JobPage[O]:
        """Returns one page: filtered, then sorted, then cut."""
        clauses, parameters = sql_pages.page(query, self._codec.kind.value)
        return sql_pages.cut(self._select(clauses, *parameters), query)

    def counts_of(self, query: JobQuery) -> dict[str, int]:
        """Returns the number of records on all pages of a list, by status."""
        return dict(self._rows(*sql_pages.counts(query, self._codec.kind.value, "orchestrations")))

    def search(self, query: JobSearch, searched: Searched) -> SearchPage[O]:
        """Returns one page of the records that satisfy an expression."""
        rows = self._rows(*sql_search.search(query, searched))
        page = rows[: query.limit]
        marks = ", ".join("?" * len(page))
        found = {one.id: one for one in self._select(f"WHERE id IN ({marks})", *(row[0] for row in page))}
        more = SearchCursor(page[-1][1], page[-1][0]) if len(rows) > query.limit else None
        total = rows[0][2] if rows else self._rows(*sql_search.count(query, searched))[0][0]
        return SearchPage([found[row[0]] for row in page if row[0] in found], total, more)

    def children(self, record_id: str) -> list[C]:
        """Returns the children in the order of their creation."""
        select = "SELECT record FROM orchestration_children WHERE orchestration_id = ? ORDER BY ordinal"
        return [self._decoded_child(text) for (text,) in self._rows(select, (record_id,))]

    def children_page(self, record_id: str, after: int | None, limit: int, *, newest_first: bool) -> list[C]:
        """Returns at most `limit` children in the order of `list_order`. `after`: the last one's of the page before."""
        sign, order = ("<", "DESC") if newest_first else (">", "ASC")
        beyond = "" if after is None else f" AND list_order {sign} ?"
        select = f"SELECT record FROM orchestration_children WHERE orchestration_id = ?{beyond}"
        parameters = (record_id, *(() if after is None else (after,)), limit)
        rows = self._rows(f"{select} ORDER BY list_order {order} LIMIT ?", parameters)
        return [self._decoded_child(text) for (text,) in rows]

    def property_names(self, account: str, region: str, beginning: str, limit: int) -> list[str]:
        """Returns names of tuning jobs' hyperparameters and tags that begin with `beginning`, in order."""
        return [row[0] for row in self._rows(*sql_search.tuning_names(account, region, beginning, limit))]

    def put_tags(self, record_id: str, tags: Mapping[str, str], limit: int) -> None:
        """Adds tags or replaces their values: all of them, or none. Raises TooManyTags, OrchestrationNotFound."""
        with self._write() as db:
            try:
                _put_tags(db, record_id, tags)
            except sqlite3.IntegrityError as error:
                raise OrchestrationNotFound(record_id) from error
            count = "SELECT count(*) FROM orchestration_tags WHERE orchestration_id = ?"
            if db.execute(count, (record_id,)).fetchone()[0] > limit:
                raise TooManyTags(limit)

    def delete_tags(self, record_id: str, keys: Sequence[str]) -> None:
        with self._write() as db:
            db.executemany(
                "DELETE FROM orchestration_tags WHERE orchestration_id = ? AND key = ?",
                [(record_id, key) for key in keys],
            )

    def _decoded_child(self, text: str) -> C:
        child: C = self._access.decoded(partial(_child, self._codec), text)
        return child

    def _select(self, clauses: str, *parameters: Any) -> list[O]:
        rows = self._rows(f"{_SELECT} {clauses}", parameters)
        return [self._access.decoded(lambda row: decode_as(self._codec, *row), row) for row in rows]


@lru_cache(maxsize=2048)
def _child(codec: Codec[Any, C], text: str) -> C:
    """Reads a child. An orchestration looks at all of its children again and again, and few of them have changed."""
    return decode_child(codec, text)


def _decode(row: tuple[str, int, str]) -> Orchestration:
    return decode(*row)


def _put_tags(db: sqlite3.Connection, record_id: str, tags: Mapping[str, str]) -> None:
    db.executemany(
        "INSERT INTO orchestration_tags VALUES (?, ?, ?)"
        " ON CONFLICT (orchestration_id, key) DO UPDATE SET value = excluded.value",
        [(record_id, key, value) for key, value in tags.items()],
    )
