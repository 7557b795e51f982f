"""Installs what jobs of the process runtime need into the Python that runs sagelet: torch, and what is beside it."""

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Callable, Sequence

from sagelet_engine.base.errors import SageletError
from sagelet_engine.images.context import find_root
from sagelet_engine.images.variants import TorchBuild

INSTALLER = "training/install_torch.py"
#: The container's package, a directory of the build context.
RUNTIME = "runtime"
PREPARED = "sagelet_runtime.inductor.prepared"
EXTRA = "xla"

#: Runs a command whose output the user sees, and returns its exit status.
Runner = Callable[[Sequence[str]], int]


class TorchNotInstalled(SageletError):
    """uv or pip failed. Its output says why."""


def install_own_torch(build: TorchBuild, run: Runner = subprocess.call) -> None:
    """Installs the packages of the extra `xla` with this build of torch. AUTO is the build without CUDA.

    Raises TorchNotInstalled and BuildContextMissing.
    """
    others = requirements_of_the_extra()
    versions = {name: take(others, name) for name in ("torch", "torch_xla")}
    options = [word for name, version in versions.items() for word in (f"--{name.replace('_', '-')}", version)]
    root = find_root()
    installer = str(root / INSTALLER)
    _run(run, "torch and what jobs need", [sys.executable, installer, "--build", build.value, *options, *others])
    _run(run, "Inductor's header", ["env", f"PYTHONPATH={root / RUNTIME}", sys.executable, "-m", PREPARED])


def requirements_of_the_extra() -> list[str]:
    """Returns `torch==2.9.0` and the others, from sagelet's metadata. Raises TorchNotInstalled."""
    try:
        required = importlib.metadata.requires("sagelet") or []
    except importlib.metadata.PackageNotFoundError as error:
        raise TorchNotInstalled("sagelet was not installed by pip: its requirements are not known") from error
    marked = (re.fullmatch(r"(.+?)\s*;\s*extra == ['\"](\w+)['\"]", text) for text in required)
    return [found[1] for found in marked if found and found[2] == EXTRA]


def take(requirements: list[str], name: str) -> str:
    """Removes `name==VERSION` from the list, and returns the version."""
    for requirement in requirements:
        found, _, version = requirement.partition("==")
        if re.sub(r"[-_.]+", "_", found.strip()).lower() == name:
            requirements.remove(requirement)
            return version.strip()
    raise TorchNotInstalled(f"sagelet's extra `{EXTRA}` has no {name}=={{VERSION}}: install sagelet again")


def _run(run: Runner, what: str, command: Sequence[str]) -> None:
    status = run(command)
    if status:
        raise TorchNotInstalled(
            f"{what}: the installation ended with exit status {status}; its output above says why. {pip_remedy()}"
        )


def pip_remedy() -> str:
    return f"Where there is no pip, `{sys.executable} -m ensurepip` installs it."
