"""Limits how many processes a host may have, where the system can do that. Standard library only.

Linux has two ways. A control group (v1 or v2, `pids`) counts the host's own processes and binds root, too; making one
takes root, or a delegated group. RLIMIT_NPROC counts all processes of a user, so the limit is that user's count now
plus the host's share; it does not bind root. Root without a writable control group has neither.
"""

import contextlib
import os
import resource
import sys
import time
from collections.abc import Iterator

CGROUPS = "/sys/fs/cgroup"


def make_group(name: str, most: int) -> str | None:
    """Makes a control group for at most `most` processes and threads.

    Returns its directory, or None if no control group can be made.
    """
    for parent in _parents() if sys.platform == "linux" else ():
        group = os.path.join(parent, name)
        with contextlib.suppress(OSError):
            os.mkdir(group)
            try:
                _write(os.path.join(group, "pids.max"), most)
            except OSError:
                os.rmdir(group)
                continue
            return group
    return None


def enter(group: str | None, most: int) -> None:
    """Limits this process and its descendants. Called between fork and exec."""
    if group is not None:
        with contextlib.suppress(OSError):
            _write(os.path.join(group, "cgroup.procs"), os.getpid())
            return
    if os.getuid() != 0 and hasattr(resource, "RLIMIT_NPROC"):
        _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        wanted = _tasks_of_user() + most
        bound = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NPROC, (bound, bound))


def remove_group(group: str | None) -> None:
    """Removes the group of a host that is down. Waits up to 5 seconds for the host's last processes to go."""
    deadline = time.monotonic() + 5
    while group is not None and time.monotonic() < deadline:
        try:
            os.rmdir(group)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.01)
        else:
            return


def remove_left(name: str) -> None:
    """Removes a host's control group that its shim could not remove because it was killed."""
    for parent in _parents() if sys.platform == "linux" else ():
        if os.path.isdir(os.path.join(parent, name)):
            remove_group(os.path.join(parent, name))


def group_of(cookie: str) -> str:
    """Returns the name of a host's group."""
    return f"sagelet-{cookie}"


def _parents() -> Iterator[str]:
    """Yields groups that may get a group below them, from this process's own group upwards."""
    with open("/proc/self/cgroup") as file:
        ours = dict(line.rstrip("\n").split(":", 2)[1:] for line in file)
    if "pids" in ours:
        yield from _upwards(os.path.join(CGROUPS, "pids"), ours["pids"])
    for place in _upwards(CGROUPS, ours.get("", "/")):
        with contextlib.suppress(OSError), open(os.path.join(place, "cgroup.subtree_control")) as file:
            if "pids" in file.read().split():
                yield place


def _upwards(root: str, path: str) -> Iterator[str]:
    while True:
        yield root + path.rstrip("/")
        if path in ("/", ""):
            return
        path = os.path.dirname(path)


def _tasks_of_user() -> int:
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{pid}/task"))
    return count


def _write(path: str, value: int) -> None:
    with open(path, "w") as file:
        file.write(str(value))
