"""Which schemas of a database are read, and what brings one to the newest."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sagelet_engine.base.database import Database, DatabaseDamaged, Schema, StoreUnavailable, UnknownSchema, schema_of
from sagelet_engine.base.database_damage import damage_of, save
from sagelet_engine.s3 import catalog
from sagelet_engine.s3.catalog import Catalog
from sagelet_engine.store import schema as sql_schema
from sagelet_engine.store.jobs import Store

KINDS = {"sagelet.db": (Store, sql_schema.SCHEMA), ".catalog.db": (Catalog, catalog.SCHEMA)}
FIRST = Schema(7, "CREATE TABLE jobs (id TEXT PRIMARY KEY); INSERT INTO jobs VALUES ('one')")
SECOND = replace(FIRST, migrations=("ALTER TABLE jobs ADD COLUMN note TEXT; UPDATE jobs SET note = 'was ' || id",))
THIRD = replace(SECOND, migrations=(*SECOND.migrations, "CREATE INDEX jobs_by_note ON jobs (note)"))


class Held(Database):
    def rows(self) -> list[tuple[str, ...]]:
        return self._rows("SELECT * FROM jobs")


def opened(path: Path, schema: Schema) -> list[tuple[str, ...]]:
    database = Held(path, schema)
    try:
        return database.rows()
    finally:
        database.close()


def versioned(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {version}")


@pytest.mark.parametrize("name", KINDS)
def test_a_new_file_has_the_newest_schema(name: str, tmp_path: Path) -> None:
    kind, schema = KINDS[name]
    kind(tmp_path / name).close()
    assert schema_of(tmp_path / name) == schema.version
    assert damage_of(tmp_path / name, schema) == []


@pytest.mark.parametrize("name", KINDS)
def test_a_newer_schema_is_refused_with_both_versions(name: str, tmp_path: Path) -> None:
    kind, schema = KINDS[name]
    kind(tmp_path / name).close()
    versioned(tmp_path / name, 99)
    text = rf"{name} has schema 99, this sagelet knows up to {schema.version}: use the newer sagelet, or name another"
    with pytest.raises(UnknownSchema, match=text):
        kind(tmp_path / name)


@pytest.mark.parametrize("name", KINDS)
def test_a_schema_from_before_the_first_release_is_refused_with_the_remedy(name: str, tmp_path: Path) -> None:
    kind, schema = KINDS[name]
    kind(tmp_path / name).close()
    before = (tmp_path / name).read_bytes()
    versioned(tmp_path / name, schema.first - 1)
    text = f"has schema {schema.first - 1}, .* before the first release. Remove the data directory, or name another"
    with pytest.raises(UnknownSchema, match=text):
        kind(tmp_path / name)
    with pytest.raises(UnknownSchema, match=text):
        damage_of(tmp_path / name, schema)
    versioned(tmp_path / name, schema.first)
    assert len((tmp_path / name).read_bytes()) == len(before)


@pytest.mark.parametrize("newer", [SECOND, THIRD])
def test_each_migration_that_a_file_lacks_runs_once(newer: Schema, tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    assert opened(path, FIRST) == [("one",)]
    assert schema_of(path) == 7
    for _ in range(2):
        assert opened(path, newer) == [("one", "was one")]
        assert schema_of(path) == newer.version
        assert damage_of(path, newer) == []
    opened(tmp_path / "new.db", newer)
    assert damage_of(tmp_path / "new.db", newer) == []


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    opened(path, FIRST)
    broken = replace(FIRST, migrations=("CREATE TABLE half (a); CREATE TABLE half (a)",))
    with pytest.raises(StoreUnavailable, match="half"):
        opened(path, broken)
    assert (opened(path, FIRST), schema_of(path)) == ([("one",)], 7)


def test_a_file_of_an_earlier_version_is_compared_with_that_version(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    opened(path, FIRST)
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE jobs_by_hand (a)")
    with pytest.raises(DatabaseDamaged, match="jobs_by_hand"):
        opened(path, SECOND)
    assert damage_of(path, SECOND) == ["it has a table 'jobs_by_hand', which is not sagelet's"]


def test_what_is_saved_of_a_damaged_file_has_its_version(tmp_path: Path) -> None:
    opened(tmp_path / "some.db", FIRST)
    assert save(tmp_path / "some.db", tmp_path / "saved.db", SECOND).rows == {"jobs": 1}
    assert schema_of(tmp_path / "saved.db") == 7
    assert opened(tmp_path / "saved.db", SECOND) == [("one", "was one")]
