"""News for pages that are open, and that they leave the server its threads."""

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagelet_api.http.server import THREADS
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.web import streams
from sagelet_engine.base.changes import Changes
from support.api_world import ApiWorld
from support.world import until


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiWorld]:
    """No stream ends by itself while a test looks at it."""
    monkeypatch.setattr(streams, "HOLD", 600.0)
    with ApiWorld(tmp_path, bridge) as opened:
        yield opened
        opened.engine.changes.close()


class Tab:
    """A page that listens; `news`: names of the states that it heard of."""

    def __init__(self, world: ApiWorld, path: str, seen: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=120)
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": seen} if seen else {})}
        self._connection.request("GET", path, headers=headers)
        self._answer = self._connection.getresponse()
        assert self._answer.headers["Content-Type"].startswith("text/event-stream")
        self.news: list[str] = []
        self.data: list[str] = []
        self.over = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while line := self._answer.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "data":
                self.data.append(value)
            if name == "id":
                self.news.append(value)
        self.over = True


def test_a_new_job_and_a_changed_one_are_news(world: ApiWorld) -> None:
    tab = Tab(world, "/_sagelet/ui/events")
    until(lambda: len(tab.news) == 1)
    job = world.waiting_job("first")
    until(lambda: len(tab.news) == 2)
    world.engine._store.update(job)
    until(lambda: len(tab.news) == 3)
    assert len(set(tab.news)) == 3


def test_what_is_known_is_no_news(world: ApiWorld) -> None:
    world.waiting_job("first")
    first = Tab(world, "/_sagelet/ui/events")
    until(lambda: first.news)
    second = Tab(world, "/_sagelet/ui/events", seen=first.news[0])
    other = Tab(world, "/_sagelet/ui/events?q=second", seen="another")
    until(lambda: other.news)
    world.waiting_job("second")
    until(lambda: len(second.news) == 1)
    assert second.news[0] != first.news[0]


def test_lines_of_a_job_are_news(world: ApiWorld) -> None:
    stream = world.stream("train", ["one"])
    tab = Tab(world, "/_sagelet/ui/jobs/train/events")
    until(lambda: len(tab.data) == 1)
    world.say(stream, ["two", "three"], start_ms=2_000)
    until(lambda: len(tab.data) == 2)
    assert f'"{stream.name}": 3' in tab.data[1]


def test_the_stream_of_a_job_that_is_deleted_ends(world: ApiWorld) -> None:
    job = world.waiting_job("train")
    tab = Tab(world, "/_sagelet/ui/jobs/train/events")
    until(lambda: tab.news)
    world.engine._store.delete(job)
    until(lambda: tab.over)


def test_many_tabs_leave_the_server_its_threads(world: ApiWorld) -> None:
    """A few wait for news; all others have them at once and ask again later."""
    tabs = [Tab(world, "/_sagelet/ui/events") for _ in range(THREADS + 8)]
    until(lambda: sum(tab.over for tab in tabs) == len(tabs) - streams.SLOTS)
    assert all(len(tab.news) == 1 for tab in tabs if tab.over)
    assert world.sagemaker.list_training_jobs()["TrainingJobSummaries"] == []
    world.waiting_job("first")
    until(lambda: sum(len(tab.news) == 2 for tab in tabs) == streams.SLOTS)


def test_waiting_streams_end_with_the_engine(world: ApiWorld) -> None:
    tab = Tab(world, "/_sagelet/ui/events")
    until(lambda: tab.news)
    world.engine.changes.close()
    until(lambda: tab.over)


def test_who_waits_for_changes() -> None:
    changes = Changes()
    assert changes.wait(0, 0.001) == 0
    changes.note()
    assert changes.wait(0, 600) == 1
    changes.close()
    assert changes.wait(1, 600) == 1
