"""Who runs when: order, capacity, and stops that come at the worst moment."""

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.data.removal import Leftovers
from sagelet_engine.instances.gpus import GpuPool
from sagelet_engine.model import lifecycle, training, verdict
from sagelet_engine.model.job import Job, JobStatus, SecondaryStatus, StopCause, Verdict
from sagelet_engine.model.spec import InstanceGroup
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.scheduling.local import TOLD_AT_ONCE, LocalScheduler
from sagelet_engine.scheduling.warm_pools import WarmPools
from sagelet_engine.settings import GpuPolicy
from sagelet_engine.store.jobs import Store
from support.fakes import FakeClock
from support.world import World, key, request, until

S = SecondaryStatus


class Stage:
    """A scheduler over a real store; `started` are the jobs that it gave to a supervisor."""

    def __init__(self, root: Path, max_jobs: int, gpus: tuple[str, ...] = (), max_hosts: int = 1000) -> None:
        self.store = Store(root / "sagelet.db")
        self.clock = FakeClock()
        self.pool = GpuPool(gpus, GpuPolicy.REQUIRE)
        self.started: list[TrainingJob] = []
        #: By name.
        self.refusals: dict[str, Verdict] = {}
        self.scheduler = LocalScheduler(
            self.store,
            self.clock,
            self.pool,
            max_jobs,
            self.started.append,
            WarmPools(self.store, root, Leftovers(root)),
            lambda jobs: [self.refusals.get(job.key.name) for job in jobs],
            max_hosts=max_hosts,
        )

    def add(self, name: str, instance_type: str = "ml.m5.large", hosts: int = 1) -> TrainingJob:
        resources = {"InstanceType": instance_type, "InstanceCount": hosts}
        job = training.create(key(name), f"id-{name}", request(name, ResourceConfig=resources), {}, 1000)
        self.store.insert(job)
        self.scheduler.submit(job)
        return job

    def names(self) -> list[str]:
        return [job.key.name for job in self.started]

    def job(self, name: str) -> TrainingJob:
        return self.store.get(key(name))

    def stop_record(self, name: str) -> None:
        self.store.update(lifecycle.request_stop(self.job(name), StopCause.USER, self.clock.now_ms()))


@pytest.fixture
def stage(tmp_path: Path) -> Callable[..., Stage]:
    stages: list[Stage] = []

    def make(max_jobs: int = 1, **options: Any) -> Stage:
        stages.append(Stage(tmp_path, max_jobs, **options))
        return stages[-1]

    yield make  # type: ignore[misc]
    for made in stages:
        made.scheduler.close()
        until(lambda made=made: not made.scheduler.is_alive())


def test_jobs_start_in_the_order_they_came(stage: Callable[..., Stage]) -> None:
    one = stage(max_jobs=2)
    for name in "abcd":
        one.add(name)
    one.scheduler.start()
    until(lambda: one.names() == ["a", "b"])
    one.scheduler.release("id-b")
    until(lambda: one.names() == ["a", "b", "c"])
    one.scheduler.release("id-a")
    until(lambda: one.names() == ["a", "b", "c", "d"])


def test_a_job_that_could_do_nothing_with_hosts_does_not_wait_for_them(stage: Callable[..., Stage]) -> None:
    one = stage()
    one.refusals["bad"] = verdict.client_error("no image")
    for name in ("runs", "waits", "bad", "last"):
        one.add(name)
    one.scheduler.start()
    until(lambda: one.job("bad").status is JobStatus.FAILED)
    assert one.job("bad").failure_reason == "ClientError: no image"
    until(lambda: one.job("last").secondary is S.PENDING)
    assert one.names() == ["runs"]
    one.scheduler.release("id-runs")
    until(lambda: one.names() == ["runs", "waits"])
    one.scheduler.release("id-waits")
    until(lambda: one.names() == ["runs", "waits", "last"])


def test_a_job_that_is_stopped_is_not_refused_as_well(stage: Callable[..., Stage]) -> None:
    one = stage()
    one.refusals["bad"] = verdict.client_error("no image")
    for name in ("runs", "bad"):
        one.add(name)
    one.stop_record("bad")
    one.scheduler.start()
    one.add("later")
    until(lambda: one.job("later").secondary is S.PENDING)
    assert one.job("bad").status is JobStatus.STOPPING


def test_hosts_are_counted_and_not_only_jobs(stage: Callable[..., Stage]) -> None:
    one = stage(max_jobs=4, max_hosts=4)
    one.add("two", hosts=2)
    one.add("three", hosts=3)
    one.add("one")
    one.scheduler.start()
    until(lambda: one.names() == ["two"])
    until(lambda: one.job("three").secondary is S.PENDING)
    one.scheduler.release("id-two")
    until(lambda: one.names() == ["two", "three", "one"])


