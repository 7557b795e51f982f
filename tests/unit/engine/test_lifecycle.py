"""The table of statuses: complete, and the only way to move a job."""

import itertools

import pytest

from sagelet_engine.model import lifecycle
from sagelet_engine.model.job import JobStatus, SecondaryStatus, StopCause
from sagelet_engine.model.lifecycle import RULES, IllegalTransition, advance, request_stop
from sagelet_engine.model.training import TrainingJob, create
from support.world import key, request

S = SecondaryStatus
START = 1_700_000_000_000
WAY_TO = {
    S.STARTING: (),
    S.PENDING: (S.PENDING,),
    S.DOWNLOADING: (S.DOWNLOADING,),
    S.TRAINING: (S.DOWNLOADING, S.TRAINING),
    S.UPLOADING: (S.DOWNLOADING, S.TRAINING, S.UPLOADING),
    S.STOPPING: (S.STOPPING,),
    S.COMPLETED: (S.DOWNLOADING, S.TRAINING, S.UPLOADING, S.COMPLETED),
    S.FAILED: (S.FAILED,),
    S.STOPPED: (S.STOPPING, S.STOPPED),
    S.MAX_RUNTIME_EXCEEDED: (S.STOPPING, S.MAX_RUNTIME_EXCEEDED),
    S.MAX_WAIT_TIME_EXCEEDED: (S.STOPPING, S.MAX_WAIT_TIME_EXCEEDED),
    S.INTERRUPTED: (S.DOWNLOADING, S.TRAINING, S.INTERRUPTED),
    S.RESTARTING: (S.DOWNLOADING, S.RESTARTING),
}


def new_job() -> TrainingJob:
    return create(key("one"), "id", request("one"), {}, START)


def job_in(status: SecondaryStatus) -> TrainingJob:
    job = new_job()
    for number, step in enumerate(WAY_TO[status], 1):
        job = advance(job, step, START + number * 1000)
    return job


def test_every_status_has_a_rule_and_can_be_reached() -> None:
    assert set(RULES) == set(SecondaryStatus) == set(WAY_TO)
    assert all(job_in(status).secondary is status for status in SecondaryStatus)


@pytest.mark.parametrize(("start", "to"), list(itertools.product(SecondaryStatus, repeat=2)))
def test_only_the_steps_of_the_table_are_taken(start: SecondaryStatus, to: SecondaryStatus) -> None:
    job = job_in(start)
    if start is not to and start not in RULES[to].follows:
        with pytest.raises(IllegalTransition, match=f"one: {start.value} -> {to.value}"):
            advance(job, to, START + 60_000)
        return
    moved = advance(job, to, START + 60_000)
    assert moved.secondary is to
    assert moved.status is RULES[to].job_status
    assert moved.modified_ms == START + 60_000


def test_nothing_follows_a_terminal_status() -> None:
    terminal = {status for status, rule in RULES.items() if rule.job_status.terminal}
    assert terminal == {S.COMPLETED, S.FAILED, S.STOPPED, S.MAX_RUNTIME_EXCEEDED, S.MAX_WAIT_TIME_EXCEEDED}
    assert not any(terminal & rule.follows for rule in RULES.values())


def test_a_message_is_updated_in_place() -> None:
    job = advance(job_in(S.DOWNLOADING), S.DOWNLOADING, START + 9000, lifecycle.DOWNLOADING_IMAGE)
    assert [entry.status for entry in job.transitions] == [S.STARTING, S.DOWNLOADING]
    assert job.transitions[-1].message == "Downloading the training image"
    assert job.transitions[-1].start_ms == job.training_start_ms == START + 1000


def test_the_training_clock_runs_from_downloading_to_the_end() -> None:
    job = job_in(S.COMPLETED)
    assert (job.training_start_ms, job.training_end_ms) == (START + 1000, START + 4000)
    assert job.training_seconds == 3


@pytest.mark.parametrize(("start_ms", "end_ms", "seconds"), [(1999, 2000, 1), (1000, 1999, 0), (1001, 61_000, 60)])
def test_training_seconds_count_whole_epoch_seconds(start_ms: int, end_ms: int, seconds: int) -> None:
    job = create(key("one"), "id", request("one"), {}, 0)
    for step, now in ((S.DOWNLOADING, start_ms), (S.FAILED, end_ms)):
        job = advance(job, step, now)
    assert job.training_seconds == seconds


def test_a_job_that_never_downloaded_has_no_training_time() -> None:
    job = job_in(S.STOPPED)
    assert job.training_start_ms is job.training_end_ms is job.training_seconds is None


def test_a_clock_that_goes_back_does_not_take_the_record_along() -> None:
    job = advance(job_in(S.TRAINING), S.UPLOADING, START - 3_600_000)
    job = advance(job, S.COMPLETED, START - 7_200_000)
    times = [time for entry in job.transitions for time in (entry.start_ms, entry.end_ms)]
    assert times == sorted(time for time in times if time is not None)
    assert job.modified_ms == START + 2000
    assert job.training_seconds == 1


def test_a_stop_is_asked_for_once() -> None:
    job = request_stop(job_in(S.TRAINING), StopCause.USER, START + 5000)
    assert job.status is JobStatus.STOPPING
    assert (job.stop_ms, job.stop_cause) == (START + 5000, StopCause.USER)
    assert request_stop(job, StopCause.MAX_RUNTIME, START + 9000) is job


@pytest.mark.parametrize(
    "status", [S.STARTING, S.PENDING, S.DOWNLOADING, S.TRAINING, S.UPLOADING, S.INTERRUPTED, S.RESTARTING]
)
def test_every_unfinished_job_can_be_stopped(status: SecondaryStatus) -> None:
    assert request_stop(job_in(status), StopCause.USER, START + 9000).secondary is S.STOPPING


@pytest.mark.parametrize("status", [S.COMPLETED, S.FAILED])
def test_an_ended_job_cannot_be_stopped(status: SecondaryStatus) -> None:
    with pytest.raises(IllegalTransition):
        request_stop(job_in(status), StopCause.USER, START + 9000)
