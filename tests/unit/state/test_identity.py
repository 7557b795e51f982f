"""Which directory is which: moved, copied, restored, and one that has lost its id."""

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sagelet_engine.base.errors import SettingsError
from sagelet_engine.runtimes.node import host_files
from sagelet_engine.state import identity
from sagelet_engine.state.directory_identity import DirectoryIdentity
from sagelet_engine.state.identity import Identity, id_of
from sagelet_engine.state.owner import lock_directory

JOB = Path("jobs/123456789012/us-east-1", "a" * 32)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir(mode=0o700)
    return made


def established(data: Path) -> Identity:
    lock = lock_directory(data)
    lock.close()
    return lock.identity


def add_host(data: Path, where: Path, *, ended: bool = False) -> Path:
    """What the process runtime has of a host; `where`: as its files say, the data directory's path."""
    run = data / JOB / "algo-1" / "run"
    run.mkdir(parents=True)
    (run / host_files.STARTED).write_text("{}")
    if ended:
        (run / host_files.EXIT).write_text("{}")
    index = data / "runtime" / "hosts" / ("a" * 32)
    index.mkdir(parents=True)
    (index / "algo-1.json").write_text(json.dumps({"host": "algo-1", "run_dir": str(where / JOB / "algo-1" / "run")}))
    (data / JOB / "pipe").mkdir()
    (data / JOB / "pipe" / "feeder.json").write_text('{"pid": 1}')
    (data / "runtime" / "slurm" / "order").mkdir(parents=True)
    return run


def hosts_are_known(data: Path) -> bool:
    known = [
        (data / JOB / "algo-1" / "run" / host_files.STARTED).exists(), (data / "runtime" / "hosts").exists(),
        (data / "runtime" / "slurm").exists(), (data / JOB / "pipe" / "feeder.json").exists(),
    ]  # fmt: skip
    assert len(set(known)) == 1, known
    return known[0]


def test_an_id_stays_and_is_private(data: Path) -> None:
    first = established(data)
    assert established(data) == first
    assert id_of(data) == first.id
    assert (data / identity.FILE).stat().st_mode & 0o777 == 0o600


def test_a_moved_directory_keeps_its_id_and_its_hosts(data: Path, tmp_path: Path) -> None:
    first = established(data)
    add_host(data, data)
    moved = data.rename(tmp_path / "moved")
    assert id_of(moved) == first.id
    assert established(moved).id == first.id
    assert hosts_are_known(moved)


@pytest.mark.parametrize("how", ["cp -a", "cp -al", "tar", "copytree", "rsync"])
def test_a_copy_gets_an_id_of_its_own_and_forgets_hosts(data: Path, tmp_path: Path, how: str) -> None:
    first = established(data)
    add_host(data, data)
    target = tmp_path / "copy"
    if how == "tar":
        target.mkdir(mode=0o700)
        packed = subprocess.run(["tar", "-C", str(data), "-c", "."], capture_output=True, check=True, timeout=60)
        subprocess.run(["tar", "-C", str(target), "-xp"], input=packed.stdout, check=True, timeout=60)
    elif how in ("copytree", "rsync"):
        # Into a directory that is there, as rsync does it.
        shutil.copytree(data, target, symlinks=True, copy_function=shutil.copy2)
    else:
        subprocess.run([*how.split(), str(data), str(target)], check=True, timeout=60)
    # Nobody has it yet: it has no hosts, whoever asks.
    assert id_of(target) != id_of(target)
    assert established(target).id != first.id
    assert not hosts_are_known(target)
    assert hosts_are_known(data)
    assert established(data) == first


def test_a_directory_that_lost_its_id_counts_as_a_copy(data: Path) -> None:
    first = established(data)
    add_host(data, data)
    (data / identity.FILE).unlink()
    assert id_of(data) != id_of(data)
    assert established(data).id != first.id
    assert not hosts_are_known(data)


def test_an_ended_host_of_a_copy_stays_as_it_ended(data: Path, tmp_path: Path) -> None:
    established(data)
    add_host(data, data, ended=True)
    shutil.copytree(data, tmp_path / "copy")
    established(tmp_path / "copy")
    assert (tmp_path / "copy" / JOB / "algo-1" / "run" / host_files.STARTED).exists()


def test_a_copy_that_is_cut_while_it_forgets_forgets_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = established(data)
    add_host(data, data)
    shutil.copytree(data, tmp_path / "copy")
    monkeypatch.setattr(identity, "_write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        lock_directory(tmp_path / "copy")
    monkeypatch.undo()
    assert established(tmp_path / "copy").id != first.id
    assert not hosts_are_known(tmp_path / "copy")


def test_half_an_identity_file_is_removed_and_a_damaged_one_refused(data: Path) -> None:
    (data / f".{identity.FILE}.1234").write_text("{")
    established(data)
    assert {path.name for path in data.iterdir()} == {"lock", identity.FILE}
    (data / identity.FILE).write_text("{")
    with pytest.raises(SettingsError, match="or remove it"):
        lock_directory(data)


# --- places -----------------------------------------------------------------------------------------------------------

HERE = DirectoryIdentity("/data", 10, 1, "boot", 1000)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (HERE, True),
        (replace(HERE, path="/moved"), True),
        (replace(HERE, inode=11), False),
        # The number was given away again.
        (replace(HERE, born_ns=2000), False),
        (replace(HERE, born_ns=None), True),
        # After a restart of the machine devices have other numbers.
        (replace(HERE, device=2, boot="later"), True),
        # It was mounted again.
        (replace(HERE, device=2), True),
        # A snapshot that is mounted elsewhere has its original's inodes.
        (replace(HERE, device=2, path="/snapshot"), False),
    ],
)
def test_places(other: DirectoryIdentity, same: bool) -> None:
    assert other.is_of_same(HERE) is same
    assert HERE.is_of_same(other) is same


def test_this_machine_says_when_a_directory_was_born(data: Path) -> None:
    place = DirectoryIdentity.of(data)
    assert place.path == os.path.realpath(data)
    assert place.boot
    assert place.born_ns is None or abs(place.born_ns - data.stat().st_ctime_ns) < 3600 * 10**9
