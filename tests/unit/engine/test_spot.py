"""Managed spot training: interruptions, attempts, limits and the bill, with kill -9 between any two steps."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from sagelet_engine.base.errors import JobNotFound, JobNotInterruptible, ScheduleError
from sagelet_engine.data import directory_sync
from sagelet_engine.execution.job_context import Detached
from sagelet_engine.model import interruptions, lifecycle
from sagelet_engine.model.job import JobStatus, SecondaryStatus
from sagelet_engine.model.runtime import Handle, LaunchPlan
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.model.training import create as new_record
from sagelet_engine.store.jobs import Store
from support.fakes import FakeHost
from support.world import World, key, request, until

S = SecondaryStatus
LIMITS = {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200}
SPOT = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": LIMITS,
    "CheckpointConfig": {"S3Uri": "s3://ck/run"},
}
ONCE = ["Starting", "Downloading", "Training", "Interrupted"]
AGAIN = [*ONCE, "Starting", "Downloading", "Training", "Uploading", "Completed"]


def statuses(world: World) -> list[str]:
    return [entry.status.value for entry in world.job("one").transitions]


def create(world: World, tags: dict[str, str] | None = None, **changes: Any) -> TrainingJob:
    return world.engine.jobs.create(key("one"), request("one", **{**SPOT, **changes}), tags or {})


def training(world: World, attempt: int = 1) -> FakeHost:
    """The host of an attempt, once it trains."""

    def found() -> FakeHost | None:
        job = world.job("one")
        assert not job.terminal, job.failure_reason
        if not job.launched or job.attempt != attempt or job.secondary is not S.TRAINING:
            return None
        return world.runtime.hosts.get(f"{job.launch_id}/algo-1")

    host: FakeHost = until(found)
    return host


def streams(world: World) -> list[list[str]]:
    found = world.engine.logs.streams("123456789012", "us-east-1", "one/")
    return [[event.text for event in world.engine.logs.events(stream, limit=100)] for stream in found]


def test_checkpoints_of_hosts_that_a_killed_server_did_not_note_reach_s3(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = world.runtime.launch

    def killed_after(plan: LaunchPlan) -> list[Handle]:
        launch(plan)
        raise Detached

    with monkeypatch.context() as patched:
        patched.setattr(world.runtime, "launch", killed_after)
        create(world)
        first = world.host("one")
    assert not world.job("one").launched
    world.engine.jobs.interrupt(key("one"))
    world.restart()
    until(lambda: first.signals == ["TERM"])
    (first.plan.hosts[0].opt_ml / "checkpoints/step").write_bytes(b"7")
    first.say("saved")
    first.end(143)
    second = training(world, 2)
    assert (second.plan.hosts[0].opt_ml / "checkpoints/step").read_bytes() == b"7"
    assert streams(world)[0] == ["saved"]


def test_an_interrupted_job_starts_again_from_its_checkpoints(world: World) -> None:
    create(world)
    first = training(world)
    directory = first.plan.hosts[0].opt_ml / "checkpoints"
    first.say("first")
    interrupted = world.engine.jobs.interrupt(key("one"))
    assert (interrupted.secondary, interrupted.status) == (S.INTERRUPTED, JobStatus.IN_PROGRESS)
    until(lambda: first.signals == ["TERM"])
    (directory / "step").write_bytes(b"7")
    (directory.parent / "model/half").write_text("not for S3")
    first.say("saved")
    first.end(143)
    second = training(world, 2)
    opt_ml = second.plan.hosts[0].opt_ml
    assert opt_ml != directory.parent
    assert (opt_ml / "checkpoints/step").read_bytes() == b"7"
    assert list((opt_ml / "model").iterdir()) == []
    assert not directory.exists()
    assert world.runtime.reaped == [world.job("one").id]
    second.say("second")
    (opt_ml / "model/whole").write_text("w")
    second.end(0)
    job = world.ended("one")
    assert job.status is JobStatus.COMPLETED
    assert statuses(world) == AGAIN
    assert [attempt.ended_by for attempt in job.attempts] == [S.INTERRUPTED]
    assert streams(world) == [["first", "saved"], ["second"]]
    assert world.objects.uploads.count("s3://out/models/one/output/model.tar.gz") == 1
    assert not world.runtime.hosts


def test_streams_of_attempts_are_named_with_their_own_epochs(world: World) -> None:
    create(world)
    for attempt in (1, 2):
        host = training(world, attempt)
        world.engine.jobs.interrupt(key("one"))
        host.end(0)
        world.clock.turn(100 if attempt == 2 else 0)
    training(world, 3).end(0)
    world.ended("one")
    names = [stream.name for stream in world.engine.logs.streams("123456789012", "us-east-1", "one/")]
    epoch = 1_700_000_000
    assert names == [f"one/algo-1-{epoch}", f"one/algo-1-{epoch + 1}", f"one/algo-1-{epoch + 100}"]


def test_a_host_that_ignores_the_interruption_is_killed_after_the_grace(world: World) -> None:
    create(world)
    host = training(world)
    world.engine.jobs.interrupt(key("one"))
    until(lambda: host.signals == ["TERM"])
    world.clock.turn(119)
    world.restart()
    until(lambda: host.signals == ["TERM", "TERM"])
    world.clock.turn(1)
    until(lambda: host.signals[-1] == "KILL")
    host.end(137)
    training(world, 2).end(0)
    assert world.ended("one").status is JobStatus.COMPLETED


def test_a_stop_wins_over_an_interruption(world: World) -> None:
    create(world)
    host = training(world)
    world.engine.jobs.interrupt(key("one"))
    until(lambda: host.signals == ["TERM"])
    world.engine.jobs.stop(key("one"))
    (host.plan.hosts[0].opt_ml / "checkpoints/last").write_bytes(b"1")
    host.end(143)
    job = world.ended("one")
    assert statuses(world) == [*ONCE, "Stopping", "Stopped"]
    assert job.attempts == ()
    assert "run/last" in world.objects.under("ck")
    assert not world.runtime.hosts


def test_an_interruption_while_data_is_downloaded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.objects.put("ck", "run/step", b"1")
    begun, gate = threading.Event(), threading.Event()
    download = world.objects.download

    def slow(*arguments: Any) -> None:
        begun.set()
        assert gate.wait(120)
        download(*arguments)

    monkeypatch.setattr(world.objects, "download", slow)
    create(world)
    assert begun.wait(120)
    world.engine.jobs.interrupt(key("one"))
    gate.set()
    host = training(world, 2)
    assert (host.plan.hosts[0].opt_ml / "checkpoints/step").exists()
    host.end(0)
    assert world.ended("one").status is JobStatus.COMPLETED
    assert statuses(world) == ["Starting", "Downloading", "Interrupted", *AGAIN[4:]]
    assert world.objects.under("ck") == {"run/step": b"1"}


def test_only_running_spot_jobs_can_be_interrupted(world: World) -> None:
    with pytest.raises(JobNotFound):
        world.engine.jobs.interrupt(key("one"))
    create(world, EnableManagedSpotTraining=False)
    host = training(world)
    with pytest.raises(JobNotInterruptible, match="EnableManagedSpotTraining"):
        world.engine.jobs.interrupt(key("one"))
    host.end(0)
    world.ended("one")
    assert statuses(world) == ["Starting", "Downloading", "Training", "Uploading", "Completed"]


def test_an_ended_job_cannot_be_interrupted(world: World) -> None:
    create(world)
    training(world).end(0)
    world.ended("one")
    with pytest.raises(JobNotInterruptible, match="is in status Completed"):
        world.engine.jobs.interrupt(key("one"))


# --- on a schedule --------------------------------------------------------------------------------------------------


def test_the_tag_interrupts_each_attempt_in_its_time(world: World) -> None:
    create(world, {interruptions.TAG: "30 60"})
    for attempt, seconds in ((1, 30), (2, 60)):
        host = training(world, attempt)
        world.clock.turn(seconds - 0.001)
        host.say("still there")
        until(lambda attempt=attempt: [len(lines) for lines in streams(world)] == [1] * attempt)
        assert host.signals == []
        world.clock.turn(0.001)
        until(lambda host=host: host.signals == ["TERM"])
        host.end(143)
    host = training(world, 3)
    world.clock.turn(1000)
    host.end(0)
    job = world.ended("one")
    assert job.status is JobStatus.COMPLETED
    assert len(job.attempts) == 2


def test_a_tag_that_a_running_job_gets_counts(world: World) -> None:
    create(world)
    host = training(world)
    world.engine.jobs.put_tags(key("one"), {interruptions.TAG: "0"}, 50)
    until(lambda: host.signals == ["TERM"])
    host.end(143)
    training(world, 2).end(0)
    assert world.ended("one").status is JobStatus.COMPLETED


def test_a_seed_gives_the_same_times() -> None:
    times = interruptions.schedule("seed:7 mean:45 times:3")
    assert times == interruptions.schedule("times:3 mean:45 seed:7")
    assert times != interruptions.schedule("seed:8 mean:45 times:3")
    assert len(times) == 3
    assert all(time > 0 for time in times)
    many = interruptions.schedule("seed:1 mean:45 times:1000")
    assert 35 < sum(many) / len(many) < 55


@pytest.mark.parametrize(
    "value",
    ["", "soon", "-1", "nan", "inf", "30,60", "seed:7", "seed:7 mean:0", "seed:x mean:4", "seed:7 mean:4 often:3",
     "seed:7 mean:4 times:0", "seed:7 mean:4 times:1001", "seed:7 4"],
)  # fmt: skip
def test_a_schedule_that_cannot_be_read_is_refused(value: str) -> None:
    with pytest.raises(ScheduleError, match="'30 60'"):
        interruptions.schedule(value)


# --- limits ---------------------------------------------------------------------------------------------------------


def test_max_runtime_counts_all_attempts(world: World) -> None:
    create(world, StoppingCondition={"MaxRuntimeInSeconds": 100, "MaxWaitTimeInSeconds": 7200})
    first = training(world)
    world.clock.turn(60)
    world.engine.jobs.interrupt(key("one"))
    first.end(0)
    second = training(world, 2)
    world.clock.turn(39)
    second.say("still there")
    until(lambda: streams(world) == [["still there"]] or streams(world) == [[], ["still there"]])
    assert second.signals == []
    world.clock.turn(1)
    until(lambda: second.signals == ["TERM"])
    second.end(143)
    assert world.ended("one").secondary is S.MAX_RUNTIME_EXCEEDED


def test_no_attempt_begins_when_the_runtime_is_used_up(world: World) -> None:
    create(world, StoppingCondition={"MaxRuntimeInSeconds": 100, "MaxWaitTimeInSeconds": 7200})
    host = training(world)
    world.clock.turn(99)
    world.engine.jobs.interrupt(key("one"))
    until(lambda: host.signals == ["TERM"])
    world.clock.turn(60)
    host.end(143)
    job = world.ended("one")
    assert job.secondary is S.MAX_RUNTIME_EXCEEDED
    assert len(world.runtime.launches) == 1


# --- retries --------------------------------------------------------------------------------------------------------

RETRY = {"RetryStrategy": {"MaximumRetryAttempts": 1}}


def test_an_internal_fault_is_retried_as_often_as_granted(world: World) -> None:
    world.create("one", **RETRY)
    for attempt in (1, 2):
        host = training(world, attempt)
        world.runtime.hosts.clear()
        host.end(137)
    job = world.ended("one")
    assert statuses(world) == [
        "Starting", "Downloading", "Training", "Restarting",
        "Starting", "Downloading", "Training", "Uploading", "Failed",
    ]  # fmt: skip
    assert [attempt.ended_by for attempt in job.attempts] == [S.RESTARTING]
    assert job.attempts[0].reason.startswith("Restarting the training job (sagelet: ")
    assert (job.failure_reason or "").startswith("InternalServerError")


def test_an_error_of_the_launch_is_retried(world: World) -> None:
    world.runtime.on_launch = [ZeroDivisionError("boom")]
    world.create("one", RetryStrategy={"MaximumRetryAttempts": 30})
    until(lambda: world.job("one").attempt == 2)
    world.runtime.on_launch = []
    until(lambda: world.job("one").terminal or world.runtime.hosts)
    for host in world.runtime.hosts.values():
        host.end(0)
    job = world.ended("one")
    assert job.attempts
    assert "boom" in job.attempts[0].reason


# --- the bill -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("discount", "billed"), [(0.7, 30), (0.0, 100), (0.999, 1)])
def test_spot_is_billed_less_by_the_discount(make_world: Callable[..., World], discount: float, billed: int) -> None:
    world = make_world(spot_discount=discount)
    create(world)
    host = training(world)
    world.clock.turn(100)
    host.end(0)
    job = world.ended("one")
    assert (job.training_seconds, job.billable_seconds) == (100, billed)


def test_a_spot_job_of_no_time_has_a_second(world: World) -> None:
    create(world)
    training(world).end(0)
    job = world.ended("one")
    assert (job.training_seconds, job.billable_seconds) == (1, 1)


def test_on_demand_is_billed_in_full(world: World) -> None:
    world.create("one")
    host = training(world)
    world.clock.turn(10)
    host.end(0)
    assert world.ended("one").billable_seconds == 10


def test_a_later_setting_does_not_change_a_bill(make_world: Callable[..., World]) -> None:
    job = new_record(key("one"), "id", request("one", **SPOT), {}, 0, 0.5)
    job = lifecycle.advance(job, S.DOWNLOADING, 1000)
    job = lifecycle.advance(job, S.INTERRUPTED, 11_000)
    job = lifecycle.restart(job, 21_000)
    assert job.running_ms(500_000) == 20_000
    job = lifecycle.advance(job, S.DOWNLOADING, 101_000)
    job = lifecycle.advance(job, S.FAILED, 121_000)
    assert (job.training_seconds, job.billable_seconds) == (120, 20)


# --- kill -9 --------------------------------------------------------------------------------------------------------

#: More writes of the record than the life of a job with one interruption has.
WRITES = 16


class Crash:
    """Ends the supervisor at its n-th write of the record, before or after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, after: bool) -> None:
        self.happened = threading.Event()
        self._left, self._after, self._update = number, after, Store.update
        crash = self
        monkeypatch.setattr(Store, "update", lambda store, job, **_how: crash(store, job))

    def __call__(self, store: Store, job: TrainingJob) -> TrainingJob:
        if not threading.current_thread().name.startswith("job-"):
            return self._update(store, job)
        if self.happened.is_set():
            raise Detached
        self._left -= 1
        if self._left >= 0:
            return self._update(store, job)
        if self._after:
            self._update(store, job)
        self.happened.set()
        raise Detached


