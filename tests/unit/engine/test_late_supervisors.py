"""What works on jobs is loaded late, but before there is a job: none waits for what cannot be loaded."""

import sys
from collections.abc import Callable

import pytest

from sagelet_engine.base.errors import JobNotFound
from sagelet_engine.model.job import JobStatus
from support.world import World

SUPERVISOR = "sagelet_engine.execution.supervisor"


def test_a_job_is_refused_while_it_could_not_be_worked_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, SUPERVISOR, None)
        with pytest.raises(ImportError, match=SUPERVISOR):
            world.create("one")
    with pytest.raises(JobNotFound):
        world.job("one")
    world.create("one")
    world.host("one").end(0)
    assert world.ended("one").status is JobStatus.COMPLETED


def test_a_server_with_jobs_does_not_start_without_it(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    world.create("one")
    host = world.host("one")
    world.engine.close()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, SUPERVISOR, None)
        engine = world.unstarted()
        with pytest.raises(ImportError, match=SUPERVISOR):
            engine.start(4599)
        engine.close()
    world.engine = world.boot()
    host.end(0)
    assert world.ended("one").status is JobStatus.COMPLETED
