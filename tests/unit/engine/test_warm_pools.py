"""Warm pools over crashes and races: what is kept, by whom, and that all of it goes."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.data import removal
from sagelet_engine.data.removal import Leftovers
from sagelet_engine.engine import Engine
from sagelet_engine.instances.gpus import GpuPool
from sagelet_engine.model import lifecycle, warm_pools
from sagelet_engine.model.job import Job, PoolStatus, SecondaryStatus, StopCause
from sagelet_engine.model.runtime import WARM_POOL_CACHE
from sagelet_engine.model.training import TrainingJob, create
from sagelet_engine.scheduling.local import LocalScheduler
from sagelet_engine.scheduling.warm_pools import WarmPools
from sagelet_engine.settings import GpuPolicy
from sagelet_engine.store.jobs import StaleRecord, Store
from support.fakes import FakeClock, FakeHost
from support.world import World, key, request, until

GPU_HOST = {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 10}
OTHER = {"RoleArn": "arn:aws:iam::123456789012:role/Other"}
P = PoolStatus


def kept(seconds: int, **resources: Any) -> dict[str, Any]:
    return {"ResourceConfig": {**GPU_HOST, **resources, "KeepAlivePeriodInSeconds": seconds}}


def training(world: World, name: str) -> FakeHost:
    until(lambda: world.job(name).launched)
    return world.host(name)


def finish(world: World, name: str) -> TrainingJob:
    training(world, name).end(0)
    return world.ended(name)


def left_pool(world: World, name: str, seconds: int = 600) -> TrainingJob:
    world.create(name, **kept(seconds))
    return finish(world, name)


def status(world: World, name: str) -> PoolStatus | None:
    pool = world.job(name).warm_pool
    return None if pool is None else pool.status


def cache(world: World, name: str) -> Path:
    (host,) = training(world, name).plan.hosts
    assert host.cache is not None
    return host.cache


def pending(world: World, name: str) -> bool:
    return world.job(name).secondary is SecondaryStatus.PENDING


def caches(world: World) -> list[Path]:
    root = world.settings.data / "warm-pools"
    return list(root.iterdir()) if root.is_dir() else []


@pytest.fixture
def narrow(make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> World:
    """A world with one GPU and room for more jobs, so that jobs wait for the GPU."""
    monkeypatch.setattr("sagelet_engine.engine.detect_gpus", lambda: ("GPU-1",))
    return make_world(gpus=GpuPolicy.REQUIRE, max_jobs=4)


# --- what is kept ---------------------------------------------------------------------------------------------------


def test_a_pool_keeps_the_gpus_and_the_next_job_gets_them(narrow: World) -> None:
    assert left_pool(narrow, "one").gpus == ("GPU-1",)
    narrow.create("other", ResourceConfig=GPU_HOST, **OTHER)
    until(lambda: pending(narrow, "other"))
    narrow.create("two", **kept(600))
    assert training(narrow, "two").plan.hosts[0].gpu_uuids == ("GPU-1",)
    finish(narrow, "two")
    assert narrow.job("other").placed_ms is None
    narrow.clock.turn(600)
    assert finish(narrow, "other").gpus == ("GPU-1",)


def test_the_cache_goes_from_job_to_job_and_to_no_other(world: World) -> None:
    world.create("one", **kept(600))
    first = cache(world, "one")
    (first / "compiled").write_text("1")
    (host,) = training(world, "one").plan.hosts
    assert (host.opt_ml / WARM_POOL_CACHE).is_dir()
    environment = training(world, "one").plan.environment
    assert environment["SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"] == "/opt/ml/sagemaker/warmpoolcache"
    finish(world, "one")
    world.create("other", **kept(600), **OTHER)
    assert list(cache(world, "other").iterdir()) == []
    world.create("plain", ResourceConfig=GPU_HOST, **OTHER)
    (host,) = training(world, "plain").plan.hosts
    assert host.cache is None
    assert not (host.opt_ml / "sagemaker").exists()
    assert "SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY" not in training(world, "plain").plan.environment
    world.create("two", ResourceConfig=GPU_HOST)
    assert (cache(world, "two") / "compiled").read_text() == "1"
    finish(world, "two")
    until(lambda: not first.exists())
    assert cache(world, "other").is_dir()


def test_each_host_has_a_cache_of_its_own(world: World) -> None:
    world.create("one", **kept(600, InstanceCount=2))
    until(lambda: world.job("one").launched)
    hosts = world.runtime.hosts[f"{world.job('one').id}/algo-1"].plan.hosts
    assert [host.cache and host.cache.name for host in hosts] == ["algo-1", "algo-2"]


def test_a_retried_job_keeps_the_cache(world: World) -> None:
    world.create("one", RetryStrategy={"MaximumRetryAttempts": 1}, **kept(600))
    (cache(world, "one") / "compiled").write_text("1")
    host = world.host("one")
    world.runtime.hosts.clear()
    host.end(0)
    until(lambda: world.job("one").attempt == 2 and world.job("one").launched)
    again = world.runtime.hosts[f"{world.job('one').launch_id}/algo-1"]
    (plan,) = again.plan.hosts
    assert plan.cache is not None
    assert (plan.cache / "compiled").read_text() == "1"
    again.end(0)
    assert world.ended("one").pool_available


def test_a_directory_that_cannot_be_removed_goes_at_the_next_start(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stays(*_: object) -> None:
        raise removal.DirectoryStays("busy")

    with monkeypatch.context() as broken:
        broken.setattr(removal, "_moved", stays)
        left_pool(world, "one")
        world.clock.turn(600)
        until(lambda: "busy" in caplog.text)
    assert len(caches(world)) == 1
    world.restart()
    assert caches(world) == []


# --- restarts -------------------------------------------------------------------------------------------------------


def test_pools_survive_a_restart_with_their_capacity_and_their_deadline(narrow: World) -> None:
    left_pool(narrow, "one", 600)
    (caches(narrow)[0] / "algo-1/compiled").write_text("1")
    narrow.clock.turn(300)
    narrow.restart()
    narrow.create("other", ResourceConfig=GPU_HOST, **OTHER)
    until(lambda: pending(narrow, "other"))
    narrow.create("two", **kept(100))
    assert (cache(narrow, "two") / "compiled").read_text() == "1"
    narrow.restart()
    until(lambda: pending(narrow, "other"))
    assert (status(narrow, "one"), status(narrow, "two")) == (P.REUSED, P.IN_USE)
    finish(narrow, "two")
    narrow.restart()
    assert status(narrow, "two") is P.AVAILABLE
    narrow.clock.turn(99)
    until(lambda: pending(narrow, "other"))
    narrow.clock.turn(1)
    finish(narrow, "other")
    assert narrow.job("two").retained_seconds == 100
    until(lambda: caches(narrow) == [])


def test_a_pool_whose_time_was_over_while_no_server_ran(narrow: World) -> None:
    left_pool(narrow, "one", 600)
    narrow.engine.close()
    narrow.clock.turn(9000)
    narrow.engine = narrow.unstarted()
    narrow.create("two", **kept(600))
    narrow.engine.start(4599)
    training(narrow, "two")
    assert (status(narrow, "one"), narrow.job("one").retained_seconds) == (P.TERMINATED, 600)
    assert status(narrow, "two") is None


def test_a_server_that_died_before_it_removed_a_cache_removes_it_when_it_is_back(world: World) -> None:
    job = left_pool(world, "one")
    world.create("two", **kept(600, InstanceType="ml.p3.8xlarge"))
    running = cache(world, "two")
    world.engine.close()
    store = Store(world.settings.data / "sagelet.db")
    store.update(warm_pools.terminate(job, world.clock.now_ms()))
    store.close()
    world.engine = world.boot()
    until(lambda: [path.name for path in caches(world)] == [world.job("two").id])
    assert running.is_dir()
    finish(world, "two")


class Crash(Exception):
    """The server dies here."""


def test_a_server_that_died_right_after_it_gave_a_pool_away(narrow: World, monkeypatch: pytest.MonkeyPatch) -> None:
    left_pool(narrow, "one")
    died = threading.Event()

    def die(*_arguments: Any) -> None:
        died.set()
        raise Crash

    with monkeypatch.context() as broken:
        broken.setattr(LocalScheduler, "occupy", die)
        narrow.create("two", **kept(600))
        assert died.wait(120)
        narrow.engine.close()
    assert not narrow.runtime.hosts
    narrow.engine = narrow.boot()
    assert training(narrow, "two").plan.hosts[0].gpu_uuids == ("GPU-1",)
    assert (status(narrow, "one"), status(narrow, "two")) == (P.REUSED, P.IN_USE)
    narrow.create("other", ResourceConfig=GPU_HOST, **OTHER)
    until(lambda: pending(narrow, "other"))
    finish(narrow, "two")


# --- races ----------------------------------------------------------------------------------------------------------


def _never(jobs: Sequence[Job]) -> list[None]:
    """Refuses no job."""
    return [None] * len(jobs)


class Stage:
    """A scheduler over a real store that runs only when the test says so, and an Available pool of the job `one`."""

    def __init__(self, root: Path) -> None:
        self.store = Store(root / "sagelet.db")
        self.clock = FakeClock()
        self.pools = WarmPools(self.store, root, Leftovers(root))
        self.started: list[TrainingJob] = []
        pool = GpuPool(("GPU-1",), GpuPolicy.REQUIRE)
        self.scheduler = LocalScheduler(
            self.store, self.clock, pool, 4, self.started.append, self.pools, _never, max_hosts=8
        )
        self.end("one", kept(600))

    def end(self, name: str, changes: dict[str, Any]) -> None:
        """A job from its start to its end."""
        job = self.add(name, changes)
        self.look()
        for step in ("DOWNLOADING", "TRAINING", "UPLOADING", "COMPLETED"):
            job = lifecycle.advance(self.store.get(job.key), SecondaryStatus[step], self.clock.now_ms())
            self.store.update(job)
        self.scheduler.ended(self.job(name))
        self.started.clear()

    def add(self, name: str, changes: dict[str, Any]) -> TrainingJob:
        body = {**request(name), **changes}
        job = create(key(name), f"id-{name}", body, {}, self.clock.now_ms())
        self.store.insert(job)
        self.scheduler.submit(job)
        return job

    def look(self) -> None:
        while self.scheduler._look() == 0:
            pass

    def job(self, name: str) -> TrainingJob:
        return self.store.get(key(name))

    def names(self) -> list[str]:
        return [job.key.name for job in self.started]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_pool_that_was_ended_as_a_job_took_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job stays where it is in the queue; the next look finds it a place like any other."""
    stage.add("first", {"ResourceConfig": GPU_HOST, **OTHER})
    stage.add("two", kept(600))
    update_all = Store.update_all

    def too_late(store: Store, *jobs: TrainingJob) -> list[TrainingJob]:
        if len(jobs) == 2:
            monkeypatch.setattr(Store, "update_all", update_all)
            ended = stage.store.update(warm_pools.terminate(stage.job("one"), stage.clock.now_ms()))
            stage.scheduler.ended(ended)
        return update_all(store, *jobs)

    monkeypatch.setattr(Store, "update_all", too_late)
    stage.look()
    assert stage.names() == ["first"]
    job = stage.job("one")
    assert job.warm_pool is not None
    assert (job.warm_pool.status, job.warm_pool.reused_by) == (P.TERMINATED, None)
    stage.scheduler.release("id-first")
    stage.look()
    assert stage.names() == ["first", "two"]
    assert stage.job("two").warm_pool is None


