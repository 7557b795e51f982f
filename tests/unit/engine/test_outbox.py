"""The sink gets every status of a job, in order, even if the server or the sink fails."""

import sqlite3
import threading
from collections.abc import Iterator

import pytest

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.execution.outbox import BATCH
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.store.jobs import Store
from support.fakes import FakeStatuses
from support.world import World, key, request, until

LIFE = ["Starting", "Downloading", "Training", "Uploading", "Completed"]


@pytest.fixture
def sink(world: World) -> FakeStatuses:
    assert isinstance(world.statuses, FakeStatuses)
    return world.statuses


def told(sink: FakeStatuses, name: str = "one") -> list[str]:
    return [job.secondary.value for job in sink.jobs if job.key.name == name]


def left(world: World) -> int:
    with sqlite3.connect(world.settings.data / "sagelet.db") as db:
        number: int = db.execute("SELECT count(*) FROM noted_statuses").fetchone()[0]
    db.close()
    return number


def test_each_status_once_with_the_record_as_of_then(world: World, sink: FakeStatuses) -> None:
    world.engine.jobs.create(key("one"), request("one"), {"team": "blue"})
    host = world.host("one")
    host.say("a line")
    host.end(0)
    world.ended("one")
    until(lambda: told(sink) == LIFE)
    until(lambda: left(world) == 0)
    for number, job in enumerate(sink.jobs, start=1):
        assert len(job.transitions) == number
        assert job.transitions[-1].status is job.secondary
        assert job.tags == {"team": "blue"}
    assert sink.jobs[0].training_start_ms is None
    assert sink.jobs[-1] == world.job("one")


def test_what_was_not_told_is_told_after_a_restart(world: World, sink: FakeStatuses) -> None:
    """As after kill -9: the statuses are in the store, and the outbox has not announced them."""
    world.engine._outbox.close()
    world.engine._outbox.join()
    world.create("one")
    world.host("one").end(0)
    world.ended("one")
    assert (told(sink), left(world)) == ([], 5)
    world.restart()
    until(lambda: told(sink) == LIFE)
    until(lambda: left(world) == 0)


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A server that dies when it has told of statuses, before it can drop its notes of them."""
    dying = threading.Event()
    drop = Store.drop_noted_statuses

    def dies(notes: Store, last: int) -> None:
        if dying.is_set():
            raise StoreUnavailable("killed")
        drop(notes, last)

    monkeypatch.setattr(Store, "drop_noted_statuses", dies)
    dying.set()
    yield dying
    dying.clear()


def test_a_crash_between_telling_and_dropping_tells_twice(
    world: World, sink: FakeStatuses, losing: threading.Event
) -> None:
    world.create("one")
    world.host("one").end(0)
    world.ended("one")
    world.engine.close()
    before = len(sink.jobs)
    losing.clear()
    world.engine = world.boot()
    until(lambda: told(sink)[before:] == LIFE)
    until(lambda: left(world) == 0)


def test_many_jobs_each_in_order(world: World, sink: FakeStatuses) -> None:
    names = [f"job-{number}" for number in range(BATCH)]
    for name in names:
        world.create(name)
    for name in names:
        world.host(name).end(0)
    for name in names:
        world.ended(name)
    until(lambda: left(world) == 0)
    for name in names:
        assert [status for status in told(sink, name) if status != "Pending"] == LIFE
        seen = [len(job.transitions) for job in sink.jobs if job.key.name == name]
        assert seen == list(range(1, len(seen) + 1))


def test_a_sink_that_fails_stops_no_job_and_no_later_status(world: World, sink: FakeStatuses) -> None:
    sink.failing = True
    world.create("one")
    world.host("one").end(0)
    assert world.ended("one").failure_reason is None
    until(lambda: left(world) == 0)
    sink.failing = False
    world.create("two")
    world.host("two").end(0)
    until(lambda: told(sink, "two") == LIFE)
    assert told(sink) == []


def test_what_nobody_would_hear_of_is_dropped_unread(
    world: World, sink: FakeStatuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_store: Store, _limit: int) -> list[tuple[int, TrainingJob]]:
        raise AssertionError("a note was read")

    monkeypatch.setattr(Store, "noted_statuses", read)
    sink.heard = False
    world.create("one")
    world.host("one").end(0)
    world.ended("one")
    until(lambda: left(world) == 0)
    monkeypatch.undo()
    sink.heard = True
    world.create("two")
    world.host("two").end(0)
    until(lambda: told(sink, "two") == LIFE)
    assert told(sink) == []


def test_a_sink_that_hangs_holds_no_job_up(world: World, sink: FakeStatuses, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def hang(job: TrainingJob) -> None:
        entered.set()
        assert go_on.wait(120)
        sink.jobs.append(job)

    monkeypatch.setattr(sink, "announce", hang)
    world.create("one")
    assert entered.wait(120)
    world.host("one").end(0)
    world.ended("one")
    assert told(sink) == []
    go_on.set()
    until(lambda: told(sink) == LIFE)


def test_a_deleted_job_is_told_of_with_its_tags(world: World, sink: FakeStatuses) -> None:
    world.engine._outbox.close()
    world.engine._outbox.join()
    world.engine.jobs.create(key("one"), request("one"), {"team": "blue"})
    world.host("one").end(0)
    world.ended("one")
    until(lambda: not world.engine._supervisors)
    world.engine.jobs.delete(key("one"))
    world.restart()
    until(lambda: told(sink) == LIFE)
    assert sink.jobs[-1].tags == {"team": "blue"}


def test_new_messages_and_tags_are_no_statuses(world: World, sink: FakeStatuses) -> None:
    world.create("one")
    world.host("one")
    until(lambda: told(sink) == LIFE[:3])
    world.engine.jobs.put_tags(key("one"), {"team": "blue"}, 50)
    world.engine.jobs.update(key("one"), lambda job: {"RetryStrategy": {"MaximumRetryAttempts": 1}})
    # An entry is dropped only after it was sent.
    until(lambda: left(world) == 0)
    world.host("one").end(0)
    until(lambda: told(sink) == LIFE)
