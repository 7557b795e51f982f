"""SQL of the model registry: a row for each model, model package and group."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from sagelet_engine.base.errors import RegistryInUse, RegistryNameInUse, RegistryNotFound
from sagelet_engine.model.registry import RegistryEntry, RegistryKey, RegistryKind, RegistryQuery

Rows = Callable[[str, Sequence[Any]], list[Any]]
Write = Callable[[], AbstractContextManager[sqlite3.Connection]]

TABLES = """
    CREATE TABLE registry (
        arn TEXT NOT NULL UNIQUE, account TEXT NOT NULL, region TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
        created_ms INTEGER NOT NULL, group_arn TEXT, approval TEXT, token TEXT NOT NULL, record TEXT NOT NULL
    );
    CREATE INDEX registry_by_creation ON registry (account, region, kind, created_ms, arn);
    CREATE INDEX registry_by_name ON registry (account, region, kind, name, arn);
    CREATE INDEX registry_by_group ON registry (group_arn) WHERE group_arn IS NOT NULL;
    CREATE INDEX registry_by_token ON registry (account, region, kind, token) WHERE token <> '';
    """


class Registry:
    """Rows of the registry. `rows` reads, `write` opens a flushed transaction."""

    def __init__(self, rows: Rows, write: Write) -> None:
        self._rows = rows
        self._write = write

    def insert(self, entry: RegistryEntry) -> RegistryEntry:
        """Makes a new entry durable. One of this kind with the same token is returned in its place.

        Raises RegistryNameInUse.
        """
        with self._write() as db:
            if (before := _of_token(db, entry)) is not None:
                return before
            return _insert(db, entry)

    def insert_version(self, entry: RegistryEntry) -> RegistryEntry:
        """Does the same for a package whose key names a group. The package gets the group's next version.

        No version is given out twice, also if it was deleted. Raises RegistryNotFound.
        """
        with self._write() as db:
            if (before := _of_token(db, entry)) is not None:
                return before
            group = _get(db, replace(entry.key, kind=RegistryKind.GROUP))
            group = replace(group, version=group.version + 1)
            _update(db, group)
            key = replace(entry.key, name=f"{group.key.name}/{group.version}")
            return _insert(db, replace(entry, key=key, version=group.version))

    def change(self, key: RegistryKey, change: Callable[[RegistryEntry], RegistryEntry]) -> RegistryEntry:
        """Replaces an entry by what `change` makes of it, and returns that. Raises RegistryNotFound."""
        with self._write() as db:
            after = change(_get(db, key))
            _update(db, after)
        return after

    def delete(self, key: RegistryKey) -> RegistryEntry:
        """Raises RegistryNotFound, and RegistryInUse for a group with packages."""
        with self._write() as db:
            entry = _get(db, key)
            if db.execute("SELECT 1 FROM registry WHERE group_arn = ? LIMIT 1", (key.arn,)).fetchone():
                raise RegistryInUse(key.arn)
            db.execute("DELETE FROM registry WHERE arn = ?", (key.arn,))
        return entry

    def get(self, key: RegistryKey) -> RegistryEntry:
        """Raises RegistryNotFound."""
        rows = self._rows("SELECT record FROM registry WHERE arn = ?", (key.arn,))
        if not rows:
            raise RegistryNotFound(key.arn)
        return _decode(rows[0][0])

    def page(self, query: RegistryQuery) -> list[RegistryEntry]:
        """Returns at most `limit` entries and, if there are more, one more."""
        column = "name" if query.by_name else "created_ms"
        order, sign = ("ASC", ">") if query.ascending else ("DESC", "<")
        where, values = _where(query)
        if query.after is not None:
            where.append(f"({column}, arn) {sign} (?, ?)")
            values += query.after
        found = f"SELECT record FROM registry WHERE {' AND '.join(where)}"
        rows = self._rows(f"{found} ORDER BY {column} {order}, arn {order} LIMIT ?", (*values, query.limit + 1))
        return [_decode(record) for (record,) in rows]

    def broken_records(self) -> list[tuple[str, str]]:
        """Returns the ARNs of entries whose record cannot be read, and why."""
        found = []
        for arn, record in self._rows("SELECT arn, record FROM registry ORDER BY arn", ()):
            try:
                _decode(record)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                found.append((arn, str(error)))
        return found

    def drop_record(self, arn: str) -> None:
        """Forgets an entry, whatever its record holds."""
        with self._write() as db:
            db.execute("DELETE FROM registry WHERE arn = ?", (arn,))


def _where(query: RegistryQuery) -> tuple[list[str], list[Any]]:
    where = ["account = ?", "region = ?", "kind = ?"]
    values: list[Any] = [query.account, query.region, query.kind.value]
    for condition, value in (
        ("instr(lower(name), lower(?)) > 0", query.name_contains or None),
        ("created_ms > ?", query.created_after_ms),
        ("created_ms < ?", query.created_before_ms),
        ("group_arn = ?", query.group_arn),
        ("approval = ?", query.approval),
    ):
        if value is not None:
            where.append(condition)
            values.append(value)
    if query.versioned is not None:
        where.append(f"group_arn IS {'NOT ' if query.versioned else ''}NULL")
    return where, values


def _of_token(db: sqlite3.Connection, entry: RegistryEntry) -> RegistryEntry | None:
    if not entry.token:
        return None
    key = entry.key
    row = db.execute(
        "SELECT record FROM registry WHERE account = ? AND region = ? AND kind = ? AND token = ? AND token <> ''",
        (key.account, key.region, key.kind.value, entry.token),
    ).fetchone()
    return None if row is None else _decode(row[0])


def _insert(db: sqlite3.Connection, entry: RegistryEntry) -> RegistryEntry:
    key = entry.key
    columns = (key.arn, key.account, key.region, key.kind.value, key.name, entry.created_ms)
    group = None if key.group is None else key.group.arn
    try:
        db.execute(
            "INSERT INTO registry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*columns, group, entry.body.get("ModelApprovalStatus"), entry.token, _encode(entry)),
        )
    except sqlite3.IntegrityError as error:
        raise RegistryNameInUse(key.arn) from error
    return entry


def _update(db: sqlite3.Connection, entry: RegistryEntry) -> None:
    db.execute(
        "UPDATE registry SET record = ?, approval = ? WHERE arn = ?",
        (_encode(entry), entry.body.get("ModelApprovalStatus"), entry.key.arn),
    )


def _get(db: sqlite3.Connection, key: RegistryKey) -> RegistryEntry:
    row = db.execute("SELECT record FROM registry WHERE arn = ?", (key.arn,)).fetchone()
    if row is None:
        raise RegistryNotFound(key.arn)
    return _decode(row[0])


def _encode(entry: RegistryEntry) -> str:
    return json.dumps({**vars(entry), "key": vars(entry.key)}, separators=(",", ":"))


def _decode(record: str) -> RegistryEntry:
    fields = json.loads(record)
    key = fields["key"]
    return RegistryEntry(**{**fields, "key": RegistryKey(**{**key, "kind": RegistryKind(key["kind"])})})
