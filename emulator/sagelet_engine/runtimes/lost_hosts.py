"""Finds processes of hosts that no server can adopt any more, wherever they were started.

Their data directory was deleted, or their job's files were set aside (`sagelet check --repair`), or they feed a job
that is no longer known. A path does not show this, since the directory may have been moved. The kernel does: a process
keeps its working directory wherever that is moved, and the directory has no link left only after it was deleted.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from sagelet_engine.data.channels import feeder
from sagelet_engine.runtimes.node import host_files, host_shim

#: Programs that outlive a server, and the signal that ends each one together with its processes.
_FEEDER = Path(feeder.__file__).name
_PROGRAMS = {Path(host_shim.__file__).name: signal.SIGUSR1, _FEEDER: signal.SIGKILL}
#: The beginning of the names of directories into which a repair moves files of jobs that are no longer known.
SET_ASIDE = "set-aside-"


@dataclass(frozen=True)
class LostProcess:
    pid: int
    directory: str
    end: signal.Signals
    #: Together with the process id it identifies the process for good.
    start_time: str
    #: Why no server adopts it, as a relative clause about the directory.
    why: str

    def __str__(self) -> str:
        return f"process {self.pid} of {self.directory}, {self.why}"


def lost_processes(
    data: Path | None = None, known_jobs: Callable[[], Collection[str]] = frozenset
) -> list[LostProcess]:
    """Returns shims and feeders of this user whose working directory was deleted. Empty without /proc.

    With `data` (a data directory) and `known_jobs` (which returns the ids of its jobs), processes of unknown jobs are
    returned, too. Shims below `data/jobs` are left out: their runtime has them in its index.
    """
    root = None if data is None else os.path.realpath(data)
    # Processes first, then jobs: a job created meanwhile is in the store before it has processes.
    there = host_files.pids()
    known = known_jobs()
    return [found for pid in there for found in _lost(pid, root, known)]


def end_process(lost: LostProcess) -> None:
    """Ends a host and all of its processes. A host that has already ended is not an error."""
    if host_files.start_time(lost.pid) == lost.start_time:
        with contextlib.suppress(ProcessLookupError):
            os.kill(lost.pid, lost.end)


def is_deleted(path: str) -> bool:
    """True if the directory behind a link of /proc was deleted; False if that cannot be seen."""
    try:
        return os.stat(path).st_nlink == 0
    except OSError:
        return False


def _lost(pid: int, data: str | None, known: Collection[str]) -> Iterator[LostProcess]:
    with contextlib.suppress(OSError):
        if os.stat(f"/proc/{pid}").st_uid != os.getuid():
            return
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        program = next((Path(word).name for word in words[1:5] if Path(word).name in _PROGRAMS), None)
        if program is None:
            return
        directory = os.readlink(f"/proc/{pid}/cwd")
        if is_deleted(f"/proc/{pid}/cwd"):
            directory, why = directory.removesuffix(" (deleted)"), "which was deleted"
        elif data is not None and _is_of_no_job(program, os.path.relpath(directory, data), known):
            why = "of a job that is not known here"
        else:
            return
        yield LostProcess(pid, directory, _PROGRAMS[program], host_files.start_time(pid), why)


def _is_of_no_job(program: str, place: str, known: Collection[str]) -> bool:
    """True if the program belongs to no known job. `place`: its working directory, relative to the data directory."""
    first, *rest = place.split(os.sep)
    if first == "jobs" and program == _FEEDER:
        return len(rest) > 2 and rest[2] not in known
    return first.startswith(SET_ASIDE)
