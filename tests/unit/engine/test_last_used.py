"""A server whose `auto` is another runtime than before leaves the hosts of the other one alone."""

from pathlib import Path

import pytest

from sagelet_engine.base.errors import SettingsError
from sagelet_engine.settings import RuntimeChoice
from support.world import World, until


def test_jobs_of_a_runtime_that_does_not_answer_are_not_given_up(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("one")
    until(lambda: world.job("one").launched)
    name = world.runtime.name
    world.engine.close()
    world.runtime.name = "other"
    with pytest.raises(SettingsError, match=f"--runtime auto is 'other' now, and one may run in '{name}' still"):
        world.boot()
    # Nothing has happened to the job, and the directory is free.
    world.runtime.name = name
    world.engine = world.boot()
    world.host("one").end(0)
    assert world.ended("one").status.value == "Completed"
    world.engine.close()


def test_whoever_names_a_runtime_has_decided(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("one")
    until(lambda: world.job("one").launched)
    world.engine.close()
    world.runtime.name = "other"
    world.runtime.hosts.clear()
    object.__setattr__(world.settings, "runtime", RuntimeChoice.PROCESS)
    world.engine = world.boot()
    assert world.ended("one").failure_reason
    world.engine.close()


def test_a_directory_without_running_jobs_takes_any(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("one")
    world.host("one").end(0)
    world.ended("one")
    world.engine.close()
    world.runtime.name = "other"
    world.engine = world.boot()
    assert (tmp_path / "data" / "runtime" / "used").read_text() == "other"
    world.engine.close()
