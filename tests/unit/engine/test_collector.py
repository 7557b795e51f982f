"""What ended jobs leave behind: how long it stays, what goes first, what never goes."""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagelet_engine.base.errors import JobNotFound
from sagelet_engine.data import removal
from sagelet_engine.data.removal import DirectoryStays, Leftovers
from sagelet_engine.reports import code_digest
from sagelet_engine.retention import thread as retention
from sagelet_engine.retention.gc import Collected, Keep
from support.world import World, key, request, until

DAY = 86_400
MIB = 1 << 20
EVERYTHING_GOES = Keep(files_seconds=0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.engine.close()


def directory(world: World, name: str) -> Path:
    job = world.job(name)
    return world.settings.data / "jobs" / job.key.account / job.key.region / job.id


def finish(world: World, name: str, size: int = 4096, **changes: object) -> None:
    """A job that leaves a file of some bytes, and a script."""
    world.create(name, **changes)
    host = world.host(name)
    opt_ml = host.plan.hosts[0].opt_ml
    (opt_ml / "output" / "scratch").write_bytes(b"x" * size)
    (opt_ml / "code" / "train.py").write_text(f"print({name!r})")
    # A script that saves nothing has a finding of the doctor, which would be kept as its report.
    (opt_ml / "model" / "weights").write_text("w")
    host.say("a line")
    host.end(0)
    world.ended(name)
    until(lambda: not world.engine._supervisors)
    world.clock.turn(1)


def test_files_go_when_they_are_old_enough(world: World) -> None:
    finish(world, "old")
    world.clock.turn(2 * DAY)
    finish(world, "young")
    scripts = code_digest.of(world.settings.data, world.job("old"))
    assert scripts
    report = directory(world, "old") / "report"
    report.mkdir()
    (report / "kept.json").write_text("{}")
    done = world.engine.collect(Keep(files_seconds=DAY))
    assert (done.jobs, done.directories, done.stays) == (0, 1, ())
    assert done.bytes >= 4096
    assert {path.name for path in directory(world, "old").iterdir()} == {"report"}
    assert (report / "kept.json").exists()
    assert (directory(world, "young") / "algo-1").is_dir()
    # All that AWS's API shows is there, and the comparison can still tell scripts apart.
    assert world.log("old") == ["a line"]
    assert code_digest.of(world.settings.data, world.job("old")) == scripts
    assert code_digest.of(world.settings.data, world.job("young")) != scripts
    assert world.engine.collect(Keep(files_seconds=DAY)) == Collected()


def test_of_a_job_without_scripts_and_report_nothing_is_left(world: World) -> None:
    """Ten thousand of them would keep as many empty directories, a block of the disk each."""
    finish(world, "bare")
    left = directory(world, "bare")
    next(left.rglob("train.py")).unlink()
    (left / "report").mkdir()
    assert world.engine.collect(EVERYTHING_GOES).directories == 1
    assert not left.exists()
    assert code_digest.of(world.settings.data, world.job("bare")) == ""
    assert world.log("bare") == ["a line"]
    assert world.engine.collect(EVERYTHING_GOES) == Collected()
    world.engine.jobs.delete(key("bare"))


def test_the_oldest_go_until_the_rest_fits(world: World) -> None:
    for name in ("first", "second", "third"):
        finish(world, name, 4 * MIB)
    assert world.engine.collect(Keep(files_bytes=13 * MIB)) == Collected()
    done = world.engine.collect(Keep(files_bytes=9 * MIB))
    assert done.directories == 1
    assert [(directory(world, name) / "algo-1").exists() for name in ("first", "second", "third")] == [
        False,
        True,
        True,
    ]
    # The youngest stays, whatever it takes: somebody may want to look at it.
    assert world.engine.collect(Keep(files_bytes=0)).directories == 1
    assert (directory(world, "third") / "algo-1").is_dir()


def test_jobs_are_forgotten_only_when_asked(world: World) -> None:
    finish(world, "old")
    world.clock.turn(100 * DAY)
    world.create("running")
    until(lambda: world.job("running").launched)
    assert world.engine.collect(EVERYTHING_GOES).jobs == 0
    done = world.engine.collect(Keep(jobs_seconds=99 * DAY))
    assert done.jobs == 1
    with pytest.raises(JobNotFound):
        world.job("old")
    assert world.engine.logs.streams("123456789012", "us-east-1", "old/") == []
    assert (directory(world, "running") / "algo-1").is_dir()
    world.host("running").end(0)
    assert world.ended("running").status.value == "Completed"


def test_a_dry_run_says_what_would_go_and_touches_nothing(world: World) -> None:
    finish(world, "one")
    keep = Keep(files_seconds=0, jobs_seconds=0)
    said = world.engine.collect(keep, dry_run=True)
    assert (said.jobs, said.directories) == (1, 1)
    assert (directory(world, "one") / "algo-1").is_dir()
    assert world.engine.collect(keep) == said
    assert list((world.settings.data / "jobs" / "123456789012" / "us-east-1").iterdir()) == []


def test_a_warm_pool_keeps_its_job(world: World) -> None:
    resources = {**request("x")["ResourceConfig"], "KeepAlivePeriodInSeconds": 3600}
    finish(world, "pool", ResourceConfig=resources)
    assert world.engine.collect(Keep(files_seconds=0, jobs_seconds=0)) == Collected()
    assert (directory(world, "pool") / "algo-1").is_dir()


def test_what_cannot_go_is_named_and_the_others_go(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stuck", "free"):
        finish(world, name)
    stuck, take = directory(world, "stuck"), Leftovers.take

    def refuse(leftovers: Leftovers, paths: Iterator[Path], size: int | None = None) -> None:
        found = [*paths]
        if found[0].is_relative_to(stuck):
            raise DirectoryStays(f"{found[0]} cannot be moved")
        take(leftovers, found, size)

    with monkeypatch.context() as patch:
        patch.setattr(Leftovers, "take", refuse)
        done = world.engine.collect(EVERYTHING_GOES)
    assert done.directories == 1
    assert done.stays == (f"{stuck / 'algo-1'} cannot be moved",)
    # And goes when it can.
    assert world.engine.collect(EVERYTHING_GOES).directories == 1


def test_what_a_crash_cut_short_goes_with_the_next_look(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(world, "one")
    (directory(world, "one") / "algo-2").mkdir()
    # Some file systems need no block for a directory.
    (directory(world, "one") / "algo-2" / "file").write_bytes(b"1")
    move, count = removal._moved, 0

    def crash(path: Path, root: Path) -> str:
        nonlocal count
        count += 1
        if count == 2:
            raise KeyboardInterrupt
        return move(path, root)

    with monkeypatch.context() as patch:
        patch.setattr(removal, "_moved", crash)
        with pytest.raises(KeyboardInterrupt):
            world.engine.collect(EVERYTHING_GOES)
    world.restart()
    world.engine.collect(EVERYTHING_GOES)
    assert {path.name for path in directory(world, "one").iterdir()} == {"report"}
    until(lambda: not any((world.settings.data / removal.REMOVED).iterdir()))


def test_what_is_deleted_on_a_full_disk_counts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(world, "one")
    (directory(world, "one") / "algo-2").mkdir()
    said = world.engine.collect(EVERYTHING_GOES, dry_run=True)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "rename", refuse)
    assert world.engine.collect(EVERYTHING_GOES) == said
    assert not (directory(world, "one") / "algo-1").exists()


@pytest.mark.parametrize("is_link", [False, True])
def test_what_a_script_put_in_place_of_its_directory_goes(world: World, tmp_path: Path, *, is_link: bool) -> None:
    """It stops neither the collection of other jobs' files, nor is anything deleted through a link."""
    for name in ("one", "two"):
        finish(world, name)
    until(lambda: not world.engine._supervisors)
    where, outside = directory(world, "one"), tmp_path / "outside"
    shutil.rmtree(where)
    outside.mkdir()
    (outside / "file").write_text("precious")
    if is_link:
        where.symlink_to(outside)
    else:
        where.write_text("x")
    done = world.engine.collect(EVERYTHING_GOES)
    assert done.stays == ()
    # A link may take no block of the disk.
    assert is_link or not where.exists()
    assert not (directory(world, "two") / "algo-1").exists()
    assert [path.name for path in outside.iterdir()] == ["file"]


def test_a_server_tidies_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PAUSE_SECONDS", 0.01)
    world = World(tmp_path, keep_files_seconds=0)
    try:
        world.create("one")
        world.host("one").end(0)
        world.ended("one")
        until(lambda: not (directory(world, "one") / "algo-1").exists())
    finally:
        world.engine.close()


def test_space_of_what_was_deleted_goes_back_to_the_disk(world: World) -> None:
    world.create("one")
    host = world.host("one")
    for number in range(3000):
        host.say(f"{number} " + "x" * 500)
    host.end(0)
    world.ended("one")
    until(lambda: not world.engine._supervisors)
    assert world.engine.collect(Keep(jobs_seconds=0)).jobs == 1
    assert world.engine.compact() > MIB
    # The last status is announced by a thread of its own, which then deletes its row.
    until(lambda: world.engine.compact() == 0)
    with pytest.raises(JobNotFound):
        world.engine.jobs.get(key("one"))