def test_a_job_of_more_hosts_than_may_run_since_a_restart_runs_alone(stage: Callable[..., Stage]) -> None:
    one = stage(max_jobs=4, max_hosts=2)
    one.add("small")
    one.add("big", hosts=5)
    one.scheduler.start()
    until(lambda: one.job("big").secondary is S.PENDING)
    assert one.names() == ["small"]
    one.scheduler.release("id-small")
    until(lambda: one.names() == ["small", "big"])


def test_a_job_that_waits_for_gpus_holds_back_those_behind_it(stage: Callable[..., Stage]) -> None:
    one = stage(max_jobs=4, gpus=("GPU-1",))
    for name in "ab":
        one.add(name, "ml.p3.2xlarge")
    one.add("cpu")
    one.scheduler.start()
    until(lambda: one.job("cpu").secondary is S.PENDING)
    assert one.names() == ["a"]
    assert one.started[0].gpus == ("GPU-1",)
    one.scheduler.release("id-a")
    until(lambda: one.names() == ["a", "b", "cpu"])


def test_a_job_submitted_twice_starts_once(stage: Callable[..., Stage]) -> None:
    one = stage(max_jobs=4)
    one.scheduler.submit(one.add("a"))
    one.scheduler.start()
    until(lambda: one.names() == ["a"])
    one.scheduler.submit(one.job("a"))
    one.add("b")
    until(lambda: "b" in one.names())
    assert one.names() == ["a", "b"]


def test_of_withdrawing_and_starting_exactly_one_happens(stage: Callable[..., Stage]) -> None:
    one = stage(max_jobs=1000)
    one.scheduler.start()
    withdrawn = []
    for number in range(100):
        job = one.add(f"job-{number}")
        if number % 3 == 0:
            until(lambda job=job: job.id in {started.id for started in one.started})
        if one.scheduler.withdraw(job.id):
            withdrawn.append(job.key.name)
    until(lambda: len(one.started) + len(withdrawn) == 100)
    assert not set(withdrawn) & set(one.names())
    assert not one.scheduler.withdraw("id-job-0")


@pytest.mark.parametrize("instance_type", ["ml.m5.large", "ml.p3.2xlarge", "ml.p3.8xlarge"])
def test_a_stop_while_the_job_is_being_placed(stage: Callable[..., Stage], instance_type: str) -> None:
    """The stop comes between the scheduler's reading of the record and its writing; there is one GPU, not four."""
    one = stage(gpus=("GPU-1",))
    one.add("a", instance_type)
    read = one.store.get_by_id

    def read_and_stop(job_id: str) -> TrainingJob:
        job = read(job_id)
        if job.stop_ms is None:
            one.stop_record("a")
            assert not one.scheduler.withdraw(job_id)
        return job

    one.store.get_by_id = read_and_stop  # type: ignore[method-assign]
    one.scheduler.start()
    until(lambda: one.names() == ["a"])
    assert one.started[0].status is JobStatus.STOPPING
    assert one.started[0].gpus == ()
    assert one.pool.lease("other", (InstanceGroup("g", "ml.p3.2xlarge", ("algo-1",)),))


def test_a_waiting_job_that_was_stopped_needs_no_place(stage: Callable[..., Stage]) -> None:
    one = stage(max_jobs=1)
    one.add("a")
    one.scheduler.start()
    until(lambda: one.names() == ["a"])
    one.add("b")
    until(lambda: one.job("b").secondary is S.PENDING)
    one.stop_record("b")
    assert one.scheduler.withdraw("id-b")
    assert not one.scheduler.withdraw("id-b")


