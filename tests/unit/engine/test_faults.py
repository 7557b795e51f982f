"""Faults by tag: slow starts, CapacityError, InternalServerError with and without RetryStrategy, over restarts too."""

import math
from typing import Any

import pytest

from sagelet_engine.base.errors import FaultError
from sagelet_engine.model import faults
from sagelet_engine.model.faults import TAG, Delay, Faults, InternalFault
from sagelet_engine.model.job import JobStatus, SecondaryStatus
from sagelet_engine.model.training import TrainingJob
from support.fakes import FakeHost
from support.world import World, key, request, until

S = SecondaryStatus
LAUNCHING = "Launching requested ML instances"
NO_CAPACITY = "Insufficient capacity error from EC2 while launching instances, retrying!"
UNHEALTHY = "Launched instance was unhealthy, replacing it!"
INTERNAL = "InternalServerError: We encountered an internal error. Please try again."
CAPACITY = (
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a different ML instance type."
)


def create(world: World, value: str, name: str = "one", **changes: Any) -> TrainingJob:
    return world.engine.jobs.create(key(name), request(name, **changes), {TAG: value})


def message(world: World) -> str:
    return world.job("one").transitions[-1].message


def training(world: World, attempt: int = 1) -> FakeHost:
    def found() -> FakeHost | None:
        job = world.job("one")
        assert not job.terminal, job.failure_reason
        if not job.launched or job.attempt != attempt or job.secondary is not S.TRAINING:
            return None
        return world.runtime.hosts.get(f"{job.launch_id}/algo-1")

    host: FakeHost = until(found)
    return host


def statuses(world: World) -> list[str]:
    return [entry.status.value for entry in world.job("one").transitions]


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("capacity-error", Faults(capacity=True)),
        ("internal-server-error", Faults(internal=InternalFault(math.inf, None))),
        ("internal-server-error:2", Faults(internal=InternalFault(2, None))),
        ("internal-server-error@1.5", Faults(internal=InternalFault(math.inf, 1.5))),
        ("internal-server-error:2@45", Faults(internal=InternalFault(2, 45))),
        ("throttling:3", Faults(throttled=3)),
        ("starting:30", Faults((Delay(LAUNCHING, 30),))),
        (
            "insufficient-capacity:1  unhealthy-instance:2 starting:0.5 capacity-error throttling:9",
            Faults((Delay(NO_CAPACITY, 1), Delay(UNHEALTHY, 2), Delay(LAUNCHING, 0.5)), capacity=True, throttled=9),
        ),
    ],
)
def test_what_a_value_means(value: str, meant: Faults) -> None:
    assert faults.parse(value) == meant


