"""A function's package is hostile: nothing is written outside of its directory."""

import io
import os
import stat
import zipfile
from pathlib import Path

import pytest

from sagelet_engine.functions import package
from sagelet_engine.functions.package import unpack
from sagelet_engine.model.functions import FunctionRefused


def zipped(*entries: tuple[str | zipfile.ZipInfo, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in entries:
            archive.writestr(name, text)
    return buffer.getvalue()


def with_mode(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = mode << 16
    return entry


def test_files_and_directories(tmp_path: Path) -> None:
    code = zipped(
        ("f.py", "1"), ("inner/", ""), ("inner/deep/g.py", "2"), (with_mode("run", stat.S_IFREG | 0o750), "3")
    )
    unpack(code, tmp_path / "task")
    found = {
        str(path.relative_to(tmp_path / "task")): path.read_text() for path in tmp_path.rglob("*") if path.is_file()
    }
    assert found == {"f.py": "1", "inner/deep/g.py": "2", "run": "3"}
    assert os.access(tmp_path / "task" / "run", os.X_OK)
    assert (tmp_path / "task" / "f.py").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/out", "..", "a\\..\\out"])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FunctionRefused, match="leads out of it"):
        unpack(zipped((name, "x")), tmp_path / "task")
    assert {path.name for path in tmp_path.iterdir()} == {"task"}


def test_a_link_is_refused(tmp_path: Path) -> None:
    code = zipped((with_mode("link", stat.S_IFLNK | 0o777), "/etc/passwd"), ("link/x", "y"))
    with pytest.raises(FunctionRefused, match="symbolic link"):
        unpack(code, tmp_path / "task")


def test_a_file_that_is_a_directory_too_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FunctionRefused, match="as a file and a directory"):
        unpack(zipped(("a", "x"), ("a/b", "y")), tmp_path / "task")


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MOST_BYTES", 1000)
    with pytest.raises(FunctionRefused, match="more than 1000 bytes"):
        unpack(zipped(("a", "x" * 600), ("b", "x" * 600)), tmp_path / "task")
    monkeypatch.setattr(package, "MOST_FILES", 1)
    with pytest.raises(FunctionRefused, match="more than 1 files"):
        unpack(zipped(("a", "x"), ("b", "y")), tmp_path / "other")


@pytest.mark.parametrize("code", [b"", b"no zip", zipped(("a", "x" * 1000))[:-30]])
def test_what_is_no_zip_file_is_refused(tmp_path: Path, code: bytes) -> None:
    with pytest.raises(FunctionRefused, match="not a zip file"):
        unpack(code, tmp_path / "task")
