"""Failpoints: what arms them, and that each is in one place (tests/reliability kills a server at each)."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagelet_engine.base import failpoints
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.base.failpoints import Failpoint, arm, failpoint, listen

SOURCES = Path(failpoints.__file__).parents[1]
#: What both the process and the docker runtime do.
IN_EACH_RUNTIME = {Failpoint.BEFORE_HOST, Failpoint.AFTER_HOST, Failpoint.BEFORE_REAP}
#: What tuning jobs and executions of pipelines both do.
IN_EACH_ORCHESTRATION = {
    Failpoint.BEFORE_DECISION,
    Failpoint.AFTER_DECISION,
    Failpoint.BEFORE_CHILD,
    Failpoint.AFTER_CHILD,
    Failpoint.AFTER_CHILD_STOP,
}


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    listen(None)


def test_each_is_passed_in_one_place_of_the_engine() -> None:
    text = "\n".join(path.read_text() for path in SOURCES.rglob("*.py") if path.name != "failpoints.py")
    passed = re.findall(r"failpoint\(Failpoint\.(\w+)\)", text)
    expected = [point.name for point in (*Failpoint, *IN_EACH_RUNTIME, *IN_EACH_ORCHESTRATION)]
    assert sorted(passed) == sorted(expected)


def test_unarmed_ones_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = kills(monkeypatch)
    arm("")
    failpoint(Failpoint.AFTER_LAUNCH)
    assert killed == []


def test_the_server_is_killed_at_the_pass_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = kills(monkeypatch)
    arm("after-launch=kill:3,before-asking-to-stop=kill")
    for _ in range(2):
        failpoint(Failpoint.AFTER_LAUNCH)
        failpoint(Failpoint.BEFORE_LAUNCH)
    assert killed == []
    failpoint(Failpoint.AFTER_LAUNCH)
    assert len(killed) == 1
    failpoint(Failpoint.BEFORE_STOP)
    assert len(killed) == 2


@pytest.mark.parametrize("text", ["after-lunch=kill", "after-launch=explode", "after-launch=kill:0", "after-launch"])
def test_what_nobody_can_arm_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="SAGELET_FAILPOINTS"):
        arm(text)


def kills(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    killed: list[int] = []
    monkeypatch.setattr(failpoints.os, "kill", lambda _pid, number: killed.append(number))
    return killed
