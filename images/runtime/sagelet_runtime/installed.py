"""What this Python has, without importing it: torch alone takes seconds and hundreds of megabytes."""

from __future__ import annotations

import re
import sys
from importlib import metadata, util
from pathlib import Path


class TorchXlaUnavailable(Exception):
    """The job asks for the compiler and this Python cannot load torch_xla."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The Training Compiler needs PyTorch/XLA: {reason}. Use the sagelet training image "
            "(`sagelet image build`) or, for the process runtime, `pip install torch==2.9.0 torch_xla==2.9.0`; "
            "or submit the job without compiler_config."
        )


def version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def torch_version() -> str | None:
    """`torch.__version__` with its build tag (`2.9.0+cu128`), read from torch's version file."""
    spec = util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).with_name("version.py")
    found = re.search(r"^__version__ = ['\"](.+)['\"]", file.read_text(), re.MULTILINE) if file.is_file() else None
    return found.group(1) if found else version("torch")


def require_torch_xla() -> str:
    """The version of torch_xla. Raises TorchXlaUnavailable if it is not there or was built for another torch."""
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


def main() -> int:
    """`python -m sagelet_runtime.installed`: 1, and why, where torch_xla cannot be used."""
    try:
        require_torch_xla()
    except TorchXlaUnavailable as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
