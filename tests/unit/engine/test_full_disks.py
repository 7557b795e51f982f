"""A full disk under a job that has ended: its results wait for room, and what is known is said in a line."""

import errno
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.errors import SageletError, is_known
from sagelet_engine.base.volume import is_full
from sagelet_engine.data import processing
from sagelet_engine.data.artifacts import Uploader
from sagelet_engine.data.directory_sync import DirectorySync
from sagelet_engine.doctor.case import Case, Progress
from sagelet_engine.doctor.rules import job_ends
from sagelet_engine.execution import host_watch, supervisor
from sagelet_engine.model.job import JobKey, JobKind
from sagelet_engine.reports import processing_findings
from sagelet_engine.reports.compile_reports import CompileReports
from support.processing import processing_request
from support.world import World, until

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(supervisor, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(host_watch, "POLL_S", 0.01)
    running = World(tmp_path)
    yield running
    running.engine.close()


class Disk:
    """Lets a function fail for a full disk until there is room."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.tries, self.full = 0, True
        original = getattr(owner, name)

        def tried(*arguments: Any, **options: Any) -> Any:
            self.tries += 1
            if self.full:
                raise FULL
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, tried)


@pytest.mark.parametrize(
    ("owner", "name", "changes"),
    [(Uploader, "upload", {}), (DirectorySync, "sync", {"CheckpointConfig": {"S3Uri": "s3://ck/run"}})],
)
def test_a_model_waits_for_room(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: Any, owner: Any, name: str, changes: dict[str, Any]
) -> None:
    disk = Disk(monkeypatch, owner, name)
    world.create("one", **changes)
    host = world.host("one")
    (host.plan.hosts[0].opt_ml / "model" / "w").write_bytes(b"weights")
    host.end(0)
    until(lambda: disk.tries > 5)
    job = world.job("one")
    assert job.secondary.value == "Uploading"
    assert "Waiting for room on the disk: " in job.transitions[-1].message
    assert "Free space on its disk" in job.transitions[-1].message
    disk.full = False
    assert world.ended("one").secondary.value == "Completed"
    assert list(world.objects.under("out")) == ["models/one/output/model.tar.gz"]
    assert len([line for line in world.log("one") if "results wait for room on the disk" in line]) == 1
    ours = [record for record in caplog.records if record.levelno >= logging.WARNING and "room" in record.message]
    assert len(ours) == 1
    assert ours[0].exc_info is None


@pytest.mark.parametrize(("owner", "name"), [(processing.OutputUploader, "upload"), (processing_findings, "keep")])
def test_the_outputs_of_a_processing_job_wait_for_room(
    world: World, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    disk = Disk(monkeypatch, owner, name)
    key = JobKey("123456789012", "us-east-1", "one", JobKind.PROCESSING)
    world.engine.processing.create(key, processing_request("one"), {})
    host = until(lambda: next(iter(world.runtime.hosts.values()), None))
    host.end(0)
    until(lambda: disk.tries > 5)
    assert not world.engine.processing.get(key).terminal
    disk.full = False
    until(lambda: world.engine.processing.get(key).terminal)
    assert world.engine.processing.get(key).secondary.value == "Completed"


def test_the_report_of_a_job_waits_for_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch, CompileReports, "conclude")
    world.create("one")
    world.host("one").end(0)
    until(lambda: disk.tries > 5)
    assert not world.job("one").terminal
    disk.full = False
    assert world.ended("one").secondary.value == "Completed"


def test_a_job_that_cannot_start_for_a_full_disk_ends_with_one_line(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """It has no results. Nothing waits for a disk that the job itself may have filled."""
    Disk(monkeypatch, CompileReports, "conclude")

    def no_room(*_: object, **__: object) -> None:
        raise FULL

    monkeypatch.setattr("sagelet_engine.execution.training_work.TrainingWork.stage", no_room)
    world.create("one")
    job = world.ended("one")
    assert job.failure_reason is not None
    assert job.failure_reason.startswith("InternalServerError")
    (record,) = [one for one in caplog.records if "internal error" in one.message]
    assert not record.exc_info
    cause = job.transitions[-1].message
    case = Case(progress=Progress("Failed", reason=job.failure_reason, cause=cause))
    (seen,) = job_ends.not_run(case)
    assert seen.instead is not None
    assert seen.instead.startswith("Free space on the disk")
    assert "defect" not in seen.instead


def test_what_is_known_and_what_is_full() -> None:
    caused = SageletError("s3")
    caused.__cause__ = FULL
    assert [is_full(one) for one in (FULL, caused, OSError(errno.EDQUOT, ""), OSError(errno.EIO, ""), KeyError())] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert [is_known(one) for one in (FULL, caused, FileNotFoundError(errno.ENOENT, ""), KeyError())] == [
        True, True, False, False,
    ]  # fmt: skip
