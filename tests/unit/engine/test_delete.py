"""Deleting a job: its directory with any content, and crashes in between."""

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagelet_engine.base.errors import JobNotFound, TooManyTags
from sagelet_engine.data import removal
from sagelet_engine.retention.gc import Keep
from sagelet_engine.store.jobs import StaleRecord, Store
from support.work import lines_of
from support.world import World, key, until

NOBODY = 65534


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.engine.close()


def directory(world: World, name: str) -> Path:
    job = world.job(name)
    return world.settings.data / "jobs" / job.key.account / job.key.region / job.id


def finish(world: World, name: str) -> None:
    world.create(name)
    world.host(name).end(0)
    world.ended(name)


@pytest.fixture
def own_directory() -> Iterator[Path]:
    """A directory of an ordinary user, whom the test is for as long: root needs no rights."""
    with tempfile.TemporaryDirectory() as made:
        user = os.geteuid() or NOBODY
        os.chown(made, user, -1)
        before = os.geteuid()
        os.seteuid(user)
        try:
            yield Path(made)
        finally:
            os.seteuid(before)


def test_a_tree_that_the_script_locked_goes(own_directory: Path) -> None:
    tmp_path = own_directory
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    outside.chmod(0o500)
    locked = tmp_path / "job" / "locked"
    (locked / "inner").mkdir(parents=True)
    (locked / "inner" / "file").write_text("x")
    (locked / "link").symlink_to(outside)
    os.mkfifo(locked / "pipe")
    (locked / "inner").chmod(0)
    locked.chmod(0)
    removal.remove_tree(tmp_path / "job")
    assert not (tmp_path / "job").exists()
    assert (outside / "kept").read_text() == "x"
    assert outside.stat().st_mode & 0o777 == 0o500
    removal.remove_tree(tmp_path / "job")


