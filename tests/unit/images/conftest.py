from pathlib import Path

import pytest

from sagelet_engine.images import debian
from sagelet_engine.images.builder import CA_BUNDLE_VARIABLES
from support.docker_double import EngineDouble, Recorder


@pytest.fixture
def engine() -> EngineDouble:
    return EngineDouble()


@pytest.fixture
def report() -> Recorder:
    return Recorder()


@pytest.fixture(autouse=True)
def _no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in CA_BUNDLE_VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def debootstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Installs a debootstrap that makes a tiny tree, and fakes root's rights. Returns the file with its arguments."""
    arguments = tmp_path / "arguments"
    program = tmp_path / "bin" / "debootstrap"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        f'echo "$@" > {arguments}\n'
        'echo "I: Retrieving Packages"\n'
        'mkdir -p "$4/etc/ssl/certs" "$4/var/cache/apt/archives" && echo deb > "$4/var/cache/apt/archives/x.deb"\n'
        'echo ours > "$4/etc/os-release"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr(debian.os, "geteuid", lambda: 0)
    return arguments


@pytest.fixture
def no_debootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian.shutil, "which", lambda name: None)
