"""`pip install -r FILE` of a host, for all hosts that ask for the same: installs it once, and keeps that.

Run by the interpreter of a host's packages (`host_site`) as `python -I host_requirements.py FILE`; standard library
only. What it prints is in the job's log, and it ends as pip does.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

# The host's packages do not have ours.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from sagelet_engine.runtimes import host_namespaces, host_packages
from sagelet_engine.runtimes.host_site import PLAIN
from sagelet_engine.runtimes.kept_packages import KeptPackages
from sagelet_engine.runtimes.requirements_key import NotKept, key_of

KEPT = "is installed, and kept for other jobs"


def main(file: str) -> int:
    root = Path(sys.prefix)
    description = host_packages.read(root)
    kept = KeptPackages(Path(description["keep"]))
    try:
        key = key_of(file, sys.path, os.environ)
        told = "was installed before, and is kept for other jobs" if kept.path(key).is_dir() else KEPT
        code = _ready(kept, key, file, description)
        packages = kept.lend(key, root) if code == 0 else None
        if packages is not None:
            host_packages.adopt(root, packages)
            _protect(packages, description)
            names = ", ".join(_names(packages, description)) or "nothing was missing"
            _say(f"{file} {told} as {key[:12]}: {names}")
        if packages is not None or code != 0:
            return code
    except NotKept as reason:
        _say(f"{file} is installed for this job alone: {reason}")
    except OSError as error:
        _say(f"{file} is installed for this job alone, as nothing can be kept: {error}")
    return _pip(sys.executable, file, dict(os.environ))


def _ready(kept: KeptPackages, key: str, file: str, description: dict[str, Any]) -> int:
    """Makes sure that the packages are kept; pip's exit code."""
    if kept.path(key).is_dir():
        return 0
    with kept.turn(key):
        if kept.path(key).is_dir():
            return 0
        with kept.draft(key) as draft:
            own = {**description, "directory": str(draft), "keep": None}
            host_packages.make(own)
            environment = host_packages.environment(str(draft), dict(os.environ))
            code = _pip(str(draft / "bin" / "python"), file, environment)
            if code == 0:
                host_packages.strip(draft, own)
                kept.publish(draft, key)
            return code


def _pip(python: str, file: str, environment: dict[str, str]) -> int:
    """Passes a request to end on: pip takes its own files away."""
    child = subprocess.Popen([python, "-m", "pip", "install", "-r", file], env={**environment, PLAIN: "1"})
    signal.signal(signal.SIGTERM, lambda number, _frame: child.send_signal(number))
    code = child.wait()
    return code if code >= 0 else 128 - code


def _protect(packages: Path, description: dict[str, Any]) -> None:
    """Root writes what nobody may. The mount is the host's own: it has a namespace."""
    if description["namespaces"] == "root":
        host_namespaces.make_read_only(str(packages))


def _names(packages: Path, description: dict[str, Any]) -> list[str]:
    found = host_packages.site_directory(packages, description).glob("*.dist-info")
    return sorted(path.name.removesuffix(".dist-info") for path in found)


def _say(text: str) -> None:
    print(f"sagelet: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
