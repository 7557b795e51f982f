"""A durable commit is on the disk when it returns, and threads that commit at the same time share a flush."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sagelet_engine.base.concurrency import ConcurrencyLimit
from sagelet_engine.base.database import Flusher, NotFlushed
from sagelet_engine.model.job import JobKey
from sagelet_engine.model.training import create
from sagelet_engine.store.jobs import Store
from support.world import World, key, request, until

SECONDS = 120


class Disk:
    """An os.fdatasync that a test holds until it lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = 0
        self.fails = False
        self.free = threading.Event()
        self.free.set()
        monkeypatch.setattr(os, "fdatasync", self._sync)

    def _sync(self, _file: int) -> None:
        self.began += 1
        assert self.free.wait(SECONDS)
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "sagelet.db")


def insert(store: Store, name: str) -> None:
    store.insert(create(key(name), f"id-{name}", request(name), {}, 0))


def test_who_waits_for_the_disk_computes_nothing(tmp_path: Path, disk: Disk) -> None:
    limit = ConcurrencyLimit(1)
    store = Store(tmp_path / "sagelet.db", limit.away)
    computed = threading.Event()

    def write() -> None:
        with limit.taken():
            insert(store, "one")

    def compute() -> None:
        with limit.taken():
            computed.set()

    disk.free.clear()
    began = disk.began
    threads = in_threads(write)
    until(lambda: disk.began > began)
    threads += in_threads(compute)
    assert computed.wait(SECONDS), "the writer kept its place while it waited"
    disk.free.set()
    join(threads)


def in_threads(*work: Callable[[], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=one, daemon=True) for one in work]
    for thread in threads:
        thread.start()
    return threads


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()


def test_a_durable_commit_waits_for_a_flush_that_began_after_it(store: Store, disk: Disk) -> None:
    disk.free.clear()
    threads = in_threads(lambda: insert(store, "first"))
    until(lambda: disk.began == 1)
    # The first flush may have missed this one: it was written after that began.
    threads += in_threads(lambda: insert(store, "second"))
    until(lambda: len(store.unfinished()) == 2)
    assert all(thread.is_alive() for thread in threads)
    disk.free.set()
    join(threads)
    assert disk.began == 2


def test_commits_that_come_during_a_flush_share_the_next(store: Store, disk: Disk) -> None:
    disk.free.clear()
    threads = in_threads(lambda: insert(store, "first"))
    until(lambda: disk.began == 1)
    names = [f"job-{number}" for number in range(8)]
    threads += in_threads(*(lambda name=name: insert(store, name) for name in names))  # type: ignore[misc]
    until(lambda: len(store.unfinished()) == 9 and store._log._asked == 9)
    disk.free.set()
    join(threads)
    assert disk.began == 2


def test_more_requests_than_may_compute_at_once_share_a_flush(tmp_path: Path, disk: Disk) -> None:
    """A request leaves its place while it waits for the disk, so the next one comes to the same flush."""
    limit = ConcurrencyLimit(2)
    store = Store(tmp_path / "sagelet.db", limit.away)

    def create_job(name: str) -> None:
        with limit.taken():
            insert(store, name)

    disk.free.clear()
    began = disk.began
    threads = in_threads(lambda: create_job("first"))
    until(lambda: disk.began == began + 1)
    names = [f"job-{number}" for number in range(16)]
    threads += in_threads(*(lambda name=name: create_job(name) for name in names))  # type: ignore[misc]
    until(lambda: len(store.unfinished()) == 17 and store._log._asked == 17)
    # All are written, none is acknowledged: a crash of the machine loses no job that a client knows of.
    assert all(thread.is_alive() for thread in threads)
    disk.free.set()
    join(threads)
    assert disk.began == began + 2


def test_a_commit_that_need_not_be_durable_is_not_flushed(store: Store, disk: Disk) -> None:
    insert(store, "job")
    before = disk.began
    store.drop_noted_statuses(1)
    assert disk.began == before


def test_sqlite_itself_flushes_no_commit_while_others_wait(store: Store) -> None:
    with store._connection() as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (1,)


def test_a_file_system_without_a_log_is_flushed_by_sqlite(tmp_path: Path, disk: Disk) -> None:
    store = Store(tmp_path / "sagelet.db")
    store._has_log = False
    before = disk.began
    insert(store, "job")
    assert disk.began == before


def test_a_job_whose_flush_failed_is_there_and_runs(tmp_path: Path, disk: Disk) -> None:
    """The client gets an error. A job that is in the store and in no queue would stay there for ever."""
    world = World(tmp_path)
    disk.fails = True
    with pytest.raises(NotFlushed, match="Input/output error"):
        world.create("job")
    disk.fails = False
    until(lambda: world.job("job").placed_ms is not None)
    world.engine.close()


def test_a_closed_database_has_no_log_to_flush(store: Store, tmp_path: Path) -> None:
    insert(store, "job")
    store.close()
    store._flush()
    assert Store(tmp_path / "sagelet.db").get(JobKey("123456789012", "us-east-1", "job")).key.name == "job"


def test_a_flush_that_failed_is_not_taken_for_done(tmp_path: Path, disk: Disk) -> None:
    file = tmp_path / "log"
    file.touch()
    flusher = Flusher(file)
    disk.fails = True
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            flusher.flush()
    assert disk.began == 2
