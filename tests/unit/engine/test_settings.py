"""Settings name themselves when they are wrong."""

from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.errors import DataDirectoryInUse, SettingsError
from sagelet_engine.settings import (
    GpuPolicy,
    RuntimeChoice,
    Settings,
    SlurmTask,
    default_data_directory,
    default_max_jobs,
)
from sagelet_engine.state.owner import lock_directory

FS = "fs-0123456789abcdef0"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"port": -1}, "--port -1"),
        ({"port": 65536}, "--port 65536"),
        ({"max_jobs": 0}, "--max-jobs 0"),
        ({"max_hosts": 0}, "--max-hosts 0"),
        ({"file_systems": {"fs-1": Path("/tmp")}}, "--file-system fs-1=/tmp: a file system's id is"),
        ({"file_systems": {FS: Path("tmp")}}, f"--file-system {FS}=tmp: must be a directory that exists"),
        ({"file_systems": {FS: Path("/nowhere/at/all")}}, "must be a directory that exists"),
        ({"file_systems": {FS: Path("/")}, "data": Path("/tmp/data")}, "must not see sagelet's own files"),
        ({"file_systems": {FS: Path("/tmp")}, "data": Path("/")}, "must not see sagelet's own files"),
        ({"stop_grace_seconds": -1}, "--stop-grace -1"),
        ({"spot_discount": -0.1}, "--spot-discount -0.1"),
        ({"spot_discount": 1.0}, "--spot-discount 1.0"),
        ({"image_rules": Path("/nowhere/rules.toml")}, "--image-rules /nowhere/rules.toml"),
        ({"slurm_task": SlurmTask.APPTAINER}, "--slurm-task apptainer: say with --slurm-images"),
        ({"slurm_task": SlurmTask.ENROOT, "slurm_images": Path("images")}, "its path must be absolute"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        Settings(**wrong)


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data/home")
    settings = Settings()
    assert settings.data == Path("/data/home/sagelet")
    assert (settings.host, settings.port, settings.stop_grace_seconds) == ("127.0.0.1", 4599, 120)
    assert (settings.runtime, settings.gpus) == (RuntimeChoice.AUTO, GpuPolicy.AUTO)
    assert settings.max_jobs == default_max_jobs() >= 2
    assert settings.host_limit == max(8, settings.max_jobs)
    assert Settings(max_jobs=20).host_limit == 20
    assert Settings(max_jobs=20, max_hosts=3).host_limit == 3


@pytest.mark.parametrize("home", ["", None, "relative"])
def test_the_data_directory_without_a_usable_xdg_variable(monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    """XDG Base Directory Specification: a relative path is invalid and ignored."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("XDG_DATA_HOME", home)
    assert default_data_directory() == Path("/home/me/.local/share/sagelet")


def test_no_home_directory_is_a_wrong_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", no_home)
    with pytest.raises(SettingsError, match="--data"):
        Settings()


def test_a_data_directory_that_cannot_be_made_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for data in (tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(SettingsError, match=f"--data {data}"):
            lock_directory(data)


def test_the_owner_of_a_data_directory_is_named(tmp_path: Path) -> None:
    import os

    lock = lock_directory(tmp_path)
    with pytest.raises(DataDirectoryInUse, match=f"process {os.getpid()}"):
        lock_directory(tmp_path)
    lock.close()
    lock_directory(tmp_path).close()