def test_a_tree_deeper_than_any_path_or_stack_can_be_deleted(tmp_path: Path) -> None:
    root = tmp_path / "job"
    (root / "removed-0").mkdir(parents=True)
    (root / "removed-0" / "file").write_bytes(b"1")
    here = os.open(root, os.O_RDONLY)
    for number in range(3000):
        name = f"d{number % 7}"
        os.mkdir(name, dir_fd=here)
        os.mkdir("beside", dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(os.open("bad\udcff", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.chmod(here, 0o500 if number else 0o700)
        os.close(here)
        here = below
    os.close(here)
    assert removal.bytes_below(root) > 0
    removal.remove_tree(root)
    assert not root.exists()


def cleared(world: World) -> None:
    until(lambda: not any((world.settings.data / removal.REMOVED).iterdir()))


def test_a_deletion_does_the_same_however_many_files_there_are(world: World) -> None:
    lines = []
    for name, files in (("warm", 1), ("few", 10), ("many", 2000)):
        finish(world, name)
        until(lambda: not world.engine._supervisors)
        for number in range(files):
            (directory(world, name) / "algo-1" / str(number)).touch()
        lines.append(lines_of(lambda name=name: world.engine.jobs.delete(key(name))))
    # A line for each file would be 1990 more.
    assert lines[2] < lines[1] + 100
    # The thread that does so for all deletes the files.
    cleared(world)


def test_what_a_kill_left_of_a_deletion_is_counted_and_goes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(world, "one")
    until(lambda: not world.engine._supervisors)
    with monkeypatch.context() as patch:
        # The server is killed before a file is deleted.
        patch.setattr(removal.Leftovers, "clear", lambda *_, **__: removal.Cleared(0, 0, ()))
        world.engine.jobs.delete(key("one"))
        (left,) = (world.settings.data / removal.REMOVED).iterdir()
        said = world.engine.collect(Keep(), dry_run=True)
        assert (said.directories, said.bytes) == (1, removal.bytes_below(left))
        world.engine.close()
    world.engine = world.unstarted()
    assert world.engine.collect(Keep()) == said
    assert not left.exists()


@pytest.mark.parametrize("code", [errno.EXDEV, errno.ENOSPC, errno.EPERM])
def test_what_cannot_be_moved_is_deleted_at_once(world: World, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """To make space on a full disk, too."""
    finish(world, "one")
    where = directory(world, "one")

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    def refuse_file(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(where / "file"))

    monkeypatch.setattr(Path, "rename", refuse)
    with monkeypatch.context() as patch:
        patch.setattr(removal, "_empty", refuse_file)
        with pytest.raises(removal.DirectoryStays, match=f"file cannot be deleted .* delete {where} as its owner"):
            world.engine.jobs.delete(key("one"))
    assert world.job("one").terminal
    world.engine.jobs.delete(key("one"))
    assert not where.exists()


def test_what_cannot_be_deleted_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    finish(world, "one")

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted", "/data/file")

    with monkeypatch.context() as patch:
        patch.setattr(removal, "_empty", refuse)
        world.engine.jobs.delete(key("one"))
        until(lambda: "/data/file cannot be deleted (Operation not permitted)" in caplog.text)
        (stays,) = world.engine.collect(Keep()).stays
    assert stays.startswith("/data/file cannot be deleted (Operation not permitted); delete ")
    # And goes when it can.
    world.engine.collect(Keep())
    cleared(world)


def test_what_goes_while_a_dry_run_counts_it_is_no_failure(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    leftovers = removal.Leftovers(world.settings.data / "elsewhere")
    for name in ("one", "two"):
        (world.settings.data / "elsewhere" / name).mkdir(parents=True)
        leftovers.take([world.settings.data / "elsewhere" / name])
    measured, count = removal.bytes_below, 0

    def meanwhile(path: Path) -> int:
        nonlocal count
        count += 1
        if count == 2:
            leftovers.clear(measured=False)
        return measured(path)

    monkeypatch.setattr(removal, "bytes_below", meanwhile)
    assert len(leftovers.sizes()) == 2
    assert leftovers.sizes() == {}


@pytest.mark.parametrize("is_link", [False, True])
def test_what_a_user_has_in_a_directory_of_that_name_stays(world: World, tmp_path: Path, *, is_link: bool) -> None:
    removed, theirs = world.settings.data / removal.REMOVED, tmp_path / "theirs"
    world.engine.close()
    (theirs if is_link else removed).mkdir()
    if is_link:
        removed.symlink_to(theirs)
    # As sagelet names what it moves there, and as people do.
    names = {"0" * 32, "novel"} if is_link else {"novel"}
    for name in names:
        (removed / name).mkdir()
        (removed / name / "file").write_text("precious")
    world.restart()
    finish(world, "one")
    where = directory(world, "one")
    world.engine.jobs.delete(key("one"))
    world.engine.collect(Keep())
    assert not where.exists()
    assert {path.name for path in removed.iterdir()} == names
    assert {(path / "file").read_text() for path in removed.iterdir()} == {"precious"}


def test_a_server_that_closes_does_not_wait_for_a_large_tree(tmp_path: Path) -> None:
    """Threads share the time in which they may end, and the next start deletes the rest."""
    looks = 0

    def closing() -> bool:
        nonlocal looks
        looks += 1
        return looks > 20

    leftovers = removal.Leftovers(tmp_path, closing)
    for number in range(100):
        (tmp_path / "one" / f"{number % 2}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "one" / f"{number % 2}" / f"{number}").touch()
    leftovers.take([tmp_path / "one"])
    assert leftovers.clear() == removal.Cleared(0, 0, ())
    assert looks < 25
    assert sum(path.is_file() for path in (tmp_path / removal.REMOVED).rglob("*")) > 50
    removal.Leftovers(tmp_path).clear()
    assert [*(tmp_path / removal.REMOVED).iterdir()] == []


def test_a_directory_that_cannot_be_read_is_named(own_directory: Path) -> None:
    leftovers = removal.Leftovers(own_directory)
    (own_directory / "one").mkdir()
    leftovers.take([own_directory / "one"])
    (own_directory / removal.REMOVED).chmod(0)
    for measured in (True, False):
        (stays,) = leftovers.clear(measured=measured).stays
        assert stays == f"{own_directory / removal.REMOVED} cannot be read (Permission denied): what is in it stays"
    (own_directory / removal.REMOVED).chmod(0o700)
    assert leftovers.clear().directories == 1


def test_a_crash_between_directory_and_record_leaves_a_job_that_can_be_deleted(world: World) -> None:
    finish(world, "one")
    removal.remove_tree(directory(world, "one"))
    world.restart()
    assert world.job("one").terminal
    world.engine.jobs.delete(key("one"))
    with pytest.raises(JobNotFound):
        world.job("one")


def test_a_record_that_changed_is_not_deleted(world: World) -> None:
    finish(world, "one")
    old = world.job("one")
    world.engine.jobs.update(key("one"), lambda job: {"ProfilerConfig": {"DisableProfiler": True}})
    store = Store(world.settings.data / "sagelet.db")
    with pytest.raises(StaleRecord):
        store.delete(old)
    store.close()
    assert world.job("one").version == old.version + 1


def test_an_update_that_changes_nothing_writes_nothing(world: World) -> None:
    finish(world, "one")
    before = world.job("one")
    world.clock.turn(5)
    assert world.engine.jobs.update(key("one"), lambda job: dict(job.request)) == before


def test_too_many_tags_add_none(world: World) -> None:
    finish(world, "one")
    world.engine.jobs.put_tags(key("one"), {"a": "1", "b": "2"}, 2)
    with pytest.raises(TooManyTags, match="can have 2 tags"):
        world.engine.jobs.put_tags(key("one"), {"a": "new", "c": "3"}, 2)
    assert world.job("one").tags == {"a": "1", "b": "2"}


def test_tags_of_a_job_that_was_deleted_meanwhile(world: World) -> None:
    finish(world, "one")
    job = world.job("one")
    world.engine.jobs.delete(key("one"))
    with pytest.raises(JobNotFound):
        world.engine._store.put_tags(job.id, {"a": "1"}, 50)
