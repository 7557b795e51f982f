"""What every schema version wrote is read by today's code; `tests/data/schemas/record.py` made them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sagelet_engine.base.database import NewerSchema, schema_of
from sagelet_engine.model.job import JobKey, JobStatus, SecondaryStatus
from sagelet_engine.model.listing import JobQuery, ListedJob, SortBy
from sagelet_engine.model.search import Condition, Group, JobSearch, Kind, Operator, Property
from sagelet_engine.s3 import catalog as s3_catalog
from sagelet_engine.s3.catalog import Catalog
from sagelet_engine.store.jobs import Store
from sagelet_engine.store.schema import MIGRATIONS

SCHEMAS = Path(__file__).parents[2] / "data" / "schemas"
ACCOUNTS = {"123456789012": "us-east-1", "210987654321": "eu-west-1"}
T0 = 1_700_000_000_000


def recorded(name: str) -> list[Path]:
    return sorted(SCHEMAS.glob(f"{name}-*.sql"))


def restored(script: Path, path: Path) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(script.read_text(encoding="utf-8"))
    return path


def tables(path: Path) -> set[tuple[str, ...]]:
    """Names and definitions of all that a database has, without the spaces."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
        return {tuple("".join(str(cell).split()) for cell in row) for row in rows}


def test_there_is_a_recording_of_every_version() -> None:
    wanted = {
        f"{name}-{version}.sql"
        for name, migrations in (("catalog", s3_catalog.MIGRATIONS), ("sagelet", MIGRATIONS))
        for version in range(1, len(migrations) + 1)
    }
    found = {path.name for path in SCHEMAS.glob("*.sql")}
    assert found == wanted, "run `python tests/data/schemas/record.py` after the migration is in"


@pytest.mark.parametrize("script", recorded("sagelet"), ids=lambda path: path.stem)
def test_jobs_of_every_version(script: Path, tmp_path: Path) -> None:
    path = restored(script, tmp_path / "sagelet.db")
    store = Store(path)
    for account, region in ACCOUNTS.items():
        query = JobQuery(account, region, sort_by=SortBy.NAME, ascending=True, limit=10)
        jobs = store.page(query).jobs
        # The columns that a list shows were filled from the records.
        shown = [tuple(getattr(job, name, None) for name in ListedJob._fields) for job in jobs]
        assert store.listing(query).jobs == shown
        assert [(job.key.name, job.status, job.secondary, job.tags) for job in jobs] == [
            ("done", JobStatus.COMPLETED, SecondaryStatus.COMPLETED, {"k": "done"}),
            ("trains", JobStatus.IN_PROGRESS, SecondaryStatus.TRAINING, {"k": "trains"}),
            ("waits", JobStatus.IN_PROGRESS, SecondaryStatus.STARTING, {"k": "waits"}),
        ]
        done = jobs[0]
        assert done.request["HyperParameters"]["text"] == '"x y" \u00fc'
        parameter = Property((("HyperParameters",),), Kind.PARAMETER, key="text")
        same = Group((Condition(parameter, Operator.EQUALS, '"x y" \u00fc'),))
        assert store.search(JobSearch(account, region, same)).total == 3
        assert [entry.start_ms - T0 for entry in done.transitions] == [0, 10_000, 20_000, 30_000, 40_000]
        assert (done.attempt, done.training_start_ms, done.training_end_ms) == (1, T0 + 10_000, T0 + 40_000)
        assert [(point.name, point.value) for point in store.last_points(done.id)] == [("loss", 0.5)]
        stream = store.stream(account, region, "done/algo-1-1700000010")
        assert stream is not None
        events = store.events(stream.id, start_ms=0, end_ms=2**60, limit=10)
        assert [event.text for event in events] == ["first line", "loss: 0.5 \u00fc \U0001f600", ""]
    assert {job.key.name for job in store.unfinished()} == {"trains", "waits"}
    # It goes on from there: a record can be written, a stream is found again.
    trains = store.get(JobKey("123456789012", "us-east-1", "trains"))
    assert store.open_stream(trains, "algo-1", "another", T0).name == "trains/algo-1-1700000010"
    assert store.update(trains).version == trains.version + 1
    store.delete(done)
    store.close()
    Store(tmp_path / "fresh.db").close()
    assert schema_of(path) == len(MIGRATIONS)
    assert tables(path) == tables(tmp_path / "fresh.db")


@pytest.mark.parametrize("script", recorded("catalog"), ids=lambda path: path.stem)
def test_objects_of_every_version(script: Path, tmp_path: Path) -> None:
    path = restored(script, tmp_path / ".catalog.db")
    catalog = Catalog(path)
    for account, region in ACCOUNTS.items():
        (bucket,) = catalog.buckets(account)
        tags = {"": {"TagSet": [{"Key": "k", "Value": "\u00fc"}]}} if script.stem >= "catalog-3" else {}
        assert catalog.configuration(bucket.name, "tagging") == tags
        assert (bucket.name, bucket.region) == (f"bucket-{account}", region)
        objects = catalog.under(bucket.name, "", b"", inclusive=True, limit=10)
        assert [stored.key for stored in objects] == ["a", "a/b", "d//\0\u00fc"]
        assert objects[0].etag == "0cc175b9c0f1b6a831c399e269772661"
        assert (objects[0].checksums, objects[0].tags) == ({"CRC32": "6Le+Qw=="}, {"t": "a"})
        assert objects[0].attributes == {"ContentType": "text/plain", "Metadata": {"m": "1"}}
        (upload,) = catalog.uploads(bucket.name)
        assert [(part.number, part.size) for part in catalog.parts(upload)] == [(1, 4)]
    catalog.close()
    Catalog(tmp_path / "fresh.db").close()
    assert schema_of(path) == len(s3_catalog.MIGRATIONS)
    assert tables(path) == tables(tmp_path / "fresh.db")


@pytest.mark.parametrize("kind", [Store, Catalog])
def test_a_newer_schema_is_refused_with_both_versions(kind: type[Store] | type[Catalog], tmp_path: Path) -> None:
    kind(tmp_path / "some.db").close()
    known = schema_of(tmp_path / "some.db")
    with closing(sqlite3.connect(tmp_path / "some.db")) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(NewerSchema, match=rf"some\.db has schema 99, this sagelet knows up to {known}: use the newer"):
        kind(tmp_path / "some.db")
