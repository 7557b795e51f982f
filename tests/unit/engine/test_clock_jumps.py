"""The system's clock jumps by hours, either way, while jobs run: no time goes back, no time-out is lost."""

from collections.abc import Callable

import pytest

from sagelet_engine.model.job import JobStatus, SecondaryStatus
from sagelet_engine.model.training import TrainingJob
from support.world import World, key, until

HOURS = 5 * 3600


def in_order(job: TrainingJob) -> bool:
    times = [job.created_ms]
    for entry in job.transitions:
        times += [entry.start_ms, entry.end_ms or entry.start_ms]
    return times == sorted(times) and job.modified_ms >= times[-1]


def lines(world: World) -> list[str]:
    """The log, which may not have begun."""
    return world.log("one") if world.engine.logs.streams("123456789012", "us-east-1", "one/") else []


@pytest.mark.parametrize("jump", [-HOURS, HOURS])
def test_a_job_goes_on_and_its_bill_is_sane(make_world: Callable[..., World], jump: int) -> None:
    world = make_world()
    world.create("one", StoppingCondition={"MaxRuntimeInSeconds": 86_400})
    host = world.host("one")
    until(lambda: world.job("one").launched)
    world.clock.turn(60)
    host.say("before")
    until(lambda: lines(world) == ["before"])
    world.clock.turn(jump)
    host.say("after")
    until(lambda: lines(world) == ["before", "after"])
    running = world.engine.reports.bill(world.job("one"))
    assert running.seconds >= 60
    world.clock.turn(60)
    host.end(0)
    job = world.ended("one")
    assert job.status is JobStatus.COMPLETED
    assert in_order(job)
    assert job.billable_seconds is not None
    assert job.billable_seconds >= 60
    (stream,) = world.engine.logs.streams("123456789012", "us-east-1", "one/")
    times = [event.time_ms for event in world.engine.logs.events(stream, limit=10)]
    assert times == sorted(times)


@pytest.mark.parametrize("restart", [False, True])
def test_a_stop_is_enforced_after_the_clock_went_back(world: World, restart: bool) -> None:
    world.create("one")
    host = world.host("one")
    until(lambda: world.job("one").launched)
    world.engine.jobs.stop(key("one"))
    until(lambda: host.signals == ["TERM"])
    world.clock.turn(-HOURS)
    if restart:
        world.restart()
    # The host does not heed it; the grace is 120 s.
    until(lambda: turned(world) and host.signals[-1] == "KILL")
    assert world.clock.now_ms() < 1_700_000_000_000 - HOURS * 1000 + 600_000
    host.end(137)
    assert world.ended("one").status is JobStatus.STOPPED


def test_a_limit_is_enforced_after_the_clock_went_back(world: World) -> None:
    world.create("one", StoppingCondition={"MaxRuntimeInSeconds": 120})
    host = world.host("one")
    until(lambda: world.job("one").launched)
    world.clock.turn(-HOURS)
    until(lambda: turned(world) and host.signals == ["TERM"])
    assert world.clock.now_ms() < 1_700_000_000_000 - HOURS * 1000 + 600_000
    host.end(0)
    assert world.ended("one").secondary is SecondaryStatus.MAX_RUNTIME_EXCEEDED


def turned(world: World) -> bool:
    """A little time passes, at most ten minutes in all."""
    if world.clock.now_ms() < 1_700_000_000_000 - HOURS * 1000 + 599_000:
        world.clock.turn(0.5)
    return True
