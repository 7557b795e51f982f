"""Finds out which packages this Python has, without an import: torch alone takes seconds and hundreds of megabytes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata, util
from pathlib import Path


class TorchXlaUnavailable(Exception):
    """The job asks for the compiler and this Python cannot load torch_xla."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The Training Compiler needs PyTorch/XLA: {reason}. Use the sagelet training image "
            "(`sagelet image build`) or, for the process runtime, `sagelet install-torch`; "
            "or set SAGELET_COMPILER=inductor in the job's Environment, which needs torch only; "
            "or submit the job without compiler_config."
        )


def version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def recorded_digest(distribution: str, path: str) -> str:
    """Returns `sha256=...` of a distribution's file, as its installer recorded it. Empty if it recorded none."""
    try:
        files = metadata.files(distribution) or ()
    except metadata.PackageNotFoundError:
        return ""
    found = (one.hash for one in files if one.hash is not None and one.name == Path(path).name)
    return next((f"{digest.mode}={digest.value}" for digest in found), "")


def torch_version() -> str | None:
    """Returns `torch.__version__` with its build tag (`2.9.0+cu128`), or None if torch is not installed.

    Reads torch's version file.
    """
    spec = util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).with_name("version.py")
    found = re.search(r"^__version__ = ['\"](.+)['\"]", file.read_text(), re.MULTILINE) if file.is_file() else None
    return found.group(1) if found else version("torch")


def torch_has_cuda() -> bool:
    """True if the installed torch requires NVIDIA's packages. sagelet's build without CUDA, and PyTorch's, do not."""
    try:
        required = metadata.requires("torch") or ()
    except metadata.PackageNotFoundError:
        return False
    return any(text.startswith("nvidia-") for text in required)


def require_torch_xla() -> str:
    """Returns the version of torch_xla. Raises TorchXlaUnavailable if it is missing or was built for another torch."""
    xla, torch = version("torch_xla"), version("torch")
    if xla is None or util.find_spec("torch_xla") is None:
        raise TorchXlaUnavailable("torch_xla is not installed")
    if torch is None:
        raise TorchXlaUnavailable("torch is not installed")
    if torch.split(".")[:2] != xla.split(".")[:2]:
        raise TorchXlaUnavailable(
            f"torch_xla {xla} does not load with torch {torch} (the first two numbers must agree)"
        )
    return xla


def changed(before: Iterable[str]) -> str:
    """Says which packages of `before` (`name==version`) have another version now, and which packages asked for it."""
    told = []
    for one in before:
        name, _, former = one.partition("==")
        if version(name) != former:
            who = "; ".join(dict.fromkeys(_needing(name, former))) or "requirements.txt itself asks for another one"
            told.append(f"{name} was {former} before: {who}.")
    return " ".join(told)


def _needing(name: str, former: str) -> Iterator[str]:
    """Yields the installed packages whose requirements the version `former` of `name` does not meet."""
    # Not imported at the top: this module is also used where only the standard library is installed.
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    for found in metadata.distributions():
        for text in found.requires or ():
            try:
                need = Requirement(text)
            except InvalidRequirement:
                continue
            wanted = need.marker is None or need.marker.evaluate({"extra": ""})
            if canonicalize_name(need.name) == canonicalize_name(name) and wanted and former not in need.specifier:
                yield f"{found.metadata['Name']} {found.version} needs {need.name}{need.specifier}"


def main(before: Sequence[str]) -> int:
    """`python -m sagelet_runtime.base.installed torch==2.9.0`: exits 1 and prints why if torch_xla cannot be used.

    `before`: the versions that were installed before.
    """
    try:
        require_torch_xla()
    except TorchXlaUnavailable as error:
        print(error, changed(before))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