def test_a_store_that_fails_for_a_moment_delays_no_job_for_good(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sagelet_engine.scheduling.local.RETRY_SECONDS", 0.01)
    one = stage()
    failures = iter([StoreUnavailable("database is locked")] * 2)
    read = one.store.get_by_id

    def sometimes(job_id: str) -> TrainingJob:
        if error := next(failures, None):
            raise error
        return read(job_id)

    one.store.get_by_id = sometimes  # type: ignore[method-assign]
    one.add("a")
    with caplog.at_level(logging.ERROR, "sagelet_engine.scheduling.local"):
        one.scheduler.start()
        until(lambda: one.names() == ["a"])
    assert "database is locked" in caplog.text


def test_a_store_that_fails_while_jobs_are_told_to_wait(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagelet_engine.scheduling.local.RETRY_SECONDS", 0.01)
    one = stage()
    failures = iter([StoreUnavailable("the disk is full")] * 2)
    read = one.store.by_ids

    def sometimes(job_ids: Sequence[str]) -> dict[str, Job]:
        if error := next(failures, None):
            raise error
        return read(job_ids)

    one.store.by_ids = sometimes  # type: ignore[method-assign]
    for name in "abc":
        one.add(name)
    one.scheduler.start()
    until(lambda: [one.job(name).secondary for name in "bc"] == [S.PENDING, S.PENDING], seconds=10)


def test_a_free_place_is_filled_before_ten_thousand_are_told_to_wait(stage: Callable[..., Stage]) -> None:
    one = stage(max_jobs=1)
    told: list[str] = []
    gate = threading.Semaphore(0)
    writes: list[int] = []
    update_all = one.store.update_all

    def slow(*jobs: TrainingJob, **how: bool) -> list[TrainingJob]:
        waiting = [job.key.name for job in jobs if job.secondary is S.PENDING and job.placed_ms is None]
        if waiting:
            gate.acquire()
            writes.append(len(waiting))
            told.extend(waiting)
        return update_all(*jobs, **how)

    one.store.update_all = slow  # type: ignore[method-assign]
    for number in range(50):
        one.add(f"job-{number}")
    one.scheduler.start()
    until(lambda: one.names() == ["job-0"])
    one.scheduler.release("id-job-0")
    gate.release(2)
    until(lambda: one.names() == ["job-0", "job-1"])
    assert len(writes) <= 2
    assert max(writes) <= TOLD_AT_ONCE < 50
    gate.release(1000)
    until(lambda: len(told) >= 48)


def test_one_that_is_stopped_meanwhile_keeps_no_other_from_being_told(stage: Callable[..., Stage]) -> None:
    one = stage(max_jobs=1)
    for number in range(5):
        one.add(f"job-{number}")
    update_all = one.store.update_all

    def late(*told: TrainingJob, **how: bool) -> list[TrainingJob]:
        if len(told) > 1:
            update_all(lifecycle.request_stop(one.job("job-2"), StopCause.USER, one.clock.now_ms()))
        return update_all(*told, **how)

    one.store.update_all = late  # type: ignore[method-assign]
    one.scheduler.start()
    until(lambda: [one.job(name).secondary for name in ("job-1", "job-3", "job-4")] == [S.PENDING] * 3)


def test_jobs_that_come_together_are_asked_about_and_told_together(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = stage()
    asked: list[list[str]] = []
    told: list[list[str]] = []
    wakes: list[int] = []
    entered, go_on = threading.Event(), threading.Event()

    def refusals(jobs: Sequence[Job]) -> list[Verdict | None]:
        asked.append([job.key.name for job in jobs])
        entered.set()
        assert go_on.wait(120)
        return [None] * len(jobs)

    update_all, wake = one.store.update_all, one.scheduler.wake

    def noted(*jobs: TrainingJob, **how: bool) -> list[TrainingJob]:
        told.append([job.key.name for job in jobs])
        return update_all(*jobs, **how)

    one.add("runs")
    one.scheduler.start()
    until(lambda: one.names() == ["runs"])
    monkeypatch.setattr(one.scheduler, "_refusals", refusals)
    monkeypatch.setattr(one.store, "update_all", noted)
    one.add("first")
    assert entered.wait(120)
    monkeypatch.setattr(one.scheduler, "wake", lambda: (wakes.append(1), wake()))
    for name in ("second", "third", "fourth"):
        one.add(name)
    # The thread looks again soon after the first of them, and finds the others, too.
    assert len(wakes) == 1
    go_on.set()
    until(lambda: one.job("fourth").secondary is S.PENDING)
    assert asked == told == [["first"], ["second", "third", "fourth"]]


def test_a_free_place_is_given_away_at_once(stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only jobs that have to wait are gathered."""
    monkeypatch.setattr("sagelet_engine.scheduling.local.GATHER_S", 3600)
    one = stage(max_jobs=3)
    one.scheduler.start()
    for name in "abc":
        one.add(name)
    until(lambda: one.names() == ["a", "b", "c"])


# --- through the engine ---------------------------------------------------------------------------------------------


def test_stops_at_any_moment_end_every_job_stopped(make_world: Callable[..., World]) -> None:
    world = make_world(max_jobs=2)
    names = [f"job-{number}" for number in range(20)]
    for number, name in enumerate(names):
        world.create(name)
        if number % 2:
            world.engine.jobs.stop(key(name))
    for name in names[::2]:
        world.engine.jobs.stop(key(name))

    def all_ended() -> bool:
        for host in list(world.runtime.hosts.values()):
            if host.signals and host.exit_code is None:
                host.end(143)
        return all(world.job(name).terminal for name in names)

    until(all_ended)
    assert {world.job(name).status for name in names} == {JobStatus.STOPPED}
    assert not world.runtime.hosts
    world.create("next")
    world.host("next").end(0)
    assert world.ended("next").status is JobStatus.COMPLETED
