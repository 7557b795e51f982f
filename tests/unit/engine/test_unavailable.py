"""A store or a runtime that does not answer for a while. Each was found by a history (docs/reliability.md)."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.model.job import JobStatus, PoolStatus, SecondaryStatus
from sagelet_engine.state.owner import lock_directory
from sagelet_engine.store.jobs import Store
from support.world import World, key, request, until

SPOT = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 900},
}


class Silence:
    """A method that fails until the test lets it work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, thing: Any, name: str, error: Exception) -> None:
        self.over = False
        self.asked = threading.Event()
        work: Callable[..., Any] = getattr(thing, name)

        def silent(*arguments: Any, **options: Any) -> Any:
            if self.over:
                return work(*arguments, **options)
            self.asked.set()
            raise error

        monkeypatch.setattr(thing, name, silent)


def test_points_that_cannot_be_read_at_the_start_delay_no_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagelet_engine.execution.republishing.RETRY_SECONDS", 0.01)
    world.create("one")
    host = world.host("one")
    until(lambda: world.job("one").launched)
    world.engine.close()
    silence = Silence(monkeypatch, Store, "newest_points", StoreUnavailable("disk I/O error"))
    world.engine = world.boot()
    assert silence.asked.wait(120)
    world.create("two")
    host.end(0)
    assert world.ended("one").status is JobStatus.COMPLETED
    world.host("two").end(0)
    assert world.ended("two").status is JobStatus.COMPLETED


def test_points_come_once_when_reading_them_fails_half_way(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagelet_engine.execution.republishing.RETRY_SECONDS", 0.01)
    image = request("one")["AlgorithmSpecification"]
    for name in ("one", "two"):
        definitions = {**image, "MetricDefinitions": [{"Name": "loss", "Regex": r"loss=(\S+)"}]}
        world.create(name, AlgorithmSpecification=definitions)
        world.host(name).say("loss=1")
        world.host(name).end(0)
        world.ended(name)
    world.engine.close()
    world.metrics.points.clear()
    failed = threading.Event()
    every = Store.newest_points

    def half_way(store: Store, known: Any, most: int) -> Iterator[Any]:
        for found in every(store, known, most):
            yield found
            if not failed.is_set():
                failed.set()
                raise StoreUnavailable("disk I/O error")

    monkeypatch.setattr(Store, "newest_points", half_way)
    world.engine = world.boot()
    until(lambda: {name for name, _ in world.metrics.points} == {"one", "two"})
    assert sorted(name for name, point in world.metrics.points if point.name == "loss") == ["one", "two"]


def test_a_warm_pool_ends_in_time_though_nobody_submits_a_job_after_a_restart(world: World) -> None:
    resources = {**request("one")["ResourceConfig"], "KeepAlivePeriodInSeconds": 60}
    world.create("one", ResourceConfig=resources)
    world.host("one").end(0)
    world.ended("one")
    world.restart()
    world.clock.turn(61)

    def over() -> bool:
        pool = world.job("one").warm_pool
        return pool is not None and pool.status is PoolStatus.TERMINATED

    until(over)


def broken(*_: Any) -> None:
    raise ValueError("a bug")


def test_hosts_of_a_job_that_failed_go_once_the_runtime_answers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.create("one")
    host = world.host("one")
    until(lambda: world.job("one").launched)
    silence = Silence(monkeypatch, world.runtime, "reap", RuntimeUnavailable("the engine does not answer"))
    monkeypatch.setattr("sagelet_engine.model.faults.training", broken)
    assert silence.asked.wait(120)
    assert host.exit_code is None
    assert not world.job("one").terminal
    silence.over = True
    assert world.ended("one").secondary is SecondaryStatus.FAILED
    assert not world.runtime.hosts


def test_a_laptop_that_slept_costs_a_job_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime's engine wakes up a moment later than sagelet. This does not count as an hour's silence."""
    silence = Silence(monkeypatch, world.runtime, "launch", RuntimeUnavailable("the engine does not answer"))
    world.create("one")
    assert silence.asked.wait(120)
    world.clock.turn(5000)
    silence.asked.clear()
    assert silence.asked.wait(120)
    silence.over = True
    world.host("one").end(0)
    job = world.ended("one")
    assert "does not answer" not in str(job.transitions)


def test_a_moments_silence_at_the_end_of_its_time_costs_a_job_no_results(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("one", StoppingCondition={"MaxRuntimeInSeconds": 60})
    host = world.host("one")
    until(lambda: world.job("one").launched)
    (host.plan.hosts[0].opt_ml / "model/weights").write_text("w")
    silence = Silence(monkeypatch, world.runtime, "stop", RuntimeUnavailable("the engine does not answer"))
    world.clock.turn(61)
    assert silence.asked.wait(120)
    silence.over = True
    until(lambda: host.signals)
    host.end(143)
    assert world.ended("one").secondary is SecondaryStatus.MAX_RUNTIME_EXCEEDED
    assert world.objects.uploads == ["s3://out/models/one/output/model.tar.gz"]


def test_a_server_closes_though_its_store_cannot_be_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.create("one")
    world.host("one")
    until(lambda: world.job("one").launched)
    supervisor = next(thread for thread in threading.enumerate() if thread.name == "job-one")
    silence = Silence(monkeypatch, Store, "get_by_id", StoreUnavailable("disk I/O error"))
    unfinished = Silence(monkeypatch, Store, "unfinished", StoreUnavailable("disk I/O error"))
    world.engine.jobs.put_tags(key("one"), {"team": "a"}, 50)
    assert silence.asked.wait(120)
    assert world.engine.close() == []
    supervisor.join(120)
    assert not supervisor.is_alive()
    lock_directory(world.settings.data).close()
    silence.over = unfinished.over = True
    world.engine = world.boot()
    world.host("one").end(0)
    assert world.ended("one").status is JobStatus.COMPLETED


def test_a_clock_that_goes_back_makes_no_bill_negative(world: World) -> None:
    world.create("one", **SPOT)
    host = world.host("one")
    until(lambda: world.job("one").launched)
    world.clock.turn(-3600)
    assert world.engine.reports.bill(world.job("one")).seconds == 0
    host.end(0)
    job = world.ended("one")
    assert job.billable_seconds is not None
    assert job.billable_seconds >= 0
