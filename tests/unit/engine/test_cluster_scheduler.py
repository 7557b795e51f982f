"""Jobs that wait in a cluster's own queue: submitted in order, told why they wait, started with their nodes."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.data.removal import Leftovers
from sagelet_engine.instances.gpus import ClusterGpus
from sagelet_engine.model import lifecycle, training, verdict
from sagelet_engine.model.cluster import AllocationRequest, AllocationState, AllocationStatus, ClusterContext, Refused
from sagelet_engine.model.job import JobStatus, SecondaryStatus, StopCause, Verdict
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.scheduling.cluster import ClusterScheduler
from sagelet_engine.scheduling.warm_pools import WarmPools
from sagelet_engine.settings import GpuPolicy
from sagelet_engine.store.jobs import Store
from support.fakes import FakeClock
from support.world import key, request, until

S = SecondaryStatus


class FakeCluster:
    """`nodes` says where each order stands, by launch id; an order that it does not name waits."""

    def __init__(self) -> None:
        self.orders: list[AllocationRequest] = []
        self.nodes: dict[str, AllocationStatus] = {}
        self.refusal = ""
        self.away = False
        self.gpus = 0
        self.looks = 0

    def submit(self, order: AllocationRequest) -> None:
        if self.away:
            raise RuntimeUnavailable("nobody there")
        if self.refusal:
            raise Refused(self.refusal)
        self.orders.append(order)

    def statuses(self) -> Mapping[str, AllocationStatus]:
        if self.away:
            raise RuntimeUnavailable("nobody there")
        self.looks += 1
        waiting = AllocationStatus(AllocationState.QUEUED, "Priority")
        return {order.job_id: self.nodes.get(order.job_id, waiting) for order in self.orders}

    def gpus_per_node(self) -> int:
        return self.gpus

    def attach(self, context: ClusterContext) -> None:
        """The tests' scheduler is made without a server."""

    def close(self) -> None:
        self.away = True


class Stage:
    def __init__(self, root: Path, policy: GpuPolicy = GpuPolicy.AUTO) -> None:
        self.store = Store(root / "sagelet.db")
        self.clock = FakeClock()
        self.cluster = FakeCluster()
        self.started: list[TrainingJob] = []
        #: By name.
        self.refusals: dict[str, Verdict] = {}
        self.scheduler = ClusterScheduler(
            self.store, self.clock, self.cluster, ClusterGpus(policy), self.started.append,
            WarmPools(self.store, root, Leftovers(root)), lambda job: self.refusals.get(job.key.name),
            grace_seconds=120,
        )  # fmt: skip

    def add(self, name: str, instance_type: str = "ml.m5.large", hosts: int = 1, **changes: Any) -> TrainingJob:
        resources = {"InstanceType": instance_type, "InstanceCount": hosts}
        body = request(name, ResourceConfig=resources, **changes)
        job = training.create(key(name), f"id-{name}", body, {"team": "a"}, self.clock.now_ms())
        self.store.insert(job)
        self.scheduler.submit(job)
        return job

    def job(self, name: str) -> TrainingJob:
        return self.store.get(key(name))

    def message(self, name: str) -> str:
        return self.job(name).transitions[-1].message

    def grant(self, name: str) -> None:
        self.cluster.nodes[f"id-{name}"] = AllocationStatus(AllocationState.GRANTED, "job 7 on n1", 5_000)


@pytest.fixture
def stage(tmp_path: Path) -> Callable[..., Stage]:
    stages: list[Stage] = []

    def make(**options: Any) -> Stage:
        stages.append(Stage(tmp_path, **options))
        stages[-1].scheduler.start()
        return stages[-1]

    yield make  # type: ignore[misc]
    for made in stages:
        made.scheduler.close()
        until(lambda made=made: not made.scheduler.is_alive())


def test_all_are_submitted_in_order_and_started_as_they_get_their_nodes(stage: Callable[..., Stage]) -> None:
    one = stage()
    for number in range(20):
        one.add(f"job-{number}")
    until(lambda: len(one.cluster.orders) == 20)
    assert [order.job_id for order in one.cluster.orders] == [f"id-job-{number}" for number in range(20)]
    until(lambda: "Priority" in one.message("job-19"))
    assert one.message("job-19") == "Training job waiting for capacity (Priority)"
    one.grant("job-3")
    until(lambda: one.started)
    (started,) = one.started
    assert (started.key.name, started.secondary, started.placed_ms) == ("job-3", S.PENDING, 5_000)
    assert one.message("job-3") == lifecycle.PREPARING_INSTANCES


def test_a_job_that_could_do_nothing_with_nodes_orders_none(stage: Callable[..., Stage]) -> None:
    one = stage()
    one.refusals["bad"] = verdict.client_error("no image")
    one.add("bad")
    one.add("good")
    until(lambda: one.job("bad").status is JobStatus.FAILED and one.cluster.orders)
    assert one.job("bad").failure_reason == "ClientError: no image"
    assert [order.job_id for order in one.cluster.orders] == ["id-good"]


