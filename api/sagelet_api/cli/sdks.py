"""Finds the AWS SDKs of the Pythons here, whose programs could use sagelet."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sagelet_engine.machine.check import Check

DISTRIBUTIONS = ("sagemaker", "sagemaker-core", "boto3", "awscli")
#: The first version that knows AWS_ENDPOINT_URL.
_BOTO3 = (1, 28)
#: The first Python that `sagelet run` reaches.
_PYTHON = (3, 8)
_PATIENCE_S = 30
#: For any Python 3: sys.path as a program of it has it.
_ASK = """
import json, sys
try:
    from importlib.metadata import version
except ImportError:
    version = None
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except Exception:
        pass
print(json.dumps({"python": list(sys.version_info[:2]), "found": found}))
"""


def check_sdks() -> list[Check]:
    """Returns a check for each Python: sagelet's own, and those on PATH."""
    pythons = [Path(sys.executable)]
    on_path = shutil.which("python3") or shutil.which("python")
    if on_path is not None and not _same(Path(on_path), pythons[0]):
        pythons.append(Path(on_path))
    return [check_sdk(str(python), *ask(python)) for python in pythons]


def ask(python: Path) -> tuple[tuple[int, ...], Mapping[str, str]]:
    """Returns a Python's version and its distributions. Empty if it does not answer."""
    try:
        told = subprocess.run(
            [python, "-c", _ASK, *DISTRIBUTIONS], capture_output=True, text=True, timeout=_PATIENCE_S, check=True
        )
        answer = json.loads(told.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return (), {}
    return tuple(answer["python"]), answer["found"]


def check_sdk(python: str, version: tuple[int, ...], found: Mapping[str, str]) -> Check:
    if not version:
        return Check("sdks", False, f"{python} does not answer", needed=False)
    words = ", ".join(f"{name} {found[name]}" for name in DISTRIBUTIONS if name in found)
    seen = f"{python} (Python {'.'.join(map(str, version))}): {words or 'no SDK of AWS'}"
    if version < _PYTHON:
        return Check("sdks", False, seen, "`sagelet run` reaches Python 3.8 and newer", needed=False)
    if "boto3" in found and _numbers(found["boto3"]) < _BOTO3:
        remedy = "this boto3 knows no AWS_ENDPOINT_URL: start programs by `sagelet run -- COMMAND`"
        return Check("sdks", False, seen, remedy, needed=False)
    return Check("sdks", True, seen)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _same(one: Path, other: Path) -> bool:
    """True if both are the same Python. An environment's python is a link to another one, and still not the same."""
    return one.parent.resolve() == other.parent.resolve()
