"""The loop that drives orchestrations."""

import threading
from types import SimpleNamespace
from typing import cast

import pytest

from sagelet_engine.orchestration.orchestrator import Orchestrator
from sagelet_engine.store.jobs import Store
from support.fakes import FakeClock


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
