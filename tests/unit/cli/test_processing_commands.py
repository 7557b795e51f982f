"""`sagelet processing`, as a person and as a program uses it."""

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from sagelet_api.web import PREFIX
from sagelet_engine.model.job import JobKey, JobKind
from sagelet_engine.model.processing import ProcessingJob
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.fakes import FakeHost
from support.processing import processing_request
from support.world import until

Sagelet = Callable[..., Result]


def job(world: ApiWorld, name: str) -> ProcessingJob:
    return world.engine.processing.get(JobKey(ACCOUNT, REGION, name, JobKind.PROCESSING))


def host(world: ApiWorld, name: str) -> FakeHost:
    ref = f"{job(world, name).id}/algo-1"
    found: FakeHost = until(lambda: world.runtime.hosts.get(ref))
    return found


@pytest.fixture
def three(world: ApiWorld) -> ApiWorld:
    """Jobs: `done`, `broken` and `running`."""
    for name, code in (("done", 0), ("broken", 1), ("running", None)):
        world.sagemaker.create_processing_job(**processing_request(name))
        host(world, name).say(f"{name} says one")
        if code is not None:
            host(world, name).end(code)
            until(lambda name=name: job(world, name).terminal)
        world.clock.turn(60)
    return world


def test_list_is_of_processing_jobs_alone(three: ApiWorld, sagelet: Sagelet) -> None:
    three.create("a-training-job")
    lines = [line.split("\t") for line in sagelet("processing", "list").stdout.splitlines()]
    assert [line[:2] for line in lines] == [["running", "InProgress"], ["broken", "Failed"], ["done", "Completed"]]
    assert lines[1][3] == "AlgorithmError: , exit code: 1"
    only = json.loads(sagelet("processing", "list", "--status", "failed", "--json").stdout)
    assert [one["ProcessingJobName"] for one in only] == ["broken"]
    assert [line.split("\t")[0] for line in sagelet("jobs").stdout.splitlines()] == ["a-training-job"]


def test_describe_and_logs(three: ApiWorld, sagelet: Sagelet) -> None:
    told = sagelet("processing", "describe", "broken").stdout
    assert "AlgorithmError: , exit code: 1" in told
    assert "1 x ml.m5.large" in told
    assert json.loads(sagelet("processing", "describe", "done", "--json").stdout)["ProcessingJobStatus"] == "Completed"
    followed = sagelet("processing", "logs", "-f", "done")
    assert followed.stdout == "done says one\n"
    assert "done: Completed; processed" in followed.stderr


def test_the_time_is_that_of_the_page_and_of_the_bill(world: ApiWorld, sagelet: Sagelet) -> None:
    """From 0.6 s of a second to 0.1 s of the next is a second, as of training jobs."""
    world.clock.turn(1.6 - world.clock.now_ms() % 1000 / 1000)
    world.sagemaker.create_processing_job(**processing_request("short"))
    short = host(world, "short")
    world.clock.turn(0.5)
    short.end(0)
    until(lambda: job(world, "short").terminal)
    assert (job(world, "short").training_seconds, job(world, "short").billable_seconds) == (1, 1)
    assert "processed 1 s" in sagelet("processing", "wait", "short").stdout
    assert "Time\t1 s\n" in sagelet("processing", "describe", "short").stdout


def test_stop_wait_and_delete(three: ApiWorld, sagelet: Sagelet) -> None:
    assert "stop it first (`sagelet processing stop running`)" in sagelet("processing", "delete", "running").stderr
    assert sagelet("processing", "stop", "running").stdout == "running: Stopping\n"
    assert sagelet("processing", "wait", "running", "--timeout", "0").exit_code == 5
    host(three, "running").end(143)
    assert sagelet("processing", "wait", "running").exit_code == 4
    assert sagelet("processing", "wait", "done", "broken").exit_code == 3
    assert sagelet("processing", "stop", "done").stdout == "done: Completed\n"
    assert sagelet("processing", "delete", "--yes", "done", "running").stdout == "done: deleted\nrunning: deleted\n"
    twice = sagelet("processing", "delete", "--yes", "broken", "broken")
    assert twice.stdout == "broken: deleted\n"
    assert "no processing job broken in us-east-1" in twice.stderr
    assert "no processing job done" in sagelet("processing", "describe", "done").stderr


def test_the_commands_of_training_jobs_name_these(three: ApiWorld, sagelet: Sagelet) -> None:
    asks = (
        ("describe",),
        ("logs",),
        ("stop",),
        ("wait",),
        ("doctor",),
        ("report",),
        ("interrupt",),
        ("tune", "batch-size"),
    )
    for command in asks:
        told = sagelet(*command, "done")
        assert told.exit_code == 1
        assert "done is a processing job: `sagelet processing` has list" in told.stderr


def test_a_failure_is_explained_and_its_page_opens(three: ApiWorld, sagelet: Sagelet) -> None:
    told = sagelet("processing", "describe", "broken").stdout
    assert "What happened\tThe script ended with exit code 1" in told
    assert 'its last line was "broken says one"' in told
    answer = json.loads(sagelet("processing", "doctor", "broken", "--json").stdout)
    assert [one["rule"] for one in answer["findings"]] == ["script-exit"]
    assert sagelet("processing", "doctor", "broken").stdout.startswith("broken (Failed): 1 finding")
    assert "What to do" in three.page(f"{PREFIX}/processing/broken").data.decode()
    assert "/processing/broken?" in sagelet("open", "broken").stdout
    assert sagelet("open", "no-such-job").exit_code == 1
