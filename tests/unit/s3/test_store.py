"""The store as jobs use it, and what an import takes from a directory."""

import hashlib
import os
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from sagelet_engine.model.objects import ObjectInfo, ObjectNotFound, ObjectStore
from sagelet_engine.model.principal import allow_all, owner
from sagelet_engine.s3.errors import DamagedObject, NoSuchBucket
from sagelet_engine.s3.importing import LINKED, SHARED, UnfitName, import_directory
from sagelet_engine.s3.job_objects import JobObjectStore
from sagelet_engine.s3.store import S3Store

ME, OTHER = owner("123456789012"), owner("111122223333")


@pytest.fixture
def objects(store: S3Store) -> JobObjectStore:
    return JobObjectStore(store, allow_all)


def put(objects: JobObjectStore, key: str, data: bytes) -> None:
    with objects.create(ME, "bucket", key) as out:
        out.write(data)


def test_files_become_objects_and_objects_files(objects: JobObjectStore, tmp_path: Path) -> None:
    port: ObjectStore = objects
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"0123456789" * 500_000)
    port.upload(ME, source, "bucket", "out/model.tar.gz")
    etag = hashlib.md5(source.read_bytes()).hexdigest()
    (found,) = port.list(ME, "bucket", "out/")
    assert found == ObjectInfo("out/model.tar.gz", 5_000_000, etag, found.modified_ms)
    assert found.modified_ms > 0
    port.download(ME, "bucket", "out/model.tar.gz", target)
    assert target.read_bytes() == source.read_bytes()
    target.write_bytes(b"a copy of its own")
    assert target.stat().st_mode & 0o200
    port.delete(ME, "bucket", "out/model.tar.gz")
    port.delete(ME, "bucket", "out/model.tar.gz")
    with pytest.raises(ObjectNotFound):
        port.download(ME, "bucket", "out/model.tar.gz", target)


def test_a_link_costs_nothing_and_keeps_the_object_it_was_made_of(objects: JobObjectStore, tmp_path: Path) -> None:
    put(objects, "k", b"old")
    objects.link(ME, "bucket", "k", tmp_path / "link")
    assert (tmp_path / "link").stat().st_nlink == 2
    put(objects, "k", b"new")
    assert (tmp_path / "link").read_bytes() == b"old"
    objects.delete(ME, "bucket", "k")
    assert (tmp_path / "link").read_bytes() == b"old"


def test_what_fails_half_way_is_no_object(objects: JobObjectStore, store: S3Store) -> None:
    def fail() -> None:
        with objects.create(ME, "bucket", "k") as out:
            out.write(b"x" * 5_000_000)
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half"):
        fail()
    assert list(objects.list(ME, "bucket", "")) == []
    assert store.files.staged_ids() == []


def test_buckets_of_others_do_not_exist(objects: JobObjectStore, tmp_path: Path) -> None:
    put(objects, "k", b"")
    assert objects.has_bucket(ME, "bucket")
    for who, bucket in ((OTHER, "bucket"), (ME, "none")):
        assert not objects.has_bucket(who, bucket)
        with pytest.raises(ObjectNotFound):
            list(objects.list(who, bucket, ""))
        with pytest.raises(ObjectNotFound):
            objects.download(who, bucket, "k", tmp_path / "f")
        with pytest.raises(ObjectNotFound), objects.create(who, bucket, "k") as out:
            out.write(b"")
        objects.delete(who, bucket, "k")
    assert len(list(objects.list(ME, "bucket", ""))) == 1


def test_listing_is_whole_and_in_order_beyond_a_page(objects: JobObjectStore, store: S3Store) -> None:
    import_files = [f"{number:04}" for number in range(2500)]
    with store.stage() as staged:
        staged.write(b"x")
        first = store.put("bucket", "p/0000", staged)
    rows = [
        type(first)("bucket", f"p/{name}", f"f{name}", f"bucket/p/{name}", 1, first.etag, 0)
        for name in import_files[1:]
    ]
    store.catalog.put_all(rows)
    found = [info.key for info in objects.list(ME, "bucket", "p/")]
    assert found == [f"p/{name}" for name in import_files]


