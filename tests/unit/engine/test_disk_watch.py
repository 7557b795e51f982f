"""The job that fills the disk of the data directory ends; the others have room again, and go on."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.volume import GIB, RESERVE, RESERVED_FILES, Room, measured
from sagelet_engine.execution import disk_watch
from support.fakes import FakeObjects
from support.world import World, until


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    running = World(tmp_path)
    yield running
    running.engine.close()


def model_of(world: World, name: str) -> Path:
    world.host(name)
    root = world.settings.data / "jobs" / "123456789012" / "us-east-1" / world.job(name).id
    return root / "algo-1" / "opt-ml" / "model"


def test_the_largest_job_ends_and_the_others_go_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("large", "small"):
        world.create(name)
    large, small = model_of(world, "large"), model_of(world, "small")
    (large / "checkpoint").write_bytes(b"x" * 30_000_000)
    (small / "checkpoint").write_bytes(b"x" * 10_000)
    # A disk with room for ten megabytes of jobs.
    jobs = world.settings.data / "jobs"
    monkeypatch.setattr(disk_watch, "room", lambda _: Room(RESERVE + 10_000_000 - measured(jobs).bytes, 100 * GIB))
    ended = world.ended("large")
    assert (ended.failure_reason or "").startswith("ClientError: No space left on device")
    until(lambda: not large.exists())
    assert world.job("small").failure_reason is None
    world.host("small").end(0)
    assert world.ended("small").secondary.value == "Completed"


def test_a_small_disk_keeps_a_share_of_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that trains on a disk smaller than the reserve is not to blame for that."""
    world.create("fits")
    (model_of(world, "fits") / "checkpoint").write_bytes(b"x")
    monkeypatch.setattr(disk_watch, "room", lambda _: Room(20_000_000, 100_000_000))
    world.host("fits").end(0)
    assert world.ended("fits").secondary.value == "Completed"


def test_a_disk_that_others_filled_ends_no_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes some kilobytes would make no room by its end; nor would the next."""
    world.create("innocent")
    (model_of(world, "innocent") / "checkpoint").write_bytes(b"x" * 100_000)
    looks: list[Path] = []
    monkeypatch.setattr(disk_watch, "room", lambda data: looks.append(data) or Room(0, 100 * GIB))
    until(lambda: len(looks) > 3)
    world.host("innocent").end(0)
    assert world.ended("innocent").secondary.value == "Completed"


def test_inputs_that_fill_the_disk_do_not_stay(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fills(_self: object, _principal: object, _bucket: str, _key: str, target: Path, **_: Any) -> None:
        target.write_bytes(b"x" * 10_000)
        monkeypatch.setattr(disk_watch, "room", lambda _: Room(0, 100 * GIB))
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    monkeypatch.setattr(FakeObjects, "download", fills)
    world.objects.put("in", "data", b"x")
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://in/data"}}
    world.create("reads", InputDataConfig=[{"ChannelName": "a", "DataSource": source}])
    job = world.ended("reads")
    assert (job.failure_reason or "").startswith("InternalServerError")
    assert "No space left on device" in str(job.transitions[-1].message)
    root = world.settings.data / "jobs" / "123456789012" / "us-east-1" / job.id
    assert not (root / "algo-1" / "opt-ml").exists()


def test_the_job_with_most_files_ends_when_inodes_run_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the bytes are free; a disk has room for so many files, too."""
    for name in ("many", "large"):
        world.create(name)
    many, large = model_of(world, "many"), model_of(world, "large")
    for number in range(3000):
        (many / f"{number}").touch()
    (large / "checkpoint").write_bytes(b"x" * 1_000_000)
    jobs = world.settings.data / "jobs"
    free = RESERVED_FILES + 1000
    monkeypatch.setattr(disk_watch, "room", lambda _: Room(90 * GIB, 100 * GIB, free - measured(jobs).files, 1_000_000))
    ended = world.ended("many")
    assert "files more fit on the disk" in (ended.failure_reason or "")
    until(lambda: not many.exists())
    world.host("large").end(0)
    assert world.ended("large").secondary.value == "Completed"


def test_a_file_system_without_a_number_of_inodes_has_no_limit_of_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("fits")
    monkeypatch.setattr(disk_watch, "room", lambda _: Room(90 * GIB, 100 * GIB))
    world.host("fits").end(0)
    assert world.ended("fits").secondary.value == "Completed"
