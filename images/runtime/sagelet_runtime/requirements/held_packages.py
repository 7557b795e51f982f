"""Keeps pip and uv from replacing torch in a job, and checks afterwards that torch_xla can still be used.

It works for the toolkit, SDK v3's driver and the script's own pip. torch_xla fits one torch only, and nothing in its
metadata says so. A `torchvision` in requirements.txt would bring the newest torch, with which torch_xla does not load.
So pip gets a constraint file (pip.pypa.io, "Constraints Files"). The installation of requirements.txt gets a second
one, so that the installed Transformers can still be imported after it (library_bounds).
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sagelet_runtime.base import installed
from sagelet_runtime.requirements import library_bounds
from sagelet_runtime.requirements.pip_errors import EXACT, KEPT, PINS

#: The constraint file, in the job's own directory of configuration.
FILE = "input/config/sagelet-constraints.txt"
#: That of the installation of requirements.txt alone.
BOUNDS = "input/config/sagelet-bounds.txt"
PIP, UV = "PIP_CONSTRAINT", "UV_CONSTRAINT"
#: A line of `pip config list`. Settings of `install` take precedence over those of all commands (`global`).
_SETTING = re.compile(r"^(?P<section>install|global)\.constraint=(?P<value>.+)$", re.MULTILINE)


def constrain(base: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Writes the constraint file and returns the variables by which pip and uv use it. Empty with SAGELET_PINS=exact.

    `base`: /opt/ml, or the directory in its place.
    """
    if _exact(environ):
        return {}
    found = kept()
    if not found:
        return {}
    file = _written(Path(base, FILE), found + _fitting())
    # Both variables take several files, separated by blanks. A URL has no blank. uv before June 2024 takes only paths.
    url, path = file.as_uri(), str(file)
    return {
        PIP: _joined(environ.get(PIP, "").split() or _configured(environ), url),
        UV: _joined(environ.get(UV, "").split(), url if len(path.split()) > 1 else path),
    }


def _exact(environ: Mapping[str, str]) -> bool:
    return environ.get(PINS, "").strip().lower() == EXACT


def _written(file: Path, lines: Sequence[str]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")
    return file


def kept() -> list[str]:
    """Returns the installed versions of the packages in KEPT, as `name==version`."""
    return [f"{name}=={found}" for name in KEPT if (found := installed.version(name)) is not None]


def _fitting() -> list[str]:
    """Returns the version of torchaudio that fits torch, if none is installed.

    torchaudio has torch's versions. Since 2.9 it requires no torch, so pip would take the newest, which does not load.
    """
    torch = installed.version("torch")
    if torch is None or installed.version("torchaudio") is not None:
        return []
    return [f"torchaudio=={torch.partition('+')[0]}"]


def _joined(others: Sequence[str], own: str) -> str:
    return " ".join([*(one for one in others if one != own), own])


def _configured(environ: Mapping[str, str]) -> list[str]:
    """Returns the constraints of pip's configuration files, which the variable would override.

    pip itself is asked, because it knows the precedence. That takes time, so it is asked only if a file names one.
    """
    if not any("constraint" in text for text in _configurations(environ)):
        return []
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], env=dict(environ), capture_output=True, text=True, check=False
    )
    # If this pip fails, every other pip of the job fails, too, and says why.
    found = {one["section"]: str(ast.literal_eval(one["value"])) for one in _SETTING.finditer(asked.stdout)}
    return (found.get("install") or found.get("global") or "").split()


def _configurations(environ: Mapping[str, str]) -> Iterator[str]:
    """Yields the texts of pip's configuration files (pip.pypa.io, "Configuration"), and perhaps of some others."""
    home = environ.get("HOME", "~")
    directories = [
        *environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep),
        environ.get("XDG_CONFIG_HOME") or f"{home}/.config",
        *(f"{root}/Library/Application Support" for root in ("", home)),
    ]
    files = [f"{one}/pip/pip.conf" for one in directories]
    files += ["/etc/pip.conf", f"{home}/.pip/pip.conf", f"{sys.prefix}/pip.conf"]
    files += [environ[name] for name in ("PIP_CONFIG_FILE",) if environ.get(name)]
    for file in files:
        with suppress(OSError, UnicodeDecodeError):
            yield Path(file).expanduser().read_text()


@contextmanager
def within_bounds(base: str, file: Path) -> Iterator[None]:
    """Has the pip of this process's children keep to what the installed Transformers can be used with.

    Without effect if `file`, a requirements file, chooses those versions itself, and with SAGELET_PINS=exact.
    """
    bounds = library_bounds.bounds()
    if not bounds or _exact(os.environ) or library_bounds.chosen_by(file):
        yield
        return
    before = os.environ.get(PIP)
    url = _written(Path(base, BOUNDS), bounds).as_uri()
    os.environ[PIP] = _joined((before or "").split() or _configured(os.environ), url)
    try:
        yield
    finally:
        # The script's own pip may install another Transformers.
        if before is None:
            del os.environ[PIP]
        else:
            os.environ[PIP] = before


def watch_the_toolkit(base: str, *, compiled: bool) -> None:
    """Has the toolkit install requirements within bounds and, for a compiled job, check torch_xla afterwards.

    The installation then raises the toolkit's ClientError if torch_xla cannot be loaded.
    """
    from sagemaker_training import modules

    before = kept() if compiled else None
    for name in ("install", "install_requirements"):
        setattr(modules, name, _watched(getattr(modules, name), base, before))


def _watched(install: Any, base: str, before: Sequence[str] | None) -> Any:
    def install_and_check(path: str, *arguments: Any, **options: Any) -> None:
        with within_bounds(base, Path(path, "requirements.txt")):
            install(path, *arguments, **options)
        if before is not None:
            check(before)

    return install_and_check


def check(before: Sequence[str]) -> None:
    """Raises the toolkit's ClientError if torch_xla cannot be used. `before`: the value of `kept()` before.

    Starts another Python, because this one does not see everything that was installed.
    """
    from sagemaker_training import errors

    look = subprocess.run(
        [sys.executable, "-m", "sagelet_runtime.base.installed", *before], capture_output=True, text=True, check=False
    )
    if look.returncode:
        raise errors.ClientError(
            f"requirements.txt was installed, and torch_xla cannot be used after it. {look.stdout.strip()} "
            "Or take what brought another torch out of requirements.txt, or pin it to a version that fits"
        )


def is_pip(command: Sequence[str]) -> bool:
    """True if a command is `python -m pip install`."""
    return list(command[1:4]) == ["-m", "pip", "install"]
