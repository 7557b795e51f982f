"""What works beside a job and loses something says so in the job's log."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.data.directory_sync import DirectorySync
from sagelet_engine.execution import job_notes
from sagelet_engine.execution.job_notes import JobNotes
from sagelet_engine.model.runtime import Handle, Usage
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.telemetry.compiler import sampling
from sagelet_engine.telemetry.usage import UsageSampler
from support.fakes import FakeClock, FakeRuntime
from support.world import World, until

CHECKPOINTS = {"CheckpointConfig": {"S3Uri": "s3://ck/run"}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    running = World(tmp_path)
    yield running
    running.engine.close()


def warnings(world: World, **changes: Any) -> list[str]:
    """The warnings in the log of a job that ends well."""
    world.create("one", **changes)
    world.host("one").end(0)
    assert world.ended("one").secondary.value == "Completed"
    return [line for line in world.log("one") if line.startswith("sagelet: warning")]


# --- the lines ------------------------------------------------------------------------------------------------------


def test_a_line_is_noted_once_and_stays_until_it_is_written() -> None:
    def fails(_host: str, _text: str) -> None:
        raise StoreUnavailable("full")

    notes, written = JobNotes(), list[tuple[str, str]]()
    notes.add("algo-1", "a")
    notes.add("algo-1", "a")
    notes.add("", "b")
    with pytest.raises(StoreUnavailable):
        notes.write(fails)
    notes.write(lambda host, text: written.append((host, text)))
    notes.write(lambda host, text: written.append((host, text)))
    assert written == [("algo-1", "a"), ("", "b")]


def test_the_number_of_lines_is_bounded() -> None:
    notes, written = JobNotes(), list[str]()
    for number in range(1000):
        notes.add("", f"line {number}")
    notes.write(lambda _host, text: written.append(text))
    assert len(written) == job_notes.MOST + 1
    assert written[-1] == "sagelet: warning: more was left out; the server's log has the rest"


# --- who notes ------------------------------------------------------------------------------------------------------


def test_points_that_do_not_reach_cloudwatch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("moto")

    monkeypatch.setattr(world.metrics, "publish", fails)
    world.create("one", AlgorithmSpecification=_measured("loss=(.*)"))
    host = world.host("one")
    host.say("loss=1")
    host.end(0)
    world.ended("one")
    said = [line for line in world.log("one") if "sagelet: warning" in line]
    assert said == ["sagelet: warning: metrics are not in CloudWatch until the server's next start: KeyError: 'moto'"]


def test_a_metric_definition_that_takes_too_long(world: World) -> None:
    world.create("one", AlgorithmSpecification=_measured("(a|aa)+$"))
    host = world.host("one")
    host.say("a" * 60 + "!")
    host.end(0)
    world.ended("one")
    assert any("metric 'm' is left out from here on" in line for line in world.log("one"))


def _measured(regex: str) -> dict[str, Any]:
    image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.13.1-gpu-py39"
    definitions = [{"Name": "m", "Regex": regex}]
    return {"TrainingImage": image, "TrainingInputMode": "File", "MetricDefinitions": definitions}


def test_checkpoints_that_do_not_reach_s3_for_now(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagelet_engine.data.directory_sync.PERIOD", 0.01)
    original = DirectorySync.sync

    def fails(self: DirectorySync, *, final: bool = False) -> None:
        if not final:
            raise OSError(5, "Input/output error")
        original(self, final=final)

    monkeypatch.setattr(DirectorySync, "sync", fails)
    world.create("one", **CHECKPOINTS)
    host = world.host("one")
    why = "OSError: [Errno 5] Input/output error; sagelet tries again"
    text = f"sagelet: warning: files do not reach S3 for now: {why}"
    until(lambda: world.engine.logs.streams("123456789012", "us-east-1", "one/") and text in world.log("one"))
    host.end(0)
    world.ended("one")
    assert world.log("one").count(text) == 1


def test_a_report_that_cannot_be_read_while_the_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise KeyError("steps")

    monkeypatch.setattr(sampling, "LOOKS", (0.0,))
    notes, closing = JobNotes(), threading.Event()
    written: list[str] = []
    sampler = sampling.ReportSampler(fails, closing, notes.add)
    sampler.start()
    until(lambda: notes.write(lambda _host, text: written.append(text)) or written)
    sampler.stop()
    assert written == ["sagelet: warning: the compile report cannot be read while the job runs: KeyError: 'steps'"]


def test_hosts_that_cannot_be_removed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_runtime: FakeRuntime, job_id: str) -> None:
        tried.append(job_id)
        raise OSError(5, "Input/output error")

    def no_inputs(*_: object, **__: object) -> None:
        raise RuntimeError("staging failed")

    tried: list[str] = []
    monkeypatch.setattr("sagelet_engine.execution.host_watch.MOST_REMOVALS", 2)
    monkeypatch.setattr(FakeRuntime, "reap", fails)
    monkeypatch.setattr("sagelet_engine.execution.training_work.TrainingWork.stage", no_inputs)
    world.create("one")
    assert world.ended("one").status.value == "Failed"
    assert len(tried) == 2
    (line,) = world.log("one")
    assert line.startswith("sagelet: warning: the hosts could not be removed and may still run: OSError: [Errno 5]")


def test_points_of_an_instance_wait_for_the_store() -> None:
    class Fixed:
        """A host's readings: one point a minute."""

        handle, complete, fault = Handle("algo-1", "ref", 0), True, ""
        points = lambda _self: [MetricPoint("CPUUtilization", 1.0, 1, "algo-1")]  # noqa: E731
        look = lambda *_: None  # noqa: E731

    class Measured(FakeRuntime):
        usage = lambda *_: Usage(1.0, 1, 10)  # type: ignore[assignment]  # noqa: E731

    def publish(points: list[MetricPoint]) -> None:
        if closed:
            raise StoreUnavailable("the disk is full")
        published.extend(points)

    closed, published, notes = [True], list[MetricPoint](), list[str]()
    clock = FakeClock()
    note = lambda _host, text: notes.append(text)  # noqa: E731
    sampler = UsageSampler(Measured(clock), clock, [], publish, threading.Event(), note)
    sampler._meters = [Fixed()]  # type: ignore[list-item]
    sampler._guarded(sampler._meters[0], sampler._look)
    assert published == []
    closed.clear()
    sampler._guarded(sampler._meters[0], sampler._look)
    assert len(published) == 2
    closed.append(True)
    sampler.stop()
    assert notes == ["sagelet: warning: 1 points of instance metrics could not be stored"]
