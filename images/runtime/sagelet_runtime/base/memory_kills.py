"""Tells whether the kernel killed a process of this cgroup for memory.

SIGKILL alone does not say so: a launcher, a script or a person may send it. AWS's toolkit calls each exit code 137
`OutOfMemory: Process killed by SIGKILL (signal 9)`.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

#: Of cgroup v2, and of v1: `oom_kill N`.
_MOUNTS = (("", "memory.events"), ("memory", "memory.oom_control"))
_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
#: The beginning of the toolkit's words.
_SAID = "OutOfMemory"
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)


def count(proc: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")) -> int:
    """Returns how many processes of the cgroup the kernel has killed for memory. 0 if it does not say."""
    return max((_read(file) for file in _files(proc, mount)), default=0)


def _files(proc: Path, mount: Path) -> list[Path]:
    """Returns the files of this process's cgroup, or of the root in a container that does not see its own path."""
    try:
        entries = [line.split(":", 2) for line in proc.read_text().splitlines()]
    except OSError:
        return []
    files = []
    for _, controllers, path in (entry for entry in entries if len(entry) == len(_MOUNTS) + 1):
        for controller, name in _MOUNTS:
            if controller in controllers.split(","):
                own = mount / controller / path.lstrip("/") / name
                files.append(own if own.exists() else mount / controller / name)
    return files


def _read(file: Path) -> int:
    try:
        found = _COUNT.search(file.read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0


class Watch:
    """Remembers the count from before the script."""

    def __init__(self) -> None:
        self._before = count()

    @property
    def killed(self) -> bool:
        """True if the kernel has killed a process of the cgroup since."""
        return count() > self._before


def install() -> None:
    """Takes the toolkit's words about memory out of failures in which the cgroup has none of it."""
    from sagemaker_training import errors

    kind, watch = errors._CalledProcessError, Watch()
    original = kind.__init__

    def __init__(self: object, cmd: object, return_code: int | None = None, output: object = None,
                 info: str | None = None) -> None:  # fmt: skip
        if return_code in KILLED and (info is None or info.startswith(_SAID)):
            info = f"{_SAID}: Process killed by SIGKILL (signal 9)" if watch.killed else None
        original(self, cmd, return_code, output, info)

    kind.__init__ = __init__
