"""The files through which a host, its shim (`host_shim.py`) and servers of any age communicate.

Standard library only: the shim runs without site-packages. All files are in the host's `run_dir`:

- `lock`: the shim holds an exclusive flock on it while it lives. The kernel frees the lock however the shim ends.
- `plan.json`: what to run. The server writes it before it starts a shim.
- `started.json`: written once, before the command starts. Where it exists, the host is never started again.
- `exit.json`: written last, when no process of the host is left. Its space is reserved before the command starts,
  because the command may fill the disk.
- `output.log`: stdout and stderr of the command. The shim appends to it (`host_output.py`).
"""

import contextlib
import os
import signal

LOCK = "lock"
PLAN = "plan.json"
STARTED = "started.json"
EXIT = "exit.json"
OUTPUT = "output.log"
SHIM_LOG = "keeper.log"
#: The member of `exit.json` with the requests that the host got before its end. Each is a letter that its runtime
#: defines.
HEARD = "heard"

#: The environment variable that every process of a host inherits. It finds processes that left the session, too.
COOKIE = "SAGELET_HOST_COOKIE"

#: Exit statuses of the shim's first process, read by `launch`.
READY, IN_USE, ALREADY_STARTED = 0, 3, 4


def _stat_fields(pid: int) -> list[str]:
    """Returns fields 3 and on of /proc/PID/stat (the name before them may hold spaces). Empty without the process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def start_time(pid: int) -> str:
    """Returns when a process started, in ticks since boot; empty without the process. Unique together with the pid."""
    fields = _stat_fields(pid)
    return fields[19] if fields else ""


def pids() -> list[int]:
    """Returns the ids of all visible processes. Empty without /proc (macOS)."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return []


def descendants(root: int) -> list[int]:
    """Returns the living processes below `root`, at any depth."""
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
    """Sends SIGKILL. A process that has ended is not an error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_by_cookie(cookie: str) -> None:
    """Kills the processes left by a host whose shim is gone. Repeats until it finds none, since they may fork."""
    wanted = f"{COOKIE}={cookie}".encode()
    for _ in range(100):
        left = [pid for pid in pids() if pid != os.getpid() and _has_cookie(pid, wanted)]
        if not left:
            return
        for pid in left:
            kill(pid)
