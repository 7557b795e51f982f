"""What pip may not change in a job, what it says when it fails, and whether torch_xla has survived it.

For the toolkit, SDK v3's driver and the script's own pip. torch_xla fits one torch, and nothing in its metadata says
so. A `torchvision` in requirements.txt would bring the newest torch, and torch_xla would load no more: so pip gets a
constraint file (pip.pypa.io, "Constraints Files").
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sagelet_runtime import installed

#: What is built for one torch.
KEPT = ("torch", "torch_xla", "torchvision", "torchaudio")
#: In the job's own directory of configuration.
FILE = "input/config/sagelet-constraints.txt"
VARIABLE = "PIP_CONSTRAINT"
#: Of the job's Environment; `exact`: pip installs what requirements.txt says, whatever breaks by it.
PINS, EXACT = "SAGELET_PINS", "exact"
#: Lines of pip's that are in an ErrorMessage.
_MOST = 6
_ERROR = "ERROR: "
_NOISE = re.compile(r"for help visit|^To fix this you could")
#: Of a release that has no wheel for this Python and cannot be built here, or that does not want this Python.
_NOT_FOR_THIS_PYTHON = re.compile(r"^Failed (?:building wheel|to build) |\(from versions: (?!none\))")
#: The Python of the image of then (docs/how-to/images-of-their-day.md).
_OF_THEN = (3, 9)
_CONSTRAINED = re.compile(r"The user requested \(constraint\) (\S+)")
_ASKED = re.compile(r"^\s+(The user requested [^(\s].*|\S+ \S+ depends on .*)$")


def constrain(base: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that hold pip to what is here. `base`: /opt/ml, or what stands for it."""
    if environ.get(PINS, "").strip().lower() == EXACT:
        return {}
    kept = [f"{name}=={found}" for name in KEPT if (found := installed.version(name)) is not None]
    if not kept:
        return {}
    file = Path(base, FILE)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(kept) + "\n")
    others = [one for one in environ.get(VARIABLE, "").split() if one != file.as_uri()]
    # pip takes several, with blanks between; a URL has none in it.
    return {VARIABLE: " ".join([*others, file.as_uri()])}


def check_afterwards() -> None:
    """Has the toolkit look at torch_xla after it has installed requirements. For compiled jobs.

    What is installed raises the toolkit's ClientError then, if torch_xla cannot be loaded.
    """
    from sagemaker_training import modules

    for name in ("install", "install_requirements"):
        setattr(modules, name, _checked(getattr(modules, name)))


def _checked(install: Any) -> Any:
    def install_and_check(*arguments: Any, **options: Any) -> None:
        install(*arguments, **options)
        _check()

    return install_and_check


def _check() -> None:
    """By a Python of its own: this one does not see all that was installed."""
    from sagemaker_training import errors

    look = subprocess.run(
        [sys.executable, "-m", "sagelet_runtime.installed"], capture_output=True, text=True, check=False
    )
    if look.returncode:
        raise errors.ClientError(
            f"requirements.txt was installed, and torch_xla cannot be used after it. {look.stdout.strip()} "
            "Or take what brought another torch out of requirements.txt, or pin it to a version that fits"
        )


def is_pip(command: list[str]) -> bool:
    """Whether a command installs packages."""
    return command[1:4] == ["-m", "pip", "install"]


class PipErrors:
    """Watches pip's output, line by line, for why it fails. Stands for an ErrorCollector."""

    has_traceback = False

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._constraints: list[str] = []
        self._asked: list[str] = []

    def feed(self, line: str) -> None:
        found = _CONSTRAINED.search(line)
        if found is not None:
            self._constraints.append(found[1])
        elif (asked := _ASKED.match(line)) is not None:
            self._asked.append(asked[1].strip())
        elif line.startswith(_ERROR) and not _NOISE.search(line):
            self._lines.append(line[len(_ERROR) :].strip())

    @property
    def lines(self) -> list[str]:
        """Nothing that a compiler's or a worker's error is looked for in."""
        return []

    def text(self) -> str:
        """pip's own last errors, and the remedy where a constraint or this Python is in the way; empty: none."""
        said = "\n ".join(list(dict.fromkeys(self._lines))[-_MOST:])
        if not self._constraints:
            return said + self._another_python()
        asked = "; ".join(dict.fromkeys(self._asked))
        kept = ", ".join(dict.fromkeys(self._constraints))
        return (
            f"{said}\n {asked}. sagelet keeps {kept}, which torch_xla is built for: take that out of requirements.txt "
            f"or ask for a version that fits; {PINS}={EXACT} in Environment installs what it says, for native jobs"
        )

    def _another_python(self) -> str:
        if sys.version_info[:2] <= _OF_THEN or not any(map(_NOT_FOR_THIS_PYTHON.search, self._lines)):
            return ""
        here = ".".join(map(str, sys.version_info[:2]))
        return (
            f"\n This is Python {here}: ask for a version that has a wheel for it. For pins of 2021 to 2023 there is "
            "an image of their day: `sagelet image build --variant py39`"
        )
