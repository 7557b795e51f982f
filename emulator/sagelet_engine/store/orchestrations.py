"""SQL of orchestrations: their records, their children, and their statuses that are to be announced."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Generic

from sagelet_engine.base.errors import OrchestrationNameInUse, OrchestrationNotFound, SageletError, TooManyTags
from sagelet_engine.model.listing import JobPage, JobQuery
from sagelet_engine.model.orchestration import C, Child, O, Orchestration, OrchestrationKey
from sagelet_engine.model.search import JobSearch, SearchCursor, SearchPage
from sagelet_engine.store import lists as sql_pages
from sagelet_engine.store import search as sql_search
from sagelet_engine.store.orchestration_codecs import Codec, decode, decode_as, decode_child, encode, encode_child
from sagelet_engine.store.searched import Searched

Rows = Callable[[str, Sequence[Any]], list[Any]]
Write = Callable[[], AbstractContextManager[sqlite3.Connection]]

MIGRATION = """
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
        ordinal INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY (orchestration_id, ordinal)
    ) WITHOUT ROWID;
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
_PUT_CHILD = (
    "INSERT INTO orchestration_children VALUES (?, ?, ?)"
    " ON CONFLICT (orchestration_id, ordinal) DO UPDATE SET record = excluded.record"
)


class StaleOrchestration(SageletError):
    """Somebody else changed the orchestration since it was loaded. Load it again and decide anew."""


class Orchestrations:
    """Rows of orchestrations of all kinds. `rows` reads, `write` opens a flushed transaction, `noted` is called after a
    change.
    """

    def __init__(self, rows: Rows, write: Write, noted: Callable[[], None]) -> None:
        self._rows = rows
        self._write = write
        self._noted = noted

    def of(self, codec: Codec[O, C]) -> "Kept[O, C]":
        """Returns the rows of one kind."""
        return Kept(self._rows, self._write, self._noted, codec)

    def by_id(self, record_id: str) -> Orchestration:
        """Raises OrchestrationNotFound."""
        rows = self._rows(f"{_SELECT} WHERE id = ?", (record_id,))
        if not rows:
            raise OrchestrationNotFound(record_id)
        return decode(*rows[0])

    def unfinished(self) -> list[Orchestration]:
        """Returns every orchestration that has not ended, of all accounts and regions, the oldest first."""
        return [decode(*row) for row in self._rows(f"{_SELECT} WHERE terminal = 0 ORDER BY created_ms, rowid", ())]

    def noted_statuses(self, limit: int) -> list[tuple[int, Orchestration]]:
        """Returns the oldest statuses that were not announced yet, as Store.noted_statuses does for jobs."""
        return [(row[0], decode(*row[1:])) for row in self._rows(_OLDEST, (limit,))]

    def drop_noted_statuses(self, last: int) -> None:
        with self._write() as db:
            db.execute("DELETE FROM noted_orchestrations WHERE seq <= ?", (last,))


class Kept(Generic[O, C]):
    """Rows of one kind of orchestrations, and of their children."""

    def __init__(self, rows: Rows, write: Write, noted: Callable[[], None], codec: Codec[O, C]) -> None:
        self._rows = rows
        self._write = write
        self._noted = noted
        self._codec = codec

    def insert(self, record: O) -> None:
        """Makes a new record durable. Raises OrchestrationNameInUse."""
        key = record.key
        with self._write() as db:
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
        self._noted()

    def update(self, record: O, changed: Sequence[Child] = (), removed: Sequence[Child] = ()) -> O:
        """Replaces the record and these children, all or nothing. Returns the record with its new version.

        Raises StaleOrchestration if somebody else has changed the record since it was loaded.
        """
        with self._write() as db:
            row = (record.status.value, record.modified_ms, int(record.terminal), encode(record))
            if not db.execute(
                "UPDATE orchestrations SET status = ?, modified_ms = ?, terminal = ?, record = ?,"
                " version = version + 1 WHERE id = ? AND version = ?",
                (*row, record.id, record.version),
            ).rowcount:
                raise StaleOrchestration(record.key.name)
            db.executemany(_PUT_CHILD, [(record.id, one.ordinal, encode_child(one)) for one in changed])
            db.executemany(
                "DELETE FROM orchestration_children WHERE orchestration_id = ? AND ordinal = ?",
                [(record.id, one.ordinal) for one in removed],
            )
        self._noted()
        return replace(record, version=record.version + 1)

    def delete(self, record: O) -> None:
        """Forgets a record with its children. Raises StaleOrchestration."""
        with self._write() as db:
            which = (record.id, record.version)
            if not db.execute("DELETE FROM orchestrations WHERE id = ? AND version = ?", which).rowcount:
                raise StaleOrchestration(record.key.name)
        self._noted()

    def get(self, key: OrchestrationKey) -> O:
        """Raises OrchestrationNotFound."""
        rows = self._select("WHERE arn = ?", key.arn)
        if not rows:
            raise OrchestrationNotFound(key.arn)
        return rows[0]

    def every(self, account: str, region: str) -> list[O]:
        """Returns all of an account in a region, the oldest first."""
        where = "WHERE kind = ? AND account = ? AND region = ? ORDER BY created_ms, id"
        return self._select(where, self._codec.kind.value, account, region)

    def page(self, query: JobQuery) -> JobPage[O]:
        """Returns one page: filtered, then sorted, then cut."""
        clauses, parameters = sql_pages.page(query)
        own = clauses.replace("WHERE", "WHERE kind = ? AND", 1)
        return sql_pages.cut(self._select(own, self._codec.kind.value, *parameters), query)

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
        return [decode_child(self._codec, text) for (text,) in self._rows(select, (record_id,))]

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

    def _select(self, clauses: str, *parameters: Any) -> list[O]:
        return [decode_as(self._codec, *row) for row in self._rows(f"{_SELECT} {clauses}", parameters)]


def _put_tags(db: sqlite3.Connection, record_id: str, tags: Mapping[str, str]) -> None:
    db.executemany(
        "INSERT INTO orchestration_tags VALUES (?, ?, ?)"
        " ON CONFLICT (orchestration_id, key) DO UPDATE SET value = excluded.value",
        [(record_id, key, value) for key, value in tags.items()],
    )
