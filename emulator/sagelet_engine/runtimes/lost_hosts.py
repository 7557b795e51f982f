"""Hosts whose data directory was deleted under them: nobody can adopt them any more, wherever they were started.

A name says nothing: the directory may have been moved. The kernel knows better. A directory that a process works in
has no link left only once it was deleted, and stays itself wherever it is moved.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sagelet_engine.data.channels import feeder
from sagelet_engine.runtimes import host_files, host_shim

#: Programs that outlive a server, and the signal that ends each with all that it holds.
_PROGRAMS = {
    Path(host_shim.__file__).name: signal.SIGUSR1,
    Path(feeder.__file__).name: signal.SIGKILL,
}


@dataclass(frozen=True)
class LostProcess:
    pid: int
    directory: str
    end: signal.Signals
    #: With the process id a name for good.
    start_time: str

    def __str__(self) -> str:
        return f"process {self.pid} of {self.directory}, which was deleted"


def lost_processes() -> list[LostProcess]:
    """Keepers and feeders of this user that work in a directory that was deleted. None where there is no /proc."""
    return [found for pid in host_files.pids() for found in _lost(pid)]


def end_process(lost: LostProcess) -> None:
    """Ends a host with all of its processes; one that has ended meanwhile is no error."""
    if host_files.start_time(lost.pid) == lost.start_time:
        with contextlib.suppress(ProcessLookupError):
            os.kill(lost.pid, lost.end)


def is_deleted(path: str) -> bool:
    """Whether the directory behind a link of /proc was deleted; False where that cannot be seen."""
    try:
        return os.stat(path).st_nlink == 0
    except OSError:
        return False


def _lost(pid: int) -> Iterator[LostProcess]:
    with contextlib.suppress(OSError):
        if os.stat(f"/proc/{pid}").st_uid != os.getuid():
            return
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        program = next((Path(word).name for word in words[1:5] if Path(word).name in _PROGRAMS), None)
        if program is None or not is_deleted(f"/proc/{pid}/cwd"):
            return
        directory = os.readlink(f"/proc/{pid}/cwd").removesuffix(" (deleted)")
        yield LostProcess(pid, directory, _PROGRAMS[program], host_files.start_time(pid))
