"""A reset removes what is sagelet's and nothing else; one that is cut leaves all or nothing, as an import does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.errors import DataDirectoryInUse, SettingsError
from sagelet_engine.model import training
from sagelet_engine.s3.store import S3Store
from sagelet_engine.state.contents import NoDataDirectory
from sagelet_engine.state.owner import lock_directory
from sagelet_engine.state.resetting import reset_data
from sagelet_engine.store.jobs import Store
from support import cut_state
from support.data_directory import contents, fill
from support.world import World, key, request


@pytest.fixture
def data(tmp_path: Path) -> Path:
    fill(tmp_path / "data")
    return tmp_path / "data"


def files(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_nothing_of_ours_is_left_and_all_of_others(data: Path) -> None:
    for name in ("runtime", "warm-pools", "compile-cache"):
        (data / name / "x").mkdir(parents=True)
    others = {"mine.txt", "notes/a", "s3/one-123456789012/mine", "s3/mine", "s3/.escaped/mine"}
    for name in others:
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_text(name)
    (kept,) = reset_data(data, "all", [])
    assert files(data) == {"lock", "identity.json", "mine.txt", "notes/a"} | {
        f"{kept.name}/{name}" for name in ("one-123456789012/mine", "mine", ".escaped/mine")
    }
    assert not (data / "s3").exists()
    # It is a directory to begin with.
    fill(data, "two")
    assert contents(data)


@pytest.mark.parametrize("scope", ["jobs", "objects"])
def test_one_kind_may_stay(data: Path, scope: str) -> None:
    before = contents(data)
    assert reset_data(data, scope, []) == []
    stays = ("s3://",) if scope == "jobs" else ("arn:", "jobs", "iam")
    assert contents(data) == {name: found for name, found in before.items() if name.startswith(stays)}


def test_resets_that_are_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/letter").touch()
    for directory in (tmp_path / "home", tmp_path / "none"):
        with pytest.raises(NoDataDirectory, match="nothing was changed"):
            reset_data(directory, "all", [])
    assert files(tmp_path / "home") == {"letter"}
    assert not (tmp_path / "none").exists()
    lock = lock_directory(data)
    with pytest.raises(DataDirectoryInUse):
        reset_data(data, "all", [])
    lock.close()
    store = S3Store(data / "s3", SystemClock())
    with store.importing(), pytest.raises(DataDirectoryInUse, match="s3 import"):
        reset_data(data, "all", [])
    store.close()
    (data / "s3").rename(tmp_path / "elsewhere")
    (data / "s3").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match="symbolic link"):
        reset_data(data, "all", [])
    assert contents(data)


@pytest.mark.parametrize("broken", [b"no database" * 1000, b""])
def test_damaged_databases_do_not_stand_in_the_way(data: Path, broken: bytes) -> None:
    """What nobody can tell from files of others stays."""
    for name in ("sagelet.db", "s3/.catalog.db"):
        (data / name).write_bytes(broken)
        (data / f"{name}-wal").unlink(missing_ok=True)
    (kept,) = reset_data(data, "all", [])
    assert (kept / "one-123456789012/a").is_file()
    assert {path.name for path in data.iterdir()} == {"lock", "identity.json", kept.name}
    fill(data, "two")


def test_hosts_that_run_still_are_killed(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.engine.close()
    store = Store(world.settings.data / "sagelet.db")
    store.insert(training.create(key("one"), "some-id", request("one"), {}, 1000))
    store.close()
    reaped: list[str] = []
    world.runtime.reap = reaped.append  # type: ignore[method-assign]
    reset_data(world.settings.data, "all", [world.runtime])
    assert reaped == ["some-id"]


@pytest.mark.parametrize("what", ["import", "reset"])
def test_a_cut_at_any_step_leaves_the_old_or_the_new(tmp_path: Path, what: str) -> None:
    command = [sys.executable, cut_state.__file__, str(tmp_path), what]
    roots = [str(Path(__file__).parents[2]), *(path for path in sys.path if path)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": ":".join(roots)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["last"]) == (0, "new"), done.stderr
    assert answer["seen"].keys() == {"old", "new"}, done.stderr
    assert min(answer["seen"].values()) > 2
