"""The Pythons that sagelet is for: the same in all places, and found as people have them."""

import os
import sys
from pathlib import Path

import pytest
import yaml

from support.pythons import ROOT, VERSIONS, find_python, marker_of

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_package_and_workflow_have_the_same_versions(pytestconfig: pytest.Config) -> None:
    first, last = VERSIONS[0], int(VERSIONS[-1].partition(".")[2]) + 1
    assert f'requires-python = ">={first},<3.{last}"' in (ROOT / "pyproject.toml").read_text()
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    assert tuple(workflow["jobs"]["unit"]["strategy"]["matrix"]["python"]) == VERSIONS
    registered = {line.partition(":")[0] for line in pytestconfig.getini("markers")}
    assert {marker_of(version) for version in VERSIONS} <= registered


@pytest.mark.parametrize(
    ("variable", "directory"),
    [("PYENV_ROOT", f"versions/{OWN}.99"), ("UV_PYTHON_INSTALL_DIR", f"cpython-{OWN}.99-linux-x86_64-gnu")],
)
def test_a_command_that_runs_nothing_is_passed_over(tmp_path: Path, variable: str, directory: str) -> None:
    """pyenv's command for a version that is not chosen."""
    shim = program(tmp_path / "shims" / f"python{OWN}", "exit 127")
    real = program(tmp_path / "root" / directory / "bin" / "python", f'exec {sys.executable} "$@"')
    environ = {"PATH": str(shim.parent), "HOME": str(tmp_path), variable: str(tmp_path / "root")}
    assert find_python(OWN, environ) == real


def test_another_version_by_the_right_name_is_none(tmp_path: Path) -> None:
    other = next(version for version in VERSIONS if version != OWN)
    liar = program(tmp_path / "bin" / f"python{other}", f'exec {sys.executable} "$@"')
    assert find_python(other, {"PATH": str(liar.parent), "HOME": str(tmp_path)}) is None


def test_a_python_on_the_path_is_found(tmp_path: Path) -> None:
    python = program(tmp_path / "bin" / f"python{OWN}", f'exec {sys.executable} "$@"')
    assert find_python(OWN, {"PATH": f"{tmp_path / 'none'}{os.pathsep}{python.parent}", "HOME": "/"}) == python