def play(world: World, done: Callable[[], bool]) -> None:
    """Plays the hosts: the first trains until it is interrupted and saves, the second ends well."""

    def turn() -> bool:
        for ref, host in list(world.runtime.hosts.items()):
            opt_ml = host.plan.hosts[0].opt_ml
            if host.exit_code is not None:
                continue
            if ref.startswith(f"{world.job('one').id}-2/"):
                assert (opt_ml / "checkpoints/step").read_bytes() == b"saved"
                host.say("second")
                host.end(0)
            elif host.signals:
                (opt_ml / "checkpoints/step").write_bytes(b"saved")
                host.say("first")
                host.end(143)
            elif world.job("one").launched:
                world.clock.turn(1)
        return done()

    until(turn)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(WRITES))
def test_a_crash_at_any_write_loses_no_attempt_and_doubles_none(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int, after: bool
) -> None:
    monkeypatch.setattr(directory_sync, "PERIOD", 0.01)
    with monkeypatch.context() as patch:
        crash = Crash(patch, number, after)
        create(world, {interruptions.TAG: "1"})
        play(world, lambda: crash.happened.is_set() or world.job("one").terminal)
        world.engine.close()
    world.engine = world.boot()
    play(world, lambda: world.job("one").terminal)
    job = world.job("one")
    assert job.status is JobStatus.COMPLETED
    assert statuses(world) == AGAIN
    assert len(job.attempts) == 1
    assert streams(world) == [["first"], ["second"]]
    assert world.objects.under("ck") == {"run/step": b"saved"}
    assert not world.runtime.hosts
