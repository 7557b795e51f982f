"""No line of a host is lost at its end, however early a runtime's lines end (Docker's log closes before its state)."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.execution import log_recorder as output
from sagelet_engine.model.runtime import Handle, Line
from support.fakes import FakeRuntime
from support.world import World


class CutRuntime(FakeRuntime):
    """Its lines end early with the host's last line still to come, and the host ends in that moment."""

    last = "saved, without a line end"

    def lines(self, handle: Handle, position: str | None) -> Iterator[list[Line]]:
        host = self.hosts[handle.ref]
        if host.exit_code is None:
            host.say("first", self.last)
            yield host.printed[:1]
            host.end(0)
            return
        yield from super().lines(handle, position)


class BrokenRuntime(FakeRuntime):
    """Its host has ended, and its output cannot be read: `times` times, with `error`."""

    times = 3
    error: Exception = OSError("input/output error")

    def lines(self, handle: Handle, position: str | None) -> Iterator[list[Line]]:
        self.hosts[handle.ref].end(0)
        if self.times:
            self.times -= 1
            raise self.error
        yield from super().lines(handle, position)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "RETRY_S", 0.01)


def boot(tmp_path: Path, runtime: type[FakeRuntime]) -> World:
    class Outside(World):
        def boot(self):  # noqa: ANN202
            self.runtime = runtime(self.clock)
            return super().boot()

    return Outside(tmp_path)


def test_lines_that_end_before_the_host_does_are_followed_again(tmp_path: Path, quick: None) -> None:
    world = boot(tmp_path, CutRuntime)
    world.create("cut")
    assert world.ended("cut").status.value == "Completed"
    assert world.log("cut")[-2:] == ["first", CutRuntime.last]
    world.engine.close()


@pytest.mark.parametrize("error", [OSError("input/output error"), RuntimeUnavailable("Docker does not answer")])
def test_output_that_cannot_be_read_for_a_while_is_read_in_the_end(
    tmp_path: Path, quick: None, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BrokenRuntime, "error", error)
    world = boot(tmp_path, BrokenRuntime)
    world.create("dark")
    assert world.ended("dark").status.value == "Completed"
    assert world.runtime.times == 0
    world.engine.close()


def test_output_that_can_never_be_read_does_not_keep_the_job_from_its_end(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BrokenRuntime, "times", 1_000_000)
    world = boot(tmp_path, BrokenRuntime)
    world.create("lost")
    assert world.ended("lost").status.value == "Completed"
    assert world.log("lost") == ["sagelet: warning: the end of this log could not be read: OSError: input/output error"]
    assert not [thread for thread in threading.enumerate() if thread.name == "follow-algo-1"]
    world.engine.close()
