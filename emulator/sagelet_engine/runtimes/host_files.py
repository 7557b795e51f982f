"""The files by which a host of the process runtime, its keeper (`host_shim`) and the servers of all times meet.

Standard library only: the keeper runs without site-packages. All files lie in the host's `run_dir`:

- `lock`: the keeper holds an exclusive flock on it as long as it lives; the kernel frees it, whatever kills the keeper.
- `plan.json`: what to run (written by the server before it starts a keeper).
- `started.json`: written once, before the command starts. Where it exists the host is never started again.
- `exit.json`: written last, when no process of the host is left; its space is taken before the command starts, as the
  command may fill the disk.
- `output.log`: stdout and stderr of the command, appended by the keeper (see `host_output`).
"""

import contextlib
import errno
import fcntl
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

from sagelet_engine import nofollow

LOCK = "lock"
PLAN = "plan.json"
STARTED = "started.json"
EXIT = "exit.json"
OUTPUT = "output.log"
KEEPER_LOG = "keeper.log"

#: Bytes of the largest of them: a plan has the job's environment.
MOST = 16 * 1024**2
#: Bytes that are enough for an end with the system's words for it.
RESERVED = 1024

#: The environment variable that every process of a host inherits, so that it is found even when it left the session.
COOKIE = "SAGELET_HOST_COOKIE"

#: Exit statuses of the keeper's first process, read by `launch`.
READY, IN_USE, ALREADY_STARTED = 0, 3, 4


def write_json(path: str | Path, content: dict[str, Any]) -> None:
    """Writes the file whole or not at all, on the disk when it returns; readable by its owner only."""
    temporary = f"{path}.{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        _write(temporary, json.dumps(content))
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def reserved(path: str | Path) -> str:
    """Where the space of a file is until it is written."""
    return f"{path}.reserved"


def reserve(path: str | Path) -> None:
    """Takes the space of a file that is to be written with `write_reserved`. Raises OSError on a full disk."""
    _write(reserved(path), " " * RESERVED)


def write_reserved(path: str | Path, content: dict[str, Any]) -> None:
    """As `write_json`, within the space that is there since `reserve`: on a full disk, too."""
    text = json.dumps(content)
    if len(text) > RESERVED:
        write_json(path, content)
        return
    descriptor = os.open(reserved(path), os.O_WRONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "w") as file:
        file.write(text.ljust(RESERVED))
        file.flush()
        os.fsync(file.fileno())
    os.replace(reserved(path), path)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def read_json(path: str | Path) -> dict[str, Any] | None:
    """The content of a file of `write_json`; None when there is none. Raises ValueError for what is no JSON object."""
    try:
        with nofollow.open_path(path) as file:
            content = nofollow.parsed(file.read(MOST + 1), MOST)
    except nofollow.NoFile:
        return None
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no JSON object")
    return content


def is_locked(path: str | Path) -> bool:
    """Whether a keeper holds this lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _stat_fields(pid: int) -> list[str]:
    """Fields 3.. of /proc/PID/stat (the name before them may hold spaces); empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def start_time(pid: int) -> str:
    """When the process started, in ticks since boot: with the pid, a name for good. Empty: no such process."""
    fields = _stat_fields(pid)
    return fields[19] if fields else ""


def pids() -> list[int]:
    """All processes that can be seen; none where there is no /proc (macOS)."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return []


def descendants(root: int) -> list[int]:
    """The living processes below `root`, at any depth."""
    children: dict[int, list[int]] = {}
    for pid in pids():
        fields = _stat_fields(pid)
        if fields and fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(pid)
    found, queue = [], [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def _has_cookie(pid: int, cookie: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return cookie in file.read().split(b"\0")
    except OSError:  # it ended, or it belongs to another user and so not to this host
        return False


def kill(pid: int) -> None:
    """SIGKILL; a process that has ended is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_by_cookie(cookie: str) -> None:
    """Kills what is left of a host whose keeper is gone, until nothing is found: a process may fork meanwhile."""
    wanted = f"{COOKIE}={cookie}".encode()
    for _ in range(100):
        left = [pid for pid in pids() if pid != os.getpid() and _has_cookie(pid, wanted)]
        if not left:
            return
        for pid in left:
            kill(pid)