def test_a_job_that_was_stopped_as_it_took_a_pool_leaves_it_to_the_next(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.add("two", kept(600))
    stage.add("three", kept(600))
    update_all = Store.update_all

    def too_late(store: Store, *jobs: TrainingJob) -> list[TrainingJob]:
        if len(jobs) == 2 and stage.job("two").stop_ms is None:
            stop = lifecycle.request_stop(stage.job("two"), StopCause.USER, stage.clock.now_ms())
            update_all(store, stop)
            assert not stage.scheduler.withdraw("id-two")
        return update_all(store, *jobs)

    monkeypatch.setattr(Store, "update_all", too_late)
    stage.look()
    assert stage.names() == ["two", "three"]
    assert (stage.job("two").warm_pool, stage.job("two").placed_ms) == (None, None)
    assert stage.job("three").warm_pool is not None


def test_a_job_that_was_stopped_as_its_pool_went_does_not_wait_for_a_place(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        stage.add(f"other-{number}", OTHER)
    stage.look()
    stage.add("next", OTHER)
    stage.add("two", kept(600))

    def gone(pools: WarmPools, job: TrainingJob, now_ms: int) -> None:
        ended = stage.store.update(warm_pools.terminate(stage.job("one"), now_ms))
        stage.scheduler.ended(ended)
        stage.store.update(lifecycle.request_stop(job, StopCause.USER, now_ms))
        assert not stage.scheduler.withdraw("id-two")

    monkeypatch.setattr(WarmPools, "reuse", gone)
    stage.look()
    assert stage.names() == ["other-0", "other-1", "other-2", "two"]
    stage.scheduler.release("id-two")
    stage.look()
    assert stage.names()[4:] == ["next"]


def test_a_store_that_fails_as_pools_end_costs_no_place(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.end("two", kept(600, VolumeSizeInGB=11, InstanceType="ml.m5.large"))
    stage.clock.turn(600)
    failures = iter([None, StoreUnavailable("disk full")])
    update = Store.update

    def sometimes(store: Store, job: TrainingJob, **_how: bool) -> TrainingJob:
        if error := next(failures, None):
            raise error
        return update(store, job)

    monkeypatch.setattr(Store, "update", sometimes)
    with pytest.raises(StoreUnavailable):
        stage.look()
    stage.look()
    for number in range(4):
        stage.add(f"last-{number}", {"ResourceConfig": GPU_HOST} if number == 3 else {})
    stage.look()
    assert stage.names() == [f"last-{number}" for number in range(4)]


def test_word_of_a_pool_that_is_gone_does_no_harm(stage: Stage) -> None:
    """As when the thread of the job that ended is slower than a client that ends its pool."""
    before = stage.job("one")
    stage.store.update(warm_pools.terminate(before, stage.clock.now_ms()))
    stage.scheduler.ended(stage.job("one"))
    stage.scheduler.ended(before)
    stage.add("two", kept(600))
    stage.look()
    assert stage.names() == ["two"]
    assert (stage.job("two").warm_pool, stage.job("two").gpus) == (None, ("GPU-1",))
    assert stage.pools.keys() == []


def test_a_client_may_be_quicker_than_the_thread_of_the_job_that_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room for a cold start, but the client has seen the pool."""
    gate = threading.Event()
    ended = LocalScheduler.ended

    def late(scheduler: LocalScheduler, job: TrainingJob) -> None:
        assert job.key.name != "one" or gate.wait(120)
        ended(scheduler, job)

    monkeypatch.setattr(LocalScheduler, "ended", late)
    left_pool(world, "one")
    world.create("two", **kept(600))
    training(world, "two")
    assert (status(world, "one"), status(world, "two")) == (P.REUSED, P.IN_USE)
    gate.set()
    finish(world, "two")
    until(lambda: world.engine._warm.keys())
    world.create("three", **kept(600))
    training(world, "three")
    assert status(world, "two") is P.REUSED


def test_several_records_change_together_or_not_at_all(stage: Stage) -> None:
    two = stage.add("two", {})
    stage.store.update(two)
    one = stage.job("one")
    with pytest.raises(StaleRecord):
        stage.store.update_all(warm_pools.terminate(one, 0), two)
    assert stage.job("one") == one


def test_pools_are_found_by_their_index(stage: Stage) -> None:
    asked: list[str] = []
    with stage.store._connection() as db:
        db.set_trace_callback(asked.append)
    stage.store.with_warm_pool(P.AVAILABLE)
    with stage.store._connection() as db:
        db.set_trace_callback(None)
    (select,) = [sql for sql in asked if "FROM jobs" in sql]
    plan = " ".join(row[-1] for row in stage.store._rows(f"EXPLAIN QUERY PLAN {select}"))
    assert "jobs_by_warm_pool" in plan


def test_an_engine_forgets_no_pool_while_clients_end_it(world: World) -> None:
    """Many pools ended by their owners and by the clock at once: no place is lost."""

    def end(engine: Engine, name: str) -> None:
        engine.jobs.update(key(name), lambda job: {"ResourceConfig": {**job.request["ResourceConfig"], **zero}})

    zero = {"KeepAlivePeriodInSeconds": 0}
    for turn in range(5):
        names = [f"job-{turn}-{number}" for number in range(4)]
        for number, name in enumerate(names):
            world.create(name, **kept(60, VolumeSizeInGB=number + 1))
        for name in names:
            finish(world, name)
        threads = [threading.Thread(target=end, args=(world.engine, name)) for name in names[:2]]
        for thread in threads:
            thread.start()
        world.clock.turn(60)
        for thread in threads:
            thread.join(120)
        until(lambda names=names: {status(world, name) for name in names} == {P.TERMINATED})
    for number in range(4):
        world.create(f"last-{number}", **OTHER)
    for number in range(4):
        training(world, f"last-{number}")
    until(lambda: caches(world) == [])
