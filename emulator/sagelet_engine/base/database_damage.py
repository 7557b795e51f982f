"""Finds what is wrong with a database, and saves what can be saved. Its statements are made from the schema."""

import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sagelet_engine.base.database import Schema, StoreUnavailable, connect, foreign_schema, opened
from sagelet_engine.base.held_files import first_bytes

#: How many of SQLite's own findings are reported.
_MOST = 10
_HEADER = b"SQLite format 3\0"


def damage_of(path: Path, schema: Schema, *, quick: bool = False) -> list[str]:
    """Returns all that is wrong with a database's file, in words. `quick`: without the indexes' content and foreign
    keys.

    Raises UnknownSchema.
    """
    if not has_header(path):
        return ["file is not a database"]
    try:
        with opened(path) as db:
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
            schema.check(path, version)
            # This comes first, because SQLite's check evaluates the expressions of indexes.
            if (foreign := foreign_schema(db, schema.until(version))) is not None:
                return [foreign]
            kind = "quick_check" if quick else "integrity_check"
            found = [str(row[0]) for row in db.execute(f"PRAGMA {kind}({_MOST})")]
            found = [] if found == ["ok"] else found
            if not quick:
                found += [
                    f"a row of {table} refers to a row of {parent} that does not exist"
                    for table, _, parent, _ in db.execute("PRAGMA foreign_key_check").fetchmany(_MOST)
                ]
            return [" ".join(one.split()) for one in found]
    except StoreUnavailable as error:
        return [str(error.__cause__ or error)]
    except sqlite3.Error as error:
        return [str(error)]


def has_header(path: Path) -> bool:
    """True if a file begins as SQLite's do. A log beside the file may hide for a while that it does not."""
    return first_bytes(path, len(_HEADER)) == _HEADER


@dataclass
class Saved:
    """The rows that were saved from a damaged database."""

    #: Rows by table.
    rows: dict[str, int] = field(default_factory=dict)
    #: Tables that could not be read to their end.
    cut: list[str] = field(default_factory=list)


def save(source: Path, target: Path, schema: Schema) -> Saved:
    """Makes a new database with our own schema of all rows that can be read. Nothing is written to `source`."""
    saved = Saved()
    with closing(sqlite3.connect(target, isolation_level=None)) as new:
        version = _version(source, schema)
        for script in schema.until(version):
            new.executescript(script)
        new.execute(f"PRAGMA user_version = {version}")
        triggers = new.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            new.execute(f'DROP TRIGGER "{name}"')
        new.execute("BEGIN")
        with suppress(sqlite3.Error), closing(connect(source)) as old:
            for (table,) in new.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
            ).fetchall():
                _copy(old, new, table, saved)
        _drop_dangling(new)
        new.execute("COMMIT")
        for _, sql in triggers:
            new.execute(sql)
        saved.rows = {table: new.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0] for table in saved.rows}
    return saved


def _version(source: Path, schema: Schema) -> int:
    with suppress(sqlite3.Error), closing(connect(source)) as old:
        version = int(old.execute("PRAGMA user_version").fetchone()[0])
        return version if schema.first <= version <= schema.version else schema.version
    return schema.version


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, table: str, saved: Saved) -> None:
    """Copies rows from the first one up to the first unreadable one, and from the last one back to the last unreadable
    one.
    """
    columns = [row[1] for row in new.execute(f'PRAGMA table_info("{table}")')]
    keys = [row[1] for row in sorted(new.execute(f'PRAGMA table_info("{table}")'), key=lambda row: row[5]) if row[5]]
    without = "WITHOUT ROWID" in new.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    names = ", ".join(f'"{name}"' for name in columns)
    saved.rows[table] = 0
    for direction in ("ASC", "DESC"):
        order = ", ".join(f'"{name}" {direction}' for name in keys) if without else f"rowid {direction}"
        try:
            # A view of this name would run its own statements.
            kind = old.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchone()
            if kind is None or kind[0] != "table":
                break
            for row in old.execute(f'SELECT {names} FROM "{table}" ORDER BY {order}'):
                marks = ", ".join("?" * len(columns))
                with suppress(sqlite3.IntegrityError):
                    new.execute(f'INSERT OR IGNORE INTO "{table}" ({names}) VALUES ({marks})', row)
            return
        except sqlite3.Error:
            continue
    saved.cut.append(table)


def _drop_dangling(new: sqlite3.Connection) -> None:
    """Removes rows that belong to rows which could not be saved."""
    for (table,) in new.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for _, _, parent, column, theirs, *_ in new.execute(f'PRAGMA foreign_key_list("{table}")').fetchall():
            new.execute(
                f'DELETE FROM "{table}" WHERE "{column}" IS NOT NULL AND "{column}" NOT IN'
                f' (SELECT "{theirs}" FROM "{parent}")'
            )
