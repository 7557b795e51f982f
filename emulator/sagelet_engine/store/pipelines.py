"""SQL of pipelines and of the versions of their definitions. Their executions are orchestrations."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sagelet_engine.base.errors import PipelineNameInUse, PipelineNotFound
from sagelet_engine.model.pipeline import Pipeline, PipelineKey

Rows = Callable[[str, Sequence[Any]], list[Any]]
Write = Callable[[], AbstractContextManager[sqlite3.Connection]]

TABLES = """
    CREATE TABLE pipelines (
        arn TEXT PRIMARY KEY, account TEXT NOT NULL, region TEXT NOT NULL, name TEXT NOT NULL,
        created_ms INTEGER NOT NULL, record TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX pipelines_by_name ON pipelines (account, region, name);
    CREATE TABLE pipeline_versions (
        arn TEXT NOT NULL REFERENCES pipelines (arn) ON DELETE CASCADE, version INTEGER NOT NULL,
        created_ms INTEGER NOT NULL, definition TEXT NOT NULL, PRIMARY KEY (arn, version)
    ) WITHOUT ROWID;
    -- ClientRequestTokens of deletions, so that a repeated one finds what it did.
    CREATE TABLE deleted_pipelines (
        arn TEXT NOT NULL, token TEXT NOT NULL, deleted_ms INTEGER NOT NULL, PRIMARY KEY (arn, token)
    ) WITHOUT ROWID;
    CREATE INDEX deleted_pipelines_by_time ON deleted_pipelines (deleted_ms);
    """
#: How long a token of a deletion counts, in ms. AWS documents no time.
REPEATABLE_MS = 86_400_000

_SELECT = (
    "SELECT record, definition FROM pipelines JOIN pipeline_versions"
    " ON pipeline_versions.arn = pipelines.arn AND version = json_extract(record, '$.version')"
)


class Pipelines:
    """Rows of pipelines. `rows` reads, `write` opens a flushed transaction."""

    def __init__(self, rows: Rows, write: Write) -> None:
        self._rows = rows
        self._write = write

    def insert(self, pipeline: Pipeline) -> None:
        """Makes a new pipeline durable. Raises PipelineNameInUse."""
        key = pipeline.key
        with self._write() as db:
            try:
                db.execute(
                    "INSERT INTO pipelines VALUES (?, ?, ?, ?, ?, ?)",
                    (key.arn, key.account, key.region, key.name, pipeline.created_ms, _encode(pipeline)),
                )
            except sqlite3.IntegrityError as error:
                raise PipelineNameInUse(key.name) from error
            _keep_version(db, pipeline, pipeline.created_ms)

    def change(self, key: PipelineKey, change: Callable[[Pipeline], Pipeline]) -> Pipeline:
        """Replaces a pipeline by what `change` makes of it, and returns that. Raises PipelineNotFound."""
        with self._write() as db:
            row = db.execute(f"{_SELECT} WHERE pipelines.arn = ?", (key.arn,)).fetchone()
            if row is None:
                raise PipelineNotFound(key.arn)
            before = _decode(*row)
            after = change(before)
            db.execute("UPDATE pipelines SET record = ? WHERE arn = ?", (_encode(after), key.arn))
            if after.version != before.version:
                _keep_version(db, after, after.modified_ms)
        return after

    def delete(self, key: PipelineKey, token: str, now_ms: int) -> None:
        """Forgets a pipeline, and remembers the token of the deletion for a day."""
        with self._write() as db:
            db.execute("DELETE FROM pipelines WHERE arn = ?", (key.arn,))
            db.execute("DELETE FROM deleted_pipelines WHERE deleted_ms < ?", (now_ms - REPEATABLE_MS,))
            db.execute("INSERT OR REPLACE INTO deleted_pipelines VALUES (?, ?, ?)", (key.arn, token, now_ms))

    def was_deleted(self, key: PipelineKey, token: str) -> bool:
        """True if a deletion with this token has succeeded."""
        return bool(self._rows("SELECT 1 FROM deleted_pipelines WHERE arn = ? AND token = ?", (key.arn, token)))

    def get(self, key: PipelineKey) -> Pipeline:
        """Raises PipelineNotFound."""
        rows = self._rows(f"{_SELECT} WHERE pipelines.arn = ?", (key.arn,))
        if not rows:
            raise PipelineNotFound(key.arn)
        return _decode(*rows[0])

    def every(self, account: str, region: str) -> list[Pipeline]:
        """Returns all pipelines of an account in a region, by name."""
        where = "WHERE account = ? AND region = ? ORDER BY name"
        return [_decode(*row) for row in self._rows(f"{_SELECT} {where}", (account, region))]

    def broken_records(self) -> list[tuple[str, str]]:
        """Returns the ARNs of pipelines whose record or present definition cannot be read, and why."""
        found = []
        select = (
            "SELECT pipelines.arn, record, definition FROM pipelines LEFT JOIN pipeline_versions"
            " ON pipeline_versions.arn = pipelines.arn AND version = json_extract(record, '$.version')"
        )
        # A record that is not JSON would fail the join of all rows.
        for (arn,) in self._rows("SELECT arn FROM pipelines WHERE NOT json_valid(record) ORDER BY arn", ()):
            found.append((arn, "it is not JSON"))
        for arn, record, definition in self._rows(f"{select} WHERE json_valid(record) ORDER BY pipelines.arn", ()):
            try:
                _decode(record, definition)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                found.append((arn, str(error)))
                continue
            if definition is None:
                found.append((arn, "the definition of its version is missing"))
        return found

    def drop_record(self, arn: str) -> None:
        """Forgets a pipeline, whatever its record holds."""
        with self._write() as db:
            db.execute("DELETE FROM pipelines WHERE arn = ?", (arn,))

    def versions(self, key: PipelineKey) -> list[tuple[int, int]]:
        """Returns each version and when it was made, in ms since the epoch; the oldest first."""
        select = "SELECT version, created_ms FROM pipeline_versions WHERE arn = ? ORDER BY version"
        return [(version, created_ms) for version, created_ms in self._rows(select, (key.arn,))]

    def definition(self, key: PipelineKey, version: int) -> str | None:
        """Returns the definition of a version, or None."""
        select = "SELECT definition FROM pipeline_versions WHERE arn = ? AND version = ?"
        rows = self._rows(select, (key.arn, version))
        return rows[0][0] if rows else None


def _keep_version(db: sqlite3.Connection, pipeline: Pipeline, created_ms: int) -> None:
    row = (pipeline.key.arn, pipeline.version, created_ms, pipeline.definition)
    db.execute("INSERT INTO pipeline_versions VALUES (?, ?, ?, ?)", row)


def _encode(pipeline: Pipeline) -> str:
    fields = {name: value for name, value in vars(pipeline).items() if name != "definition"}
    return json.dumps({**fields, "key": vars(pipeline.key)}, separators=(",", ":"))


def _decode(record: str, definition: str) -> Pipeline:
    fields = json.loads(record)
    return Pipeline(**{**fields, "key": PipelineKey(**fields["key"]), "definition": definition})