def test_waiting_jobs_have_no_threads_and_one_look_is_for_all(stage: Callable[..., Stage]) -> None:
    one = stage()
    before = threading.active_count()
    for number in range(50):
        one.add(f"job-{number}")
    until(lambda: all("Priority" in one.message(f"job-{number}") for number in range(50)))
    assert threading.active_count() <= before
    assert one.cluster.looks < 50


def test_an_order_says_what_the_job_needs(stage: Callable[..., Stage]) -> None:
    one = stage()
    one.cluster.gpus = 8
    one.add("big", "ml.p3.8xlarge", hosts=2, StoppingCondition={"MaxRuntimeInSeconds": 3600})
    until(lambda: one.cluster.orders)
    (order,) = one.cluster.orders
    assert (order.instance_types, order.gpus, order.seconds) == (("ml.p3.8xlarge", "ml.p3.8xlarge"), 4, 3600)
    assert (order.grace_seconds, order.tags, order.account) == (120, {"team": "a"}, key("big").account)
    one.grant("big")
    until(lambda: one.started)
    assert len(one.started[0].gpus) == 8


def test_where_no_node_has_the_gpus_workers_stand_in_and_the_job_says_so(stage: Callable[..., Stage]) -> None:
    one = stage()
    one.cluster.gpus = 2
    one.add("big", "ml.p3.8xlarge")
    one.grant("big")
    until(lambda: one.started)
    (order,) = one.cluster.orders
    assert order.gpus == 0
    assert "a node of the cluster has 2 GPUs" in one.message("big")


def test_required_gpus_that_no_node_has_are_a_capacity_error(stage: Callable[..., Stage]) -> None:
    one = stage(policy=GpuPolicy.REQUIRE)
    one.add("big", "ml.p3.8xlarge")
    until(lambda: one.job("big").terminal)
    assert (one.job("big").failure_reason or "").startswith("CapacityError: ")


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Slurm: Invalid account", "ClientError"),
        ("Slurm: Requested node configuration is not available", "CapacityError"),
    ],
)
def test_a_refused_order_fails_its_job_in_the_clusters_words(
    stage: Callable[..., Stage], words: str, kind: str
) -> None:
    one = stage()
    one.cluster.refusal = words
    one.add("odd")
    until(lambda: one.job("odd").status is JobStatus.FAILED)
    assert one.job("odd").failure_reason == f"{kind}: {words}"
    assert one.started == []


def test_a_cluster_that_is_away_is_waited_for(stage: Callable[..., Stage]) -> None:
    one = stage()
    one.cluster.away = True
    one.add("patient")
    until(lambda: "nobody there" in one.message("patient"))
    one.cluster.away = False
    one.grant("patient")
    until(lambda: one.started)


def test_a_withdrawn_job_is_not_started(stage: Callable[..., Stage]) -> None:
    one = stage()
    job = one.add("gone")
    until(lambda: "Priority" in one.message("gone"))
    until(lambda: one.scheduler.withdraw(job.id))
    one.grant("gone")
    looks = one.cluster.looks
    one.add("other")
    until(lambda: one.cluster.looks > looks + 1)
    assert one.started == []


def test_a_job_whose_order_is_over_starts_so_that_its_hosts_say_how(stage: Callable[..., Stage]) -> None:
    one = stage()
    one.add("late")
    one.cluster.nodes["id-late"] = AllocationStatus(AllocationState.OVER, "job 7: NODE_FAIL")
    until(lambda: one.started)


def test_the_time_to_wait_ends_a_waiting_spot_job(stage: Callable[..., Stage]) -> None:
    one = stage()
    limits = {"MaxRuntimeInSeconds": 10, "MaxWaitTimeInSeconds": 20}
    one.add("spot", EnableManagedSpotTraining=True, StoppingCondition=limits)
    until(lambda: "Priority" in one.message("spot"))
    one.clock.turn(20)
    until(lambda: one.started)
    assert one.job("spot").stop_cause is StopCause.MAX_WAIT


def test_an_attempt_that_gave_its_nodes_back_orders_others(stage: Callable[..., Stage]) -> None:
    one = stage()
    one.add("again")
    one.grant("again")
    until(lambda: one.started)
    job = one.started[0]
    now = one.clock.now_ms()
    for status in (S.DOWNLOADING, S.TRAINING, S.INTERRUPTED):
        job = one.store.update(lifecycle.advance(job, status, now))
    job = one.store.update(lifecycle.restart(job, now, keeps_place=False))
    assert (job.placed_ms, job.gpus) == (None, ())
    one.scheduler.ended(job)
    until(lambda: len(one.cluster.orders) == 2)
    assert one.cluster.orders[1].job_id == "id-again-2"
    until(lambda: "Priority" in one.message("again"))