def test_readers_and_writers_at_once_see_whole_objects(objects: JobObjectStore, store: S3Store) -> None:
    contents = [bytes([number]) * (50_000 + number) for number in range(4)]
    put(objects, "k", contents[0])
    over = threading.Event()
    broken: list[int] = []

    def look() -> None:
        while not over.is_set():
            stored, data = store.open("bucket", "k")
            with data:
                content = data.read()
            if hashlib.md5(content).hexdigest() != stored.etag:
                broken.append(len(content))

    readers = [threading.Thread(target=look) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(60):
        put(objects, "k", contents[number % 4])
    over.set()
    for reader in readers:
        reader.join()
    assert broken == []


def test_an_import_copies_nothing(store: S3Store, objects: JobObjectStore, tmp_path: Path) -> None:
    source = tmp_path / "data"
    (source / "deep").mkdir(parents=True)
    (source / "a").write_bytes(b"aa")
    (source / "deep/b").write_bytes(b"b" * 3_000_000)
    (source / "link").symlink_to("a")
    done = list(import_directory(store, source, "bucket", "train"))
    assert [(one.key, one.size) for one in done] == [("train/a", 2), ("train/deep/b", 3_000_000)]
    assert {one.how for one in done} <= {LINKED, SHARED}
    etags = [info.etag for info in objects.list(ME, "bucket", "train/")]
    assert etags == [hashlib.md5(data).hexdigest() for data in (b"aa", b"b" * 3_000_000)]
    assert store.files.staged_ids() == []
    if done[0].how == LINKED:
        (source / "a").write_bytes(b"AA")
        os.utime(source / "a", ns=(1, 1))
        with pytest.raises(DamagedObject, match="changed by another program"):
            store.open("bucket", "train/a")


def test_an_import_that_copies(store: S3Store, tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.mkdir()
    (source / "a").write_bytes(b"aa")
    (one,) = import_directory(store, source, "bucket", "", copy=True)
    (source / "a").write_bytes(b"changed")
    _, data = store.open("bucket", one.key)
    with data:
        assert data.read() == b"aa"


def test_imports_that_are_refused(store: S3Store, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a").write_bytes(b"a")
    with pytest.raises(NoSuchBucket):
        list(import_directory(store, tmp_path / "data", "none", ""))
    with pytest.raises(UnfitName, match="1024"):
        list(import_directory(store, tmp_path / "data", "bucket", "p" * 1024))
    odd = os.fsencode(tmp_path / "data") + b"/\xff"
    with open(odd, "wb"):
        pass
    with pytest.raises(UnfitName, match="not UTF-8"):
        list(import_directory(store, tmp_path / "data", "bucket", ""))
    assert store.files.staged_ids() == []


# --- batches ----------------------------------------------------------------------------------------------------------


def fill(objects: JobObjectStore, count: int) -> None:
    with objects.batch(ME, "bucket") as batch:
        for number in range(count):
            with batch.create(f"many/{number:04}") as out:
                out.write(b"%d" % number)


def test_many_objects_take_one_flush_and_one_transaction(
    objects: JobObjectStore, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes, commits = [], []
    monkeypatch.setattr("sagelet_engine.s3.staged.os.fsync", flushes.append)
    put_all = store.catalog.put_all
    monkeypatch.setattr(store.catalog, "put_all", lambda rows: (commits.append(1), put_all(rows))[1])
    fill(objects, 500)
    assert (flushes, len(commits)) == ([], 1)
    found = [*objects.list(ME, "bucket", "many/")]
    assert [one.key for one in found] == [f"many/{number:04}" for number in range(500)]
    assert {one.etag for one in found[7:8]} == {hashlib.md5(b"7").hexdigest()}
    _, data = store.open("bucket", "many/0499")
    with data:
        assert data.read() == b"499"
    assert store.files.staged_ids() == []


def test_few_are_flushed_one_by_one(objects: JobObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush of the whole file system waits for what others write."""
    flushes: list[int] = []
    monkeypatch.setattr("sagelet_engine.s3.staged.os.fsync", flushes.append)
    fill(objects, 3)
    assert len(flushes) == 3


def write_and_fail(out: BinaryIO) -> None:
    out.write(b"half")
    raise RuntimeError


def test_a_batch_that_fails_leaves_nothing(objects: JobObjectStore, store: S3Store) -> None:
    def fail() -> None:
        with objects.batch(ME, "bucket") as batch:
            with batch.create("a") as out:
                out.write(b"1")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert [*objects.list(ME, "bucket", "")] == []
    assert store.files.staged_ids() == []


def test_one_of_a_batch_that_fails_is_not_among_it(objects: JobObjectStore, store: S3Store) -> None:
    with objects.batch(ME, "bucket") as batch:
        with batch.create("a") as out:
            out.write(b"1")
        with pytest.raises(RuntimeError), batch.create("b") as out:
            write_and_fail(out)
    assert [one.key for one in objects.list(ME, "bucket", "")] == ["a"]
    assert store.files.staged_ids() == []


def test_names_of_a_batch_that_are_in_each_others_way(objects: JobObjectStore, store: S3Store) -> None:
    """`a` is a file, so `a/b` cannot lie in it; both are whole, in either order, and again."""
    for keys in (("a", "a/b", "a/b/c"), ("x/y/z", "x/y", "x")):
        for turn in (b"1", b"2"):
            with objects.batch(ME, "bucket") as batch:
                for key in keys:
                    with batch.create(key) as out:
                        out.write(turn + key.encode())
            for key in keys:
                _, data = store.open("bucket", key)
                with data:
                    assert data.read() == turn + key.encode()
    assert store.files.staged_ids() == []


def test_a_batch_that_has_one_key_twice(objects: JobObjectStore, store: S3Store) -> None:
    with objects.batch(ME, "bucket") as batch:
        for data in (b"1", b"2"):
            with batch.create("a") as out:
                out.write(data)
    _, opened = store.open("bucket", "a")
    with opened:
        assert opened.read() == b"2"
    assert store.files.staged_ids() == []


def test_a_batch_into_no_bucket(objects: JobObjectStore) -> None:
    with pytest.raises(ObjectNotFound), objects.batch(ME, "nobodys"):
        pass
