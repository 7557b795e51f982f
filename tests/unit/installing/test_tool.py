"""images/training/installing/tool.py: which of uv and pip installs, and by which commands."""

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from installing.tool import InstallFailed, Tool, choose, find_uv

UV = """#!/bin/sh
[ "$1" = --version ] && { echo "uv $VERSION"; exit 0; }
[ "$1 $2" = "pip compile" ] && { cat "$LOCK"; exit 0; }
exit 9
"""


PIP_SETTINGS = defaultdict[str, dict[str, str]](dict, {"/configured/python": {"only-binary": ":all:"}})


class Runs:
    """Remembers commands, and fails those with a word."""

    def __init__(self, failing: str = "") -> None:
        self.commands: list[list[str]] = []
        self.environ: Mapping[str, str] = {}
        self._failing = failing

    def __call__(self, command: Sequence[str], environ: Mapping[str, str]) -> int:
        self.commands.append(list(command))
        self.environ = environ
        return int(self._failing in command)


@pytest.fixture
def bin_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a uv of 0.9, which is the whole of PATH but for the system's."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "uv").write_text(UV)
    (directory / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    monkeypatch.setenv("VERSION", "0.9.1")
    # Of Pythons that are not there, too. test_pip_settings.py reads pip's real configuration.
    monkeypatch.setattr("installing.tool.read", lambda python: PIP_SETTINGS[python])
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    for name in os.environ:
        if name.startswith(("UV_", "SAGELET_INSTALLER")):
            monkeypatch.delenv(name)
    return directory


def test_uv_on_the_path_installs_into_the_python(bin_: Path) -> None:
    runs = Runs()
    tool = choose("/a/python", run=runs)
    tool(["install", "--index-url", "https://a", "x"])
    words = ["install", "--python", "/a/python", "--default-index", "https://a", "x"]
    assert runs.commands == [[str(bin_ / "uv"), "pip", *words]]


def test_what_uv_cannot_pip_does_without_uv_s_variables(bin_: Path) -> None:
    runs = Runs()
    Tool("/a/python", str(bin_ / "uv"), {"UV_INDEX": "https://a"}, runs)(["download", "--dest", "d", "x"])
    command = ["/a/python", "-m", "pip", "download", "--disable-pip-version-check", "--dest", "d", "x"]
    assert runs.commands == [command]
    assert "UV_INDEX" not in runs.environ


def test_uv_is_installed_into_the_environment_where_there_is_none(bin_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip puts it beside the environment's Python."""
    python = bin_.parent / "environment" / "python"

    def install(command: Sequence[str], environ: Mapping[str, str]) -> int:
        assert command[1:4] == ["-m", "pip", "install"]
        python.parent.mkdir()
        (bin_ / "uv").rename(python.with_name("uv"))
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        return 0

    moved = bin_ / "uv"
    hidden = moved.read_text()
    moved.write_text("#!/bin/sh\nexit 127\n")
    assert find_uv([]) is None, "a command of pyenv's for a version that is not chosen"
    moved.write_text(hidden)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert choose(str(python), run=install).uv == str(python.with_name("uv"))


def test_pip_installs_where_uv_cannot_be_had(bin_: Path) -> None:
    (bin_ / "uv").unlink()
    said: list[str] = []
    tool = choose("/a/python", say=said.append, run=Runs(failing="uv>=0.8,<1"))
    assert (tool.uv, said) == (None, ["pip installs, because uv cannot be had"])
    assert tool.find_wheel("torch==2.9.0") is None


def test_pip_installs_where_its_settings_have_no_counterpart(bin_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    assert choose("/configured/python", say=said.append, run=Runs()).uv is None
    assert said == ["pip installs, because uv has nothing like pip's setting only-binary"]
    monkeypatch.setenv("SAGELET_INSTALLER", "uv")
    assert choose("/configured/python", run=Runs()).uv == str(bin_ / "uv")


def test_the_person_chooses(bin_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGELET_INSTALLER", "pip")
    assert choose("/a/python", run=Runs()).uv is None
    monkeypatch.setenv("SAGELET_INSTALLER", "uv")
    (bin_ / "uv").unlink()
    with pytest.raises(InstallFailed, match="SAGELET_INSTALLER=pip does without it"):
        choose("/a/python", run=Runs(failing="uv>=0.8,<1"))


def test_an_old_uv_is_passed_over(bin_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERSION", "0.7.22")
    assert find_uv([]) is None


def test_a_failure_names_the_other_way(bin_: Path) -> None:
    with pytest.raises(InstallFailed, match=r"uv failed: install x\. SAGELET_INSTALLER=pip uses pip"):
        choose("/a/python", run=Runs(failing="x"))(["install", "x"])


@pytest.mark.parametrize(("written", "compiled"), [("", None), ("1", "1")])
def test_files_are_compiled_where_python_may_not_write_them(
    bin_: Path, monkeypatch: pytest.MonkeyPatch, written: str, compiled: str | None
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", written)
    assert choose("/a/python", run=Runs()).variables.get("UV_COMPILE_BYTECODE") == compiled


@pytest.mark.parametrize(
    ("lock", "url"),
    [
        ('wheels = [{ url = "https://a/x-1-py3-none-any.whl", size = 3 }]', "https://a/x-1-py3-none-any.whl"),
        ('wheels = [{ url = "https://a/x-1-cp311.whl" }, { url = "https://a/x-1-cp312.whl" }]', None),
        ('wheels = [{ path = "/a/x-1-py3-none-any.whl" }]', None),
    ],
    ids=["one", "several", "a file"],
)
def test_the_wheel_s_address_is_in_uv_s_lock(
    bin_: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: str, url: str | None
) -> None:
    (tmp_path / "lock").write_text(lock)
    monkeypatch.setenv("LOCK", str(tmp_path / "lock"))
    found = choose("/a/python", run=Runs()).find_wheel("x==1")
    assert (found and found.url) == url


@pytest.mark.index
def test_an_environment_gets_uv_and_what_uv_installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With whatever is configured for pip here. The index names the wheel of a release."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("SAGELET_INSTALLER", raising=False)
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    python = tmp_path / "bin" / "python"
    tool = choose(str(python))
    tool(["install", "idna==3.10"])
    installed = subprocess.run([python, "-m", "pip", "list"], capture_output=True, text=True, check=True).stdout
    assert "idna" in installed
    if tool.uv is not None:
        remote = tool.find_wheel("idna==3.10")
        assert remote is not None
        assert remote.name == "idna-3.10-py3-none-any.whl"
