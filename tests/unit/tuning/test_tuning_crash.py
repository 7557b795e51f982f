"""kill -9 at any step of a tuning job: what the next server makes of it. In-process; tests/reliability really kills."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.failpoints import Failpoint, listen
from sagelet_engine.model import aws_texts
from sagelet_engine.model.job import JobKey, JobStatus
from sagelet_engine.model.listing import JobQuery
from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationKind, OrchestrationStatus
from sagelet_engine.model.tuning import TuningJob
from sagelet_engine.tuning import decision
from sagelet_engine.tuning.strategies import StrategyUnavailable
from sagelet_engine.tuning.strategies.strategy import Strategy
from support.tuning import tuning_request
from support.world import World, until

F = Failpoint
KEY = OrchestrationKey("123456789012", "us-east-1", "tune", OrchestrationKind.TUNING)
LIMITS = {"MaxNumberOfTrainingJobs": 4, "MaxParallelTrainingJobs": 2}


class Killed(BaseException):
    """The server was killed: the thread does nothing any more."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.objects.put("b", "k", b"1")
    yield made
    listen(None)
    made.engine.close()


def kill_at(point: Failpoint, number: int) -> threading.Event:
    """Has the orchestrator's thread end at the n-th pass of a failpoint, and all its later passes."""
    happened, left = threading.Event(), Counter({point: number})

    def listener(passed: Failpoint) -> None:
        if threading.current_thread().name != "orchestrator":
            return
        left[passed] -= 1
        if passed is point and left[point] == 0:
            happened.set()
            raise Killed

    listen(listener)
    return happened


def begin(world: World) -> None:
    world.engine.tuning.create(KEY, tuning_request("tune", ResourceLimits=LIMITS), {})


def tuning(world: World) -> TuningJob:
    return world.engine.tuning.get(KEY)


def restart(world: World) -> None:
    world.engine.close()
    listen(None)
    world.engine = world.boot()


def train(world: World) -> None:
    for host in list(world.runtime.hosts.values()):
        if host.exit_code is None:
            host.say("loss=0.5")
            host.end(0)


def check(world: World, status: OrchestrationStatus, count: int | None = None) -> None:
    """No trial is lost and none doubled: every training job is a trial's, and every trial has one."""
    job = tuning(world)
    assert job.status is status
    trials = [trial for trial, _ in world.engine.tuning.trials(job)]
    if count is not None:
        assert len(trials) == count
    jobs = world.engine.jobs.page(JobQuery("123456789012", "us-east-1", limit=100)).jobs
    assert sorted(one.key.name for one in jobs) == sorted(one.name for one in trials)
    assert all(one.terminal for one in jobs)
    counters = job.counters
    assert counters.completed + counters.stopped + counters.retryable + counters.non_retryable == len(trials)
    assert counters.in_progress == 0
    assert [one.ordinal for one in trials] == list(range(1, len(trials) + 1))


@pytest.fixture(autouse=True)
def quiet_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that ends by Killed has not failed."""
    monkeypatch.setattr(threading, "excepthook", lambda _args: None)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("point", [F.BEFORE_DECISION, F.AFTER_DECISION, F.BEFORE_CHILD, F.AFTER_CHILD])
def test_a_kill_at_any_write_loses_no_trial_and_doubles_none(world: World, point: Failpoint, number: int) -> None:
    happened = kill_at(point, number)
    begin(world)

    def killed() -> bool:
        train(world)
        return happened.is_set()

    until(killed)
    restart(world)

    def ended() -> bool:
        train(world)
        return tuning(world).terminal

    until(ended)
    check(world, OrchestrationStatus.COMPLETED, 4)


@pytest.mark.parametrize("point", [F.BEFORE_DECISION, F.AFTER_DECISION, F.AFTER_CHILD, F.AFTER_CHILD_STOP])
def test_a_kill_while_it_stops(world: World, point: Failpoint) -> None:
    begin(world)
    until(lambda: sum(job is not None for _, job in world.engine.tuning.trials(tuning(world))) == 2)
    until(lambda: len(world.runtime.hosts) == 2)
    happened = kill_at(point, 1)
    world.engine.tuning.stop(KEY)
    if point is F.AFTER_CHILD_STOP:
        until(happened.is_set)
    restart(world)

    def ended() -> bool:
        stopping = [job for _, job in world.engine.tuning.trials(tuning(world)) if job is not None]
        # Those that run must be stopped by the new server, not end by themselves.
        if all(job.status.value != "InProgress" for job in stopping):
            train(world)
        return tuning(world).terminal

    until(ended)
    check(world, OrchestrationStatus.STOPPED, 2)


def test_a_stop_before_any_training_job_exists_makes_none(world: World) -> None:
    happened = kill_at(F.BEFORE_CHILD, 1)
    begin(world)
    until(happened.is_set)
    assert len(world.engine.tuning.trials(tuning(world))) == 2
    world.engine.tuning.stop(KEY)
    restart(world)
    until(lambda: tuning(world).terminal)
    check(world, OrchestrationStatus.STOPPED, 0)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StrategyUnavailable("Bayesian needs the package optuna"), "Bayesian needs the package optuna"),
        (ZeroDivisionError("float division by zero"), aws_texts.INTERNAL_ERROR),
    ],
)
def test_a_search_that_cannot_go_on_fails_and_stops_what_runs(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    begin(world)
    until(lambda: [job.launched for _, job in world.engine.tuning.trials(tuning(world)) if job] == [True, True])

    def fails(_name: str) -> Strategy:
        raise error

    monkeypatch.setattr(decision, "strategy", fails)
    host = next(iter(world.runtime.hosts.values()))
    host.say("loss=0.5")
    host.end(0)
    until(lambda: [job.status for _, job in world.engine.tuning.trials(tuning(world)) if job] == [JobStatus.STOPPING])
    train(world)
    until(lambda: tuning(world).terminal)
    check(world, OrchestrationStatus.FAILED, 2)
    assert tuning(world).failure_reason == reason
    assert (tuning(world).counters.completed, tuning(world).counters.stopped) == (1, 1)


def test_a_training_job_that_a_user_stops_is_a_stopped_trial(world: World) -> None:
    begin(world)

    def first() -> Any:
        return next((job for _, job in world.engine.tuning.trials(tuning(world)) if job and job.launched), None)

    name = until(first).key.name
    world.engine.jobs.stop(JobKey("123456789012", "us-east-1", name))

    def ended() -> bool:
        train(world)
        return tuning(world).terminal

    until(ended)
    check(world, OrchestrationStatus.COMPLETED, 4)
    assert tuning(world).counters.stopped == 1