@pytest.mark.parametrize(
    "value",
    [
        "", "  ", "soon", "starting", "starting:", "starting:x", "starting:-1", "starting:1e3", "starting:nan",
        "starting:12345678", "capacity-error:2", "internal-server-error:0", "internal-server-error:", "throttling",
        "internal-server-error@", "internal-server-error:2@", "throttling:0", "throttling:1.5", "Capacity-Error",
        "capacity-error capacity-error", "throttling:1 throttling:2", "capacity-error,throttling:1", "starting:\u0663",
        "internal-server-error internal-server-error:2",
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_the_words_that_there_are(value: str) -> None:
    with pytest.raises(FaultError) as caught:
        faults.parse(value)
    assert repr(value) in str(caught.value)
    for word in ("starting:SECONDS", "capacity-error", "internal-server-error[:TIMES]", "throttling:CALLS"):
        assert word in str(caught.value)


def test_a_job_without_the_tag_meets_nothing(world: World) -> None:
    world.create("one")
    training(world).end(0)
    assert world.ended("one").status is JobStatus.COMPLETED


def test_a_slow_start_shows_its_reasons_in_turn(world: World) -> None:
    create(world, "insufficient-capacity:20 unhealthy-instance:10")
    until(lambda: message(world) == NO_CAPACITY)
    world.clock.turn(19)
    assert (world.job("one").secondary, message(world)) == (S.STARTING, NO_CAPACITY)
    world.clock.turn(1)
    until(lambda: message(world) == UNHEALTHY)
    world.clock.turn(10)
    training(world).end(0)
    job = world.ended("one")
    assert statuses(world) == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert job.transitions[0].message == "Preparing the instances for training"
    starting = job.transitions[0]
    assert starting.end_ms is not None
    assert starting.end_ms - starting.start_ms == 30_000
    assert job.training_start_ms == starting.end_ms


def test_a_slow_start_goes_on_after_a_restart(world: World) -> None:
    create(world, "starting:60")
    until(lambda: message(world) == LAUNCHING)
    world.clock.turn(50)
    world.restart()
    assert world.job("one").secondary is S.STARTING
    world.clock.turn(9.9)
    assert (world.job("one").secondary, message(world)) == (S.STARTING, LAUNCHING)
    world.clock.turn(0.1)
    training(world)


def test_a_job_that_waited_is_slow_from_its_place_on(world: World) -> None:
    world.settings = type(world.settings)(data=world.settings.data, max_jobs=1)
    world.restart()
    world.create("first")
    create(world, "starting:30")
    until(lambda: world.job("one").secondary is S.PENDING)
    world.clock.turn(100)
    world.host("first").end(0)
    until(lambda: message(world) == LAUNCHING)
    assert world.job("one").secondary is S.PENDING
    world.clock.turn(30)
    training(world)


def test_a_slow_start_can_be_stopped(world: World) -> None:
    create(world, "starting:600")
    until(lambda: message(world) == LAUNCHING)
    world.engine.jobs.stop(key("one"))
    assert world.ended("one").status is JobStatus.STOPPED
    assert not world.runtime.launches


def test_a_slow_start_ends_when_its_tag_goes(world: World) -> None:
    create(world, "starting:600")
    until(lambda: message(world) == LAUNCHING)
    world.engine.jobs.delete_tags(key("one"), [TAG])
    training(world)


def test_a_slow_start_counts_for_the_longest_wait_of_a_spot_job(world: World) -> None:
    limits = {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 120}
    create(world, "starting:600", EnableManagedSpotTraining=True, StoppingCondition=limits)
    until(lambda: message(world) == LAUNCHING)
    world.clock.turn(120)
    assert world.ended("one").secondary is S.MAX_WAIT_TIME_EXCEEDED


def test_no_capacity(world: World) -> None:
    create(world, "insufficient-capacity:30 capacity-error", RetryStrategy={"MaximumRetryAttempts": 3})
    until(lambda: message(world) == NO_CAPACITY)
    world.clock.turn(30)
    job = world.ended("one")
    assert (job.status, job.failure_reason) == (JobStatus.FAILED, CAPACITY)
    assert statuses(world) == ["Starting", "Failed"]
    assert job.training_start_ms is None
    assert not world.runtime.launches


def test_what_fails_gives_its_place_back(world: World) -> None:
    world.settings = type(world.settings)(data=world.settings.data, max_jobs=1)
    world.restart()
    create(world, "capacity-error")
    world.create("two")
    world.ended("one")
    world.host("two").end(0)
    assert world.ended("two").status is JobStatus.COMPLETED


def test_an_internal_error_without_a_retry_fails_the_job(world: World) -> None:
    create(world, "internal-server-error:1")
    job = world.ended("one")
    assert (job.status, job.failure_reason) == (JobStatus.FAILED, INTERNAL)
    assert not world.runtime.launches


def test_internal_errors_are_retried_until_they_stop(world: World) -> None:
    create(world, "internal-server-error:2", RetryStrategy={"MaximumRetryAttempts": 5})
    training(world, 3).end(0)
    job = world.ended("one")
    assert job.status is JobStatus.COMPLETED
    assert statuses(world)[:5] == ["Starting", "Restarting", "Starting", "Restarting", "Starting"]
    assert [attempt.reason for attempt in job.attempts] == ["Restarting the training job"] * 2
    assert list(world.runtime.launches.values()) == [1]


@pytest.mark.parametrize("value", ["internal-server-error:3", "internal-server-error"])
def test_internal_errors_beyond_the_retries_fail_the_job(world: World, value: str) -> None:
    create(world, value, RetryStrategy={"MaximumRetryAttempts": 2})
    job = world.ended("one")
    assert (job.status, job.failure_reason, job.attempt) == (JobStatus.FAILED, INTERNAL, 3)


def test_an_internal_error_in_training_loses_the_host_and_keeps_the_checkpoints(world: World) -> None:
    options = {"RetryStrategy": {"MaximumRetryAttempts": 1}, "CheckpointConfig": {"S3Uri": "s3://ck/run"}}
    create(world, "internal-server-error:1@45", **options)
    host = training(world)
    checkpoints = host.plan.hosts[0].opt_ml / "checkpoints"
    (checkpoints / "step").write_bytes(b"7")
    world.clock.turn(44.9)
    assert world.job("one").secondary is S.TRAINING
    world.clock.turn(0.1)
    second = training(world, 2)
    assert world.runtime.reaped[0] == world.job("one").id
    assert (second.plan.hosts[0].opt_ml / "checkpoints/step").read_bytes() == b"7"
    world.clock.turn(100)
    second.end(0)
    job = world.ended("one")
    assert job.status is JobStatus.COMPLETED
    assert [attempt.run_ms for attempt in job.attempts] == [45_000]


def test_an_internal_error_in_training_comes_on_time_after_a_restart(world: World) -> None:
    create(world, "internal-server-error@45")
    training(world)
    world.clock.turn(20)
    world.restart()
    world.clock.turn(24)
    assert world.job("one").secondary is S.TRAINING
    world.clock.turn(1)
    assert world.ended("one").failure_reason == INTERNAL
    assert not world.runtime.hosts


def test_faults_can_be_given_to_a_job_that_trains(world: World) -> None:
    world.create("one")
    training(world)
    world.engine.jobs.put_tags(key("one"), {TAG: "internal-server-error@0"}, 50)
    assert world.ended("one").failure_reason == INTERNAL


def test_throttled_calls_are_counted_over_restarts(world: World) -> None:
    create(world, "throttling:3 starting:600")
    assert [world.engine.jobs.throttles(world.job("one")) for _ in range(2)] == [True, True]
    world.restart()
    assert [world.engine.jobs.throttles(world.job("one")) for _ in range(3)] == [True, False, False]
    world.engine.jobs.put_tags(key("one"), {"team": "blue"}, 50)
    assert not world.engine.jobs.throttles(world.job("one"))
    world.engine.jobs.put_tags(key("one"), {TAG: "throttling:1 starting:600"}, 50)
    assert [world.engine.jobs.throttles(world.job("one")) for _ in range(2)] == [True, False]
    world.create("other")
    assert not world.engine.jobs.throttles(world.job("other"))
