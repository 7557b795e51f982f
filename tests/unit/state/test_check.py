"""`sagelet check`: each kind of damage is found and named with its remedy, and mended where that is safe."""

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.errors import DataDirectoryInUse
from sagelet_engine.s3.catalog import Catalog
from sagelet_engine.s3.store import S3Store
from sagelet_engine.state.checking.check import check_data
from sagelet_engine.state.checking.report import Report
from sagelet_engine.state.contents import NoDataDirectory
from sagelet_engine.state.owner import lock_directory
from sagelet_engine.store.jobs import Store
from support.data_directory import KEYS, add_linked, add_uploads, contents, fill

BUCKET = "one-123456789012"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    fill(tmp_path / "data")
    add_uploads(tmp_path / "data", BUCKET)
    lock_directory(tmp_path / "data").close()
    return tmp_path / "data"


def check(data: Path, *, repair: bool = False) -> Report:
    return check_data(data, "999999999999", "eu-north-1", repair=repair)


def texts(report: Report) -> list[str]:
    return [found.what for found in report.findings]


def rot(path: Path, at: int = 0) -> None:
    """One bit of a file is another one; size and time are as they were."""
    status = path.stat()
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def scribble(path: Path) -> None:
    """Over all pages but the first."""
    with path.open("r+b") as file:
        size = path.stat().st_size
        for at in range(4096, size, 4096):
            file.seek(at)
            file.write(b"\xff" * 2048)


def set_aside(data: Path) -> list[str]:
    root = next(data.glob("set-aside-*"), None)
    return (
        [] if root is None else sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    )


def keys_of(data: Path, bucket: str) -> set[str]:
    catalog = Catalog(data / "s3" / ".catalog.db")
    try:
        return {stored.key for stored in catalog.every_object() if stored.bucket == bucket}
    finally:
        catalog.close()


def test_a_sound_directory_is_sound_and_is_left_as_it_is(data: Path) -> None:
    before = contents(data)
    report = check(data, repair=True)
    assert report.findings == []
    # Two buckets of objects, and one of two parts; a job of each account.
    assert (report.objects, report.jobs, report.sound) == (2 * len(KEYS) + 1, 2, True)
    assert contents(data) == before
    assert set_aside(data) == []


def test_who_serves_a_directory_keeps_it(data: Path, tmp_path: Path) -> None:
    lock = lock_directory(data)
    with pytest.raises(DataDirectoryInUse):
        check(data)
    lock.close()
    (tmp_path / "other").mkdir(mode=0o700)
    with pytest.raises(NoDataDirectory):
        check(tmp_path / "other")


@pytest.mark.parametrize("name", ["a/b", "parts"])
def test_a_rotten_byte_is_found_and_its_object_taken_away(data: Path, name: str) -> None:
    """Also in an object of several parts, whose ETag is of its parts."""
    path = next((data / "s3").glob(f".escaped/{BUCKET}/a%2Fb")) if name == "a/b" else data / "s3" / BUCKET / name
    rot(path)
    report = check(data)
    assert texts(report) == [f"s3://{BUCKET}/{name}: its bytes are not those that were put: their checksum differs"]
    assert (report.sound, report.findings[0].remedy) == (False, "put it again, or delete it")
    mended = check(data, repair=True)
    assert mended.sound
    assert [Path(one).name for one in set_aside(data)] == [path.name]
    assert name not in keys_of(data, BUCKET)
    assert check(data).findings == []


def test_missing_and_cut_files_are_found(data: Path) -> None:
    root = data / "s3" / BUCKET
    (root / "a").unlink()
    with (root / "A").open("ab") as file:
        file.write(b"more")
    found = texts(check(data))
    assert f"s3://{BUCKET}/a: its file {BUCKET}/a is missing" in found
    assert any(re.search(r"has \d+ of \d+ bytes", one) for one in found)
    assert check(data, repair=True).sound
    assert keys_of(data, BUCKET) == {*KEYS, "parts"} - {"a", "A"}


def test_a_file_in_another_place_is_taken_back(data: Path) -> None:
    (data / "s3" / ".escaped" / BUCKET / "a%2Fb").rename(data / "s3" / ".escaped" / BUCKET / "moved")
    (data / "s3" / ".escaped" / BUCKET / "moved").rename(data / "s3" / ".escaped" / BUCKET / "a%2fb")
    assert check(data, repair=True).sound
    assert "a/b" in keys_of(data, BUCKET)
    assert check(data).findings == []


def test_others_files_are_left_alone(data: Path) -> None:
    (data / "s3" / BUCKET / "mine.txt").write_text("mine")
    report = check(data, repair=True)
    assert (report.sound, [one.damage for one in report.findings]) == (True, [False])
    assert (data / "s3" / BUCKET / "mine.txt").read_text() == "mine"


def test_a_linked_file_that_was_changed_is_found(data: Path, tmp_path: Path) -> None:
    add_linked(data, BUCKET, tmp_path / "source")
    (tmp_path / "source" / "linked").write_bytes(b"of the uses's")
    assert any("was changed" in one or "checksum" in one for one in texts(check(data)))
    assert check(data, repair=True).sound
    assert (tmp_path / "source" / "linked").read_bytes() == b"of the uses's"


