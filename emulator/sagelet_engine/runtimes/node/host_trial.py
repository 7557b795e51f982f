"""Tries out which namespaces a host of this machine can have. Standard library only: a cluster's nodes use it."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

#: How a host gets its own /opt/ml: mount namespace as root, as an ordinary user, or not at all (paths are rewritten).
Namespaces = Literal["root", "user", "none"]

SHIM = Path(__file__).with_name("host_shim.py")
TIMEOUT_S = 30.0


def shim_command(*arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(SHIM), *arguments]


def namespaces_work(namespaces: Namespaces, *, isolate_network: bool) -> bool:
    """True if the namespaces work. Tries them in another process, since no file shows what the kernel, a container or
    AppArmor allows."""
    with tempfile.TemporaryDirectory(prefix="sagelet-probe-") as directory:
        network = "isolated" if isolate_network else "shared"
        command = shim_command("--probe", directory, namespaces, network)
        trial = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S)
    return trial.returncode == 0


def best_namespaces(*, isolate_network: bool = False) -> Namespaces:
    candidates: tuple[Namespaces, ...] = ("root", "user") if sys.platform == "linux" else ()
    for candidate in candidates:
        if namespaces_work(candidate, isolate_network=isolate_network):
            return candidate
    return "none"
