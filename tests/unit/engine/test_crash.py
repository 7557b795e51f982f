"""kill -9 between any two steps, closing in the middle of work, and what the next server makes of it."""

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from sagelet_engine.base.database import StoreUnavailable, UnknownSchema
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.execution.job_context import Detached
from sagelet_engine.model.job import JobStatus, SecondaryStatus
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.state.owner import lock_directory
from sagelet_engine.store.jobs import Store
from sagelet_engine.store.schema import SCHEMA
from support.world import World, key, until

#: More writes of the record than a job's life has.
WRITES = 12


class Crash:
    """Ends the thread that makes the n-th write of the record, before or after it: nothing else of it happens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, after: bool) -> None:
        self.happened = threading.Event()
        self._armed = True
        self._left = number
        self._after = after
        self._update = Store.update
        crash = self
        monkeypatch.setattr(Store, "update", lambda store, job, **_how: crash(store, job))

    def disarm(self) -> None:
        self._armed = False

    def __call__(self, store: Store, job: TrainingJob) -> TrainingJob:
        if not self._armed or not threading.current_thread().name.startswith("job-"):
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


def end_hosts(world: World, code: int) -> None:
    for host in list(world.runtime.hosts.values()):
        if host.exit_code is None:
            (host.plan.hosts[0].opt_ml / "model/w").write_text("w")
            host.say("last words")
            host.end(code)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(WRITES))
def test_a_crash_at_any_write_loses_nothing_and_doubles_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int, after: bool
) -> None:
    crash = Crash(monkeypatch, number, after)
    world.create("one")

    def crashed_or_ended() -> bool:
        end_hosts(world, 0)
        return crash.happened.is_set() or world.job("one").terminal

    until(crashed_or_ended)
    world.engine.close()
    crash.disarm()
    world.engine = world.boot()

    def ended() -> bool:
        end_hosts(world, 0)
        return world.job("one").terminal

    until(ended)
    job = world.job("one")
    assert job.status is JobStatus.COMPLETED
    assert [entry.status.value for entry in job.transitions] == [
        "Starting", "Downloading", "Training", "Uploading", "Completed",
    ]  # fmt: skip
    assert world.log("one") == ["last words"]
    assert set(world.objects.uploads) == {"s3://out/models/one/output/model.tar.gz"}
    assert not world.runtime.hosts


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(WRITES))
def test_a_crash_and_a_stop_end_stopped(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int, after: bool
) -> None:
    crash = Crash(monkeypatch, number, after)
    world.create("one")
    until(lambda: crash.happened.is_set() or world.job("one").launched)
    if not world.job("one").terminal:
        world.engine.jobs.stop(key("one"))

    def crashed_or_ended() -> bool:
        end_hosts(world, 143)
        return crash.happened.is_set() or world.job("one").terminal

    until(crashed_or_ended)
    world.engine.close()
    crash.disarm()
    world.engine = world.boot()

    def ended() -> bool:
        end_hosts(world, 143)
        return world.job("one").terminal

    until(ended)
    assert world.job("one").status is JobStatus.STOPPED
    assert not world.runtime.hosts


def test_jobs_that_come_before_the_old_ones_are_taken_up_start_once_and_in_order(
    make_world: Callable[..., World],
) -> None:
    world = make_world(max_jobs=1)
    world.create("running")
    world.host("running")
    until(lambda: world.job("running").launched)
    world.create("old")
    world.engine.close()
    world.engine = world.unstarted()
    world.create("new")
    world.engine.start(4599)
    until(lambda: world.job("new").secondary is SecondaryStatus.PENDING)
    world.host("running").end(0)
    world.host("old").end(0)
    world.ended("old")
    world.host("new").end(0)
    world.ended("new")
    assert [world.runtime.launches[world.job(name).id] for name in ("running", "old", "new")] == [1, 1, 1]
    assert world.job("old").placed_ms is not None


@pytest.mark.parametrize("name", ["running", "waiting"])
def test_a_stop_before_the_job_is_taken_up_again_is_heeded(make_world: Callable[..., World], name: str) -> None:
    world = make_world(max_jobs=1)
    world.create("running")
    host = world.host("running")
    until(lambda: world.job("running").launched)
    world.create("waiting")
    world.engine.close()
    world.engine = world.unstarted()
    world.engine.jobs.stop(key(name))
    world.engine.start(4599)
    if name == "running":
        until(lambda: host.signals == ["TERM"])
        host.end(143)
    assert world.ended(name).status is JobStatus.STOPPED


def channel() -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": "s3://in/data"}
    return {"InputDataConfig": [{"ChannelName": "training", "DataSource": {"S3DataSource": source}}]}


def test_closing_while_data_is_downloaded_writes_nothing_afterwards(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagelet_engine.engine.DETACH_SECONDS", 0.05)
    world.objects.put("in", "data/a", b"1")
    begun, gate = threading.Event(), threading.Event()
    download = world.objects.download

    def slow(*arguments: Any) -> None:
        begun.set()
        assert gate.wait(120)
        download(*arguments)

    monkeypatch.setattr(world.objects, "download", slow)
    world.create("one", **channel())
    assert begun.wait(120)
    supervisor = next(thread for thread in threading.enumerate() if thread.name == "job-one")
    world.engine.close()
    before = Store(world.settings.data / "sagelet.db").get(key("one"))
    gate.set()
    supervisor.join(120)
    assert not supervisor.is_alive()
    assert Store(world.settings.data / "sagelet.db").get(key("one")) == before
    assert before.secondary is SecondaryStatus.DOWNLOADING
    assert not world.runtime.hosts
    monkeypatch.setattr(world.objects, "download", download)
    world.engine = world.boot()
    world.host("one").end(0)
    assert world.ended("one").status is JobStatus.COMPLETED


def test_closing_does_not_wait_for_each_job_in_turn(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagelet_engine.engine.DETACH_SECONDS", 3.0)
    world = make_world(max_jobs=16)
    gate = threading.Event()
    waiting = threading.Semaphore(0)

    def stuck(_image: str) -> bool:
        waiting.release()
        gate.wait(120)
        return True

    monkeypatch.setattr(world.runtime, "has_image", stuck)
    for number in range(16):
        world.create(f"job-{number}")
    for _ in range(16):
        assert waiting.acquire(timeout=120)
    closer = threading.Thread(target=world.engine.close)
    closer.start()
    closer.join(40)
    alive = closer.is_alive()
    gate.set()
    closer.join(120)
    assert not alive


def test_lines_wait_for_a_store_that_is_busy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.create("one")
    host = world.host("one")
    until(lambda: world.job("one").launched)
    monkeypatch.setattr("sagelet_engine.execution.supervisor.RETRY_SECONDS", 0.01)
    failures = iter([StoreUnavailable("database is locked")] * 2)
    append = Store.append_output

    def sometimes(*arguments: Any) -> Any:
        if error := next(failures, None):
            raise error
        return append(*arguments)

    monkeypatch.setattr(Store, "append_output", sometimes)
    host.say("1", "2")
    host.end(0)
    assert world.ended("one").status is JobStatus.COMPLETED
    assert world.log("one") == ["1", "2"]
    assert host.signals == []
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "follow-algo-1"])


def test_an_end_that_cannot_be_written_is_written_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.create("one")
    host = world.host("one")
    until(lambda: world.job("one").launched)
    monkeypatch.setattr("sagelet_engine.execution.supervisor.RETRY_SECONDS", 0.01)
    failures = iter([StoreUnavailable("database or disk is full")] * 2)
    update = Store.update

    def sometimes(store: Store, job: TrainingJob, **_how: bool) -> TrainingJob:
        if error := next(failures, None):
            raise error
        return update(store, job)

    monkeypatch.setattr(Store, "update", sometimes)
    host.end(0)
    assert world.ended("one").status is JobStatus.COMPLETED


def test_a_metric_that_is_no_number_fails_no_job(world: World) -> None:
    algorithm = {
        "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.13.1-gpu-py39",
        "TrainingInputMode": "File",
        "MetricDefinitions": [{"Name": "loss", "Regex": r"loss=(\S+)"}],
    }
    world.create("one", AlgorithmSpecification=algorithm)
    host = world.host("one")
    host.say("loss=1", "loss=nan", "loss=inf")
    host.end(0)
    job = world.ended("one")
    assert job.status is JobStatus.COMPLETED
    assert [point.value for point in world.engine.metrics.final(job)] == [1.0]


def open_files(path: Path) -> list[str]:
    return [file.path for file in psutil.Process().open_files() if file.path.startswith(str(path))]


def test_a_closed_engine_has_no_file_open(world: World, tmp_path: Path) -> None:
    world.create("one")
    world.host("one")
    world.restart()
    world.engine.close()
    until(lambda: open_files(tmp_path) == [])


@pytest.mark.parametrize("broken", ["schema", "rules"])
def test_an_engine_that_cannot_start_frees_the_data_directory(world: World, tmp_path: Path, broken: str) -> None:
    world.engine.close()
    rules = tmp_path / "rules.toml"
    rules.write_text("= no TOML" if broken == "rules" else "")
    if broken == "schema":
        with sqlite3.connect(world.settings.data / "sagelet.db") as db:
            db.execute("PRAGMA user_version = 99")
        db.close()
    with pytest.raises(UnknownSchema if broken == "schema" else SettingsError) as caught:
        world.unstarted(image_rules=rules)
    assert caught.value
    lock_directory(world.settings.data).close()
    assert open_files(tmp_path) == []
    if broken == "schema":
        with sqlite3.connect(world.settings.data / "sagelet.db") as db:
            db.execute(f"PRAGMA user_version = {SCHEMA.version}")
        db.close()
