"""Where a script is while its process uses no CPU."""

import re
import time

import pytest

from sagelet_runtime.reporting import idling
from sagelet_runtime.reporting.idling import EVERY, MOST, Idling


def test_a_process_that_uses_no_cpu_says_where_its_main_thread_is(monkeypatch: pytest.MonkeyPatch) -> None:
    at, cpu = [100.0], [5.0]
    monkeypatch.setattr(time, "monotonic", lambda: at[0])
    monkeypatch.setattr(time, "process_time", lambda: cpu[0])
    looked = Idling()
    at[0] += EVERY / 2
    looked.look()
    assert looked.document() == {"idle_stack": []}
    at[0] += EVERY
    looked.look()
    calls = looked.document()["idle_stack"]
    assert any(re.search(r"test_runtime_idling\.py:\d+ in test_a_process_that_uses_no_cpu", call) for call in calls)
    assert len(calls) <= MOST
    at[0], cpu[0] = at[0] + EVERY, cpu[0] + EVERY / 2
    looked.look()
    assert looked.document() == {"idle_stack": []}


def test_a_thread_that_is_not_there_has_no_calls() -> None:
    assert idling.stack(None) == []
