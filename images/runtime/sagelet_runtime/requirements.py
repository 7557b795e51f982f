"""What pip and uv may not change in a job, and whether torch_xla has survived what they did.

For the toolkit, SDK v3's driver and the script's own pip. torch_xla fits one torch, and nothing in its metadata says
so. A `torchvision` in requirements.txt would bring the newest torch, and torch_xla would load no more: so pip gets a
constraint file (pip.pypa.io, "Constraints Files").
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sagelet_runtime import installed
from sagelet_runtime.pip_errors import EXACT, PINS

#: What is built for one torch.
KEPT = ("torch", "torch_xla", "torchvision", "torchaudio")
#: In the job's own directory of configuration.
FILE = "input/config/sagelet-constraints.txt"
PIP, UV = "PIP_CONSTRAINT", "UV_CONSTRAINT"
#: Of `pip config list`. What is said of installing goes before what is said of all commands.
_SETTING = re.compile(r"^(?P<section>install|global)\.constraint=(?P<value>.+)$", re.MULTILINE)


def constrain(base: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that hold pip and uv to what is here. `base`: /opt/ml, or what stands for it."""
    if environ.get(PINS, "").strip().lower() == EXACT:
        return {}
    found = kept()
    if not found:
        return {}
    file = Path(base, FILE)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(found) + "\n")
    # Both take several, with blanks between; a URL has none in it. uv of before June 2024 knows paths alone.
    url, path = file.as_uri(), str(file)
    return {
        PIP: _joined(environ.get(PIP, "").split() or _configured(environ), url),
        UV: _joined(environ.get(UV, "").split(), url if len(path.split()) > 1 else path),
    }


def kept() -> list[str]:
    """What is here of it, as `name==version`."""
    return [f"{name}=={found}" for name in KEPT if (found := installed.version(name)) is not None]


def _joined(others: Sequence[str], own: str) -> str:
    return " ".join([*(one for one in others if one != own), own])


def _configured(environ: Mapping[str, str]) -> list[str]:
    """Constraints of pip's configuration, which the variable takes the place of.

    pip itself is asked, as it knows what goes before what; but only where a file names one at all, as that takes time.
    """
    if not any("constraint" in text for text in _configurations(environ)):
        return []
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], env=dict(environ), capture_output=True, text=True, check=False
    )
    # Where it fails every other pip of the job will, and says why.
    found = {one["section"]: str(ast.literal_eval(one["value"])) for one in _SETTING.finditer(asked.stdout)}
    return (found.get("install") or found.get("global") or "").split()


def _configurations(environ: Mapping[str, str]) -> Iterator[str]:
    """The texts of pip's configuration (pip.pypa.io, "Configuration"), and perhaps of more."""
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


def check_afterwards() -> None:
    """Has the toolkit look at torch_xla after it has installed requirements. For compiled jobs.

    What is installed raises the toolkit's ClientError then, if torch_xla cannot be loaded.
    """
    from sagemaker_training import modules

    before = kept()
    for name in ("install", "install_requirements"):
        setattr(modules, name, _checked(getattr(modules, name), before))


def _checked(install: Any, before: Sequence[str]) -> Any:
    def install_and_check(*arguments: Any, **options: Any) -> None:
        install(*arguments, **options)
        check(before)

    return install_and_check


def check(before: Sequence[str]) -> None:
    """Raises the toolkit's ClientError where torch_xla cannot be used. `before`: what was `kept` before.

    By a Python of its own: this one does not see all that was installed.
    """
    from sagemaker_training import errors

    look = subprocess.run(
        [sys.executable, "-m", "sagelet_runtime.installed", *before], capture_output=True, text=True, check=False
    )
    if look.returncode:
        raise errors.ClientError(
            f"requirements.txt was installed, and torch_xla cannot be used after it. {look.stdout.strip()} "
            "Or take what brought another torch out of requirements.txt, or pin it to a version that fits"
        )


def is_pip(command: Sequence[str]) -> bool:
    """Whether a command installs packages."""
    return list(command[1:4]) == ["-m", "pip", "install"]