def test_leftovers_of_a_kill_are_named_and_removed(data: Path) -> None:
    (data / "s3" / ".staged" / ("f" * 32)).write_bytes(b"half")
    report = check(data)
    assert (report.sound, len(report.findings)) == (True, 1)
    assert check(data, repair=True).sound
    assert not (data / "s3" / ".staged" / ("f" * 32)).exists()


def test_an_upload_without_its_parts_is_aborted(data: Path) -> None:
    for path in (data / "s3" / ".staged").iterdir():
        path.unlink()
    assert any("parts of the multipart upload" in one for one in texts(check(data)))
    assert check(data, repair=True).sound
    assert check(data).findings == []


def test_directories_of_jobs_that_are_not_known(data: Path) -> None:
    stray = data / "jobs" / "123456789012" / "us-east-1" / ("e" * 32) / "algo-1"
    stray.mkdir(parents=True)
    (stray / "weights").write_bytes(b"w")
    assert any("is not in" in one for one in texts(check(data)))
    assert check(data, repair=True).sound
    assert [Path(one).name for one in set_aside(data)] == ["weights"]
    assert check(data).findings == []


def test_a_record_that_cannot_be_read(data: Path) -> None:
    with closing(sqlite3.connect(data / "sagelet.db")) as db, db:
        db.execute("UPDATE jobs SET record = json_set(record, '$.status', 'Odd') WHERE account = '123456789012'")
    report = check(data)
    assert any("cannot be read" in one for one in texts(report))
    assert not report.sound
    assert check(data, repair=True).sound
    assert "sagelet.db" in set_aside(data)
    store = Store(data / "sagelet.db")
    assert len(store.job_places()) == 1
    store.close()


@pytest.mark.parametrize(
    ("name", "sql", "kind"),
    [
        ("sagelet.db", "CREATE TRIGGER evil AFTER INSERT ON jobs BEGIN DELETE FROM tags; END", "trigger 'evil'"),
        ("sagelet.db", "CREATE VIEW evil AS SELECT 1", "view 'evil'"),
        ("s3/.catalog.db", "CREATE VIRTUAL TABLE evil USING fts5(a)", "table 'evil"),
        ("s3/.catalog.db", "CREATE INDEX evil ON objects (abs(size))", "index 'evil'"),
        ("s3/.catalog.db", "DROP INDEX uploads_by_key", "index 'uploads_by_key' is missing"),
    ],
)
def test_a_schema_that_is_not_ours(data: Path, name: str, sql: str, kind: str) -> None:
    before = contents(data)
    with closing(sqlite3.connect(data / name)) as db, db:
        db.execute(sql)
    assert kind in "".join(texts(check(data)))
    assert check(data, repair=True).sound
    # All rows are there, in a database of our own schema; the other one is kept.
    assert contents(data) == before
    assert name in set_aside(data)


@pytest.mark.parametrize("name", ["sagelet.db", "s3/.catalog.db"])
def test_what_can_be_read_of_a_damaged_database_is_saved(data: Path, name: str) -> None:
    scribble(data / name)
    report = check(data)
    assert f"{data / name}: " in texts(report)[0]
    assert not report.sound
    assert check(data, repair=True).sound
    assert name in set_aside(data)
    assert check(data).sound


@pytest.mark.parametrize("how", ["missing", "empty", "garbage"])
def test_a_lost_catalogue_is_made_anew_of_the_files(data: Path, how: str) -> None:
    path = data / "s3" / ".catalog.db"
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(b"" if how == "empty" else b"no database at all" * 500)
    for beside in (data / "s3").glob(".catalog.db-*"):
        beside.unlink()
    assert not check(data).sound
    report = check(data, repair=True)
    assert report.sound, report.findings
    assert (report.objects, report.jobs) == (2 * len(KEYS) + 1, 2)
    objects = S3Store(data / "s3", SystemClock())
    for account in ("123456789012", "210987654321"):
        for key in KEYS:
            stored, opened = objects.open(f"one-{account}", key)
            with opened:
                assert opened.read() == f"one {account} {key}".encode()
            assert stored.attributes == {"ContentType": "binary/octet-stream"}
    # No job and no name says whose the buckets are.
    assert objects.catalog.bucket(BUCKET).account == "999999999999"
    objects.close()
    assert check(data).findings == []


def test_jobs_and_names_tell_whose_a_bucket_is(data: Path) -> None:
    (data / "s3" / "sagemaker-eu-west-2-111122223333").mkdir()
    (data / "s3" / "sagemaker-eu-west-2-111122223333" / "k").write_bytes(b"x")
    (data / "s3" / "out").mkdir()
    (data / "s3" / "out" / "k").write_bytes(b"x")
    (data / "s3" / ".catalog.db").unlink()
    check(data, repair=True)
    catalog = Catalog(data / "s3" / ".catalog.db")
    assert (catalog.bucket("sagemaker-eu-west-2-111122223333").account) == "111122223333"
    assert (catalog.bucket("sagemaker-eu-west-2-111122223333").region) == "eu-west-2"
    # support.world.request writes to it.
    assert catalog.bucket("out").account in ("123456789012", "210987654321")
    catalog.close()


def test_a_lost_database_of_jobs_keeps_their_files(data: Path) -> None:
    for path in data.glob("sagelet.db*"):
        path.unlink()
    assert any("sagelet.db is missing" in one for one in texts(check(data)))
    report = check(data, repair=True)
    assert report.sound
    assert [Path(one).name for one in set_aside(data)].count("weights") == 2
    assert check(data).findings == []
