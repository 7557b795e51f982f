"""Puts of several threads that share a flush: each is as whole, and as much refused, as if it were alone."""

import errno
import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from sagelet_engine.base.database import Flusher, NotFlushed, StoreUnavailable
from sagelet_engine.s3.errors import NoSuchBucket
from sagelet_engine.s3.group_commit import Check
from sagelet_engine.s3.records import StoredObject
from sagelet_engine.s3.store import S3Store, anything
from support.server import until


class Refused(Exception):
    """The object is there already."""


def if_none(current: StoredObject | None) -> None:
    if current is not None:
        raise Refused


class Group:
    """Puts that come while the flush of another one is under way."""

    def __init__(self, store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(16)
        self._free = threading.Event()
        self.flushes = 0
        #: What the second flush raises.
        self.error: OSError | None = None
        work = Flusher._sync

        def sync(flusher: Flusher) -> None:
            self.flushes += 1
            if self.flushes == 1:
                assert self._free.wait(120)
            elif self.error is not None:
                raise self.error
            work(flusher)

        monkeypatch.setattr(Flusher, "_sync", sync)
        self._first = self._threads.submit(self._put, "bucket", "first", b"first", anything)
        until(lambda: self.flushes == 1)

    def put(self, *puts: tuple[str, bytes], check: Check = anything, bucket: str = "bucket") -> Sequence[Future[str]]:
        """Puts objects, one after another into the queue."""
        made = []
        for key, data in puts:
            count = len(self._store._commits._waiting)
            made.append(self._threads.submit(self._put, bucket, key, data, check))
            until(lambda count=count: len(self._store._commits._waiting) > count)
        return made

    def go(self) -> None:
        self._free.set()
        self._threads.shutdown()
        self._first.result()

    def _put(self, bucket: str, key: str, data: bytes, check: Check) -> str:
        with self._store.stage() as staged:
            staged.write(data)
            return self._store.put(bucket, key, staged, check=check).etag


@pytest.fixture
def group(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    made = Group(store, monkeypatch)
    yield made
    made.go()


def read(store: S3Store, key: str) -> bytes:
    stored, data = store.open("bucket", key)
    with data:
        content = data.read()
    assert len(content) == stored.size
    return content


def test_they_share_one_flush(store: S3Store, group: Group) -> None:
    puts = group.put(*((f"k/{number}", b"%d" % number) for number in range(8)))
    assert not any(one.done() for one in puts)
    group.go()
    assert group.flushes == 2
    assert [read(store, f"k/{number}") for number in range(8)] == [b"%d" % number for number in range(8)]
    assert store.files.staged_ids() == []


def test_the_last_of_one_key_stays(store: S3Store, group: Group) -> None:
    puts = group.put(("k", b"one"), ("k", b"two"), ("k", b"three"))
    group.go()
    assert read(store, "k") == b"three"
    assert store.head("bucket", "k").etag == puts[2].result()
    assert len({one.result() for one in puts}) == 3
    assert store.files.staged_ids() == []


def test_one_sees_what_came_before_it_in_the_group(store: S3Store, group: Group) -> None:
    puts = [*group.put(("k", b"one"), check=if_none), *group.put(("k", b"two"), ("l", b"l"), check=if_none)]
    group.go()
    assert isinstance(puts[1].exception(), Refused)
    assert (puts[0].exception(), puts[2].exception()) == (None, None)
    assert (read(store, "k"), read(store, "l")) == (b"one", b"l")
    assert store.files.staged_ids() == []


def test_names_in_each_others_way(store: S3Store, group: Group) -> None:
    """`a` is a file, so `a/b` cannot lie in it."""
    keys = ("a", "a/b", "a/b/c", "x/y", "x")
    group.put(*((key, key.encode()) for key in keys))
    group.go()
    assert [read(store, key) for key in keys] == [key.encode() for key in keys]
    assert store.files.staged_ids() == []


def test_one_that_fails_stops_no_other(store: S3Store, group: Group) -> None:
    (gone,) = group.put(("k", b"k"), bucket="gone")
    (there,) = group.put(("k", b"k"))
    group.go()
    assert isinstance(gone.exception(), NoSuchBucket)
    assert there.exception() is None
    assert read(store, "k") == b"k"


def test_nobody_is_told_of_rows_that_were_not_flushed(store: S3Store, group: Group) -> None:
    group.error = OSError(errno.EIO, os.strerror(errno.EIO))
    puts = group.put(("k", b"k"), ("l", b"l"))
    group.go()
    assert [type(one.exception()) for one in puts] == [NotFlushed, NotFlushed]
    # The rows are visible, and have their own bytes.
    assert (read(store, "k"), read(store, "l")) == (b"k", b"l")


def test_a_directory_that_was_replaced_refuses_all(
    store: S3Store, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise StoreUnavailable("the directory was replaced")

    puts = group.put(("k", b"k"), ("l", b"l"))
    monkeypatch.setattr(store, "_check_place", refuse)
    group.go()
    assert [type(one.exception()) for one in puts] == [StoreUnavailable, StoreUnavailable]
    assert store.catalog.find("bucket", "k") is None
    assert store.files.staged_ids() == []


def test_an_accounts_buckets_go_whatever_still_writes_into_them(store: S3Store) -> None:
    def finds_it_gone(number: int, deleted: threading.Event) -> bool:
        for count in itertools.count():
            is_last = deleted.is_set()
            try:
                with store.stage() as staged:
                    staged.write(b"1")
                    store.put("bucket", f"{number}/{count}", staged)
            except NoSuchBucket:
                return True
            if is_last:
                break
        return False

    with ThreadPoolExecutor(4) as writers:
        for _ in range(10):
            deleted = threading.Event()
            writing = [writers.submit(finds_it_gone, number, deleted) for number in range(4)]
            try:
                until(lambda: len(store.catalog.under("bucket", "", b"", inclusive=True, limit=20)) == 20)
                assert store.delete_buckets("123456789012") == 1
            finally:
                deleted.set()
            assert all(one.result(120) for one in writing)
            assert (list(store.files.staged_ids()), (store.files.root / "bucket").exists()) == ([], False)
            store.create_bucket("bucket", "123456789012", "us-east-1")
