""".ci/environments.py: what makes the checkout's environments, and what it shows."""

import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


def _environments() -> ModuleType:
    spec = importlib.util.spec_from_file_location("environments", ROOT / ".ci/environments.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["environments"] = module
    spec.loader.exec_module(module)
    return module


environments = _environments()


def test_the_makefile_makes_these_environments() -> None:
    rules = re.findall(r"(?m)^(\.venv[\w-]*)/\.ready:.*\n\t@\$\(MAKE_ENVIRONMENT\)$", (ROOT / "Makefile").read_text())
    assert set(rules) == set(environments.ENVIRONMENTS)
    named = {one.requirements for one in environments.ENVIRONMENTS.values()} - {""}
    assert all((ROOT / "tests" / name).is_file() for name in named)


def test_nothing_of_ci_or_of_the_makefile_installs_by_pip() -> None:
    text = (ROOT / "Makefile").read_text() + (ROOT / ".ci/run").read_text()
    assert not re.search(r"-m pip|\bpip3? install", text)


def test_what_an_extension_needs_is_named_before_anything_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare machine has gcc and no Python.h: its user saw 150 lines of a failed build."""
    assert environments.missing_for_extensions() is None
    monkeypatch.setattr(environments.shutil, "which", lambda _name: None)
    assert "apt-get install gcc" in environments.missing_for_extensions()
    monkeypatch.setattr(environments.sysconfig, "get_path", lambda _name: "/nonexistent")
    assert "apt-get install python3-dev" in environments.missing_for_extensions()


def test_each_line_of_a_command_is_in_the_log_and_in_its_step(tmp_path: Path) -> None:
    commands = environments.Commands(tmp_path / "log")
    with environments.Progress().step("packages") as step, commands.showing(step):
        assert commands([sys.executable, "-c", "import sys; print('one'); print('two', file=sys.stderr); exit(3)"]) == 3
        assert step.now in ("one", "two")
    assert sorted((tmp_path / "log").read_text().split()) == ["one", "two"]


def test_a_failure_shows_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """pip's own error, of an index that has nothing."""
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "x.txt").write_text("no-such-package-of-sagelet\n")
    monkeypatch.setattr(environments, "ENVIRONMENTS", {".venv-x": environments.Environment("x", "x.txt")})
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("SAGELET_INSTALLER", "pip")
    assert environments.main([".venv-x"]) == 1
    shown = capfd.readouterr().err
    assert "No matching distribution found for no-such-package-of-sagelet" in shown
    assert "This failed; the lines above are .venv-x/setup.log" in shown
