"""Tuning jobs in the data directory: what is removed and when, what an export has, what a check finds, the bill."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sagelet_engine.base.errors import OrchestrationNotFound
from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationKind, OrchestrationStatus
from sagelet_engine.model.tuning import TuningJob
from sagelet_engine.retention.gc import Keep
from sagelet_engine.state.checking.check import check_data
from sagelet_engine.state.exporting import export_data
from sagelet_engine.state.importing import import_data
from support.tuning import definition, tuning_request
from support.world import World, until

KEY = OrchestrationKey("123456789012", "us-east-1", "tune", OrchestrationKind.TUNING)
NOTHING_STAYS = Keep(files_seconds=0, jobs_seconds=0)
HOUR = 3600


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.objects.put("b", "k", b"1")
    yield made
    made.engine.close()


def begin(world: World, trials: int, instances: int = 1) -> None:
    job = definition(ResourceConfig={"InstanceType": "ml.p3.2xlarge", "InstanceCount": instances, "VolumeSizeInGB": 1})
    limits = {"MaxNumberOfTrainingJobs": trials, "MaxParallelTrainingJobs": 1}
    world.engine.tuning.create(KEY, tuning_request("tune", job=job, ResourceLimits=limits), {})


def tuning(world: World) -> TuningJob:
    return world.engine.tuning.get(KEY)


def train(world: World, seconds: int = 1) -> None:
    """Lets the next training job train for so long."""

    def launched() -> str | None:
        jobs = [job for _, job in world.engine.tuning.trials(tuning(world)) if job is not None]
        return next((job.key.name for job in jobs if job.launched and job.secondary.value == "Training"), None)

    until(launched)
    name = launched()
    assert name is not None
    hosts = [host for host in list(world.runtime.hosts.values()) if host.exit_code is None]
    world.clock.turn(seconds)
    ended = tuning(world).counters.completed
    hosts[0].say("loss=0.5")
    for host in hosts:
        host.end(0)
    until(lambda: tuning(world).counters.completed == ended + 1)
    until(lambda: name not in {job.key.name for job in world.engine.jobs.unfinished()})


# --- retention --------------------------------------------------------------------------------------------------------


def test_the_training_jobs_of_a_running_tuning_job_stay_and_their_files_go(world: World) -> None:
    begin(world, 2)
    train(world)
    done = world.engine.collect(NOTHING_STAYS)
    assert (done.jobs, done.directories, done.tuning_jobs) == (0, 1, 0)
    train(world)
    until(lambda: tuning(world).status is OrchestrationStatus.COMPLETED)
    done = world.engine.collect(NOTHING_STAYS, dry_run=True)
    assert (done.jobs, done.tuning_jobs) == (2, 1)
    done = world.engine.collect(NOTHING_STAYS)
    assert (done.jobs, done.tuning_jobs) == (2, 1)
    with pytest.raises(OrchestrationNotFound):
        tuning(world)


def test_a_tuning_job_outlives_its_training_jobs(world: World) -> None:
    begin(world, 1)
    train(world, HOUR)
    until(lambda: tuning(world).status is OrchestrationStatus.COMPLETED)
    (trial, _), *_ = world.engine.tuning.trials(tuning(world))
    for job in world.engine._store.every_job():
        world.engine.jobs.delete(job.key)
    assert world.engine.collect(Keep(jobs_seconds=HOUR)).tuning_jobs == 0
    assert [one for one, _ in world.engine.tuning.trials(tuning(world))] == [trial]
    assert world.engine.tuning.bill(tuning(world)).seconds >= HOUR


# --- bill and health --------------------------------------------------------------------------------------------------


def test_the_bill_is_the_sum_also_while_one_runs_and_after_a_deletion(world: World) -> None:
    begin(world, 2, instances=2)
    train(world, HOUR)
    (first,) = [job for job in world.engine._store.every_job() if job.terminal]
    one = world.engine.reports.bill(first)
    until(lambda: any(job.launched for job in world.engine.jobs.unfinished()))
    (second,) = world.engine.jobs.unfinished()
    running = world.engine.reports.bill(second)
    total = world.engine.tuning.bill(tuning(world))
    assert (total.training_jobs, total.running) == (2, True)
    assert total.seconds == one.seconds + running.seconds
    assert one.usd is not None
    assert one.usd == pytest.approx(one.seconds / HOUR * 2 * 3.825)
    world.engine.jobs.delete(first.key)
    train(world, HOUR)
    until(lambda: tuning(world).status is OrchestrationStatus.COMPLETED)
    total = world.engine.tuning.bill(tuning(world))
    other = world.engine.reports.bill(world.engine.jobs.by_id(second.id))
    assert other.usd is not None
    assert (total.seconds, total.running) == (one.seconds + other.seconds, False)
    assert total.usd == pytest.approx(one.usd + other.usd)


def test_health_counts_tuning_jobs(world: World) -> None:
    assert world.engine.health()["tuning_jobs"] == {}
    begin(world, 1)
    assert world.engine.health()["tuning_jobs"] == {"InProgress": 1}


# --- export, import, check --------------------------------------------------------------------------------------------


def test_a_copy_has_the_tuning_job_and_goes_on_with_it(world: World, tmp_path: Path) -> None:
    begin(world, 3)
    train(world)
    until(lambda: any(job.launched for job in world.engine.jobs.unfinished()))
    world.engine.close()
    export_data(world.settings.data, tmp_path / "saved.tar")
    (tmp_path / "copy").mkdir()
    import_data(tmp_path / "saved.tar", tmp_path / "copy" / "data")
    copy = World(tmp_path / "copy")
    copy.objects.put("b", "k", b"1")
    try:
        # The training job that ran has lost its hosts, and the tuning job goes on after it.
        until(lambda: tuning(copy).counters.non_retryable + tuning(copy).counters.retryable == 1)
        train(copy)
        until(lambda: tuning(copy).status is OrchestrationStatus.COMPLETED)
        assert [one.ordinal for one, _ in copy.engine.tuning.trials(tuning(copy))] == [1, 2, 3]
        assert tuning(copy).counters.completed == 2
    finally:
        copy.engine.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE orchestrations SET record = json_set(record, '$.status', 'Odd')",
        "UPDATE orchestration_children SET record = json_set(record, '$.state', 'odd')",
    ],
)
def test_a_check_finds_a_record_that_cannot_be_read(world: World, damage: str) -> None:
    begin(world, 1)
    train(world)
    until(lambda: tuning(world).status is OrchestrationStatus.COMPLETED)
    world.engine.close()
    data = world.settings.data
    assert check_data(data, KEY.account, KEY.region).sound
    with closing(sqlite3.connect(data / "sagelet.db")) as db, db:
        db.execute(damage)
    assert any("the record of tuning job" in found.what for found in check_data(data, KEY.account, KEY.region).findings)
    assert check_data(data, KEY.account, KEY.region, repair=True).sound
    assert check_data(data, KEY.account, KEY.region).sound
    world.engine = world.boot()
    with pytest.raises(OrchestrationNotFound):
        tuning(world)
    assert len(list(world.engine._store.every_job())) == 1
