"""Runs `pip install -r FILE` once for all hosts that ask for the same packages, and keeps the installation.

The interpreter of a host's packages (`host_site.py`) runs it as `python -I host_requirements.py FILE`; standard
library only. Its output goes to the job's log, and its exit status is pip's.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

# sagelet's packages are not among the host's packages.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))

from sagelet_engine.runtimes.node import host_namespaces, host_packages
from sagelet_engine.runtimes.node.host_site import PLAIN
from sagelet_engine.runtimes.node.kept_packages import KeptPackages
from sagelet_engine.runtimes.node.plan import MadePackages
from sagelet_engine.runtimes.node.requirements_key import NotKept, key_of

KEPT = "is installed, and kept for other jobs"


def main(file: str) -> int:
    root = Path(sys.prefix)
    description = host_packages.read(root)
    keep = description["keep"]
    assert keep is not None, "the host keeps its packages for itself"
    kept = KeptPackages(Path(keep))
    try:
        key = key_of(file, sys.path, os.environ)
        told = "was installed before, and is kept for other jobs" if kept.path(key).is_dir() else KEPT
        code = _ready(kept, key, file, description)
        packages = kept.acquire(key, root) if code == 0 else None
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


def _ready(kept: KeptPackages, key: str, file: str, description: MadePackages) -> int:
    """Makes sure that the packages are kept. Returns pip's exit code."""
    if kept.path(key).is_dir():
        return 0
    with kept.turn(key):
        if kept.path(key).is_dir():
            return 0
        with kept.draft(key) as draft:
            own: MadePackages = {**description, "directory": str(draft), "keep": None}
            host_packages.make(own)
            environment = host_packages.environment(str(draft), dict(os.environ))
            code = _pip(str(draft / "bin" / "python"), file, environment)
            if code == 0:
                host_packages.strip(draft, own)
                kept.publish(draft, key)
            return code


def _pip(python: str, file: str, environment: dict[str, str]) -> int:
    """Runs pip. SIGTERM is passed on to it, so that pip removes its own files."""
    child = subprocess.Popen([python, "-m", "pip", "install", "-r", file], env={**environment, PLAIN: "1"})
    signal.signal(signal.SIGTERM, lambda number, _frame: child.send_signal(number))
    code = child.wait()
    return code if code >= 0 else 128 - code


def _protect(packages: Path, description: MadePackages) -> None:
    """Makes the packages read-only by a mount, since root ignores modes. The mount is in the host's own namespace."""
    if description["namespaces"] == "root":
        host_namespaces.make_read_only(str(packages))


def _names(packages: Path, description: MadePackages) -> list[str]:
    found = host_packages.site_directory(packages, description).glob("*.dist-info")
    return sorted(path.name.removesuffix(".dist-info") for path in found)


def _say(text: str) -> None:
    print(f"sagelet: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
