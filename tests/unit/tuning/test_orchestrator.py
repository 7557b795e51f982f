"""The loop that drives orchestrations."""

import threading
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationKind
from sagelet_engine.model.tuning import TuningJob
from sagelet_engine.orchestration.orchestrator import RETRY_SECONDS, Orchestrator
from sagelet_engine.store.jobs import Store
from support.fakes import FakeClock
from support.tuning import tuning_request
from support.world import World, until


def test_a_close_between_two_looks_ends_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop forgets earlier calls when it begins a look. A close at this moment must count all the same."""
    store = SimpleNamespace(orchestrations=SimpleNamespace(unfinished=list))
    orchestrator = Orchestrator(cast(Store, store), FakeClock(), {})
    forget, forgotten = threading.Event.clear, threading.Event()

    def closed_first(event: threading.Event) -> None:
        if not forgotten.is_set():
            forgotten.set()
            orchestrator.close()
        forget(event)

    monkeypatch.setattr(threading.Event, "clear", closed_first)
    orchestrator.start()
    orchestrator.join(10)
    assert forgotten.is_set()
    assert not orchestrator.is_alive()


def test_changes_do_not_hurry_the_next_try_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the supervisors of jobs note a change at each try. The log must not have a line for each."""
    world = World(tmp_path)
    tries: list[float] = []

    def fails(_record: TuningJob) -> None:
        tries.append(time.monotonic())
        raise StoreUnavailable("the disk is full")

    orchestrator = world.engine.orchestrator
    monkeypatch.setattr(orchestrator._works[OrchestrationKind.TUNING](), "step", fails)
    key = OrchestrationKey("123456789012", "us-east-1", "tune", OrchestrationKind.TUNING)
    world.engine.tuning.create(key, tuning_request("tune"), {})

    def tried_twice() -> bool:
        world.engine.changes.note()
        return len(tries) >= 2

    try:
        until(tried_twice)
    finally:
        world.engine.close()
    assert tries[1] - tries[0] >= RETRY_SECONDS


def test_looks_that_take_long_take_at_most_half_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An execution of hundreds of steps is looked at, while each of their jobs changes the store again and again."""
    world = World(tmp_path)
    looks: list[tuple[float, float]] = []

    def takes_long(_record: TuningJob) -> None:
        began = time.monotonic()
        threading.Event().wait(0.1)
        looks.append((began, time.monotonic()))

    monkeypatch.setattr(world.engine.orchestrator._works[OrchestrationKind.TUNING](), "step", takes_long)
    key = OrchestrationKey("123456789012", "us-east-1", "tune", OrchestrationKind.TUNING)
    world.engine.tuning.create(key, tuning_request("tune"), {})

    def looked() -> bool:
        world.engine.changes.note()
        return len(looks) >= 4

    try:
        until(looked)
    finally:
        world.engine.close()
    assert all(later[0] - one[1] >= one[1] - one[0] for one, later in pairwise(looks))
