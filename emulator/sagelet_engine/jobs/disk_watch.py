"""A reserve on the disk of the data directory: the job that fills it ends before there is no room for anyone's records.

A script that meets the end of the disk gets the system's own error, as on AWS. But here all jobs, the object store and
the databases share the disk, so what one takes the others lack.
"""

import threading
import time
from pathlib import Path

from sagelet_engine.data.volume import Taken, measured, room
from sagelet_engine.errors import ClientFault

#: Of the reserve: a job that takes less has not filled the disk, and its end would help nobody.
LEAST = 0.1
#: Seconds that a measurement holds for.
FRESH = 5.0
_MIB = 1024**2
_NOTHING = Taken(0, 0, 0)


class DiskFull(ClientFault):
    """A job has filled the disk. What it wrote is to go with it."""


class DiskWatch:
    """Of one server."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._lock = threading.Lock()
        self._roots: dict[str, Path] = {}
        self._taken: dict[str, Taken] = {}
        self._measured = 0.0

    def watch(self, job_id: str, root: Path) -> None:
        """The job's hosts run, and write below `root`."""
        with self._lock:
            self._roots[job_id] = root

    def forget(self, job_id: str) -> None:
        """They are down, or left alone."""
        with self._lock:
            self._roots.pop(job_id, None)
            self._taken.pop(job_id, None)

    def full(self) -> bool:
        return room(self._data).full

    def check(self, job_id: str) -> None:
        """Raises DiskFull for the job that takes the most of a disk that is full, of its bytes or of its inodes."""
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
        """What each job takes of the disk."""
        now = time.monotonic()
        if now - self._measured > FRESH or self._taken.keys() != self._roots.keys():
            self._taken = {job_id: self._taken_by(root) for job_id, root in self._roots.items()}
            self._measured = time.monotonic()
        return self._taken

    def _taken_by(self, root: Path) -> Taken:
        """Nothing where the jobs' directories are on a disk of their own."""
        try:
            same = root.stat().st_dev == self._data.stat().st_dev
        except OSError:
            return _NOTHING
        return measured(root) if same else _NOTHING
