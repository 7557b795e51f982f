"""Keeps a reserve on the disk of the data directory: the job that fills the disk ends before records need the space.

A script that fills the disk gets the system's own error, as on AWS. But here all jobs, the object store and the
databases share one disk, so what one job takes, the others lack.
"""

import threading
import time
from pathlib import Path

from sagelet_engine.base.errors import ClientFault
from sagelet_engine.base.volume import Taken, measured, room

#: As a share of the reserve: a job that takes less than this has not filled the disk, and ending it would not help.
LEAST = 0.1
#: Seconds for which a measurement stays valid.
FRESH = 5.0
_MIB = 1024**2
_NOTHING = Taken(0, 0, 0)


class DiskFull(ClientFault):
    """A job has filled the disk. What it wrote is removed with it."""


class DiskWatch:
    """Watches the disk of one server."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._lock = threading.Lock()
        self._roots: dict[str, Path] = {}
        self._taken: dict[str, Taken] = {}
        self._measured = 0.0

    def watch(self, job_id: str, root: Path) -> None:
        """Begins to watch a job whose hosts write below `root`."""
        with self._lock:
            self._roots[job_id] = root

    def forget(self, job_id: str) -> None:
        """Stops watching a job: its hosts are down, or the server leaves them alone."""
        with self._lock:
            self._roots.pop(job_id, None)
            self._taken.pop(job_id, None)

    def full(self) -> bool:
        return room(self._data).full

    def check(self, job_id: str) -> None:
        """Raises DiskFull if the disk is full and this job takes the most of it, in bytes or in inodes."""
        found = room(self._data)
        if not found.full:
            return
        with self._lock:
            taken = self._measure()
            mine = taken.get(job_id, _NOTHING)
            if found.lacks_files:
                reserve, own = found.reserved_files, mine.files
                most = max((one.files for one in taken.values()), default=0)
            else:
                reserve, own = found.reserve, mine.bytes
                most = max((one.bytes for one in taken.values()), default=0)
            if own < max(most, reserve * LEAST):
                return
        left, took = (
            (f"{found.free_files} files more fit on the disk of {self._data}", f"{most} files")
            if found.lacks_files
            else (f"{found.free // _MIB} MiB of {self._data} are free", f"{most // _MIB} MiB")
        )
        raise DiskFull(
            f"No space left on device: {left}, and this job takes the most of it, "
            f"{took}. Its files were removed; write less, or give the data directory more room"
        )

    def _measure(self) -> dict[str, Taken]:
        """Measures what each job takes of the disk."""
        now = time.monotonic()
        if now - self._measured > FRESH or self._taken.keys() != self._roots.keys():
            self._taken = {job_id: self._taken_by(root) for job_id, root in self._roots.items()}
            self._measured = time.monotonic()
        return self._taken

    def _taken_by(self, root: Path) -> Taken:
        """Measures a directory. Returns zero if the jobs' directories are on another disk."""
        try:
            same = root.stat().st_dev == self._data.stat().st_dev
        except OSError:
            return _NOTHING
        return measured(root) if same else _NOTHING
