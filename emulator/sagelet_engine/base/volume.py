"""Measures how full a host's volume is. AWS calls it DiskUtilization, "the disk space utilization of the algorithm
container".
"""

import errno
import os
import shutil
import time
from collections.abc import Container
from pathlib import Path
from typing import NamedTuple

GIB = 1024**3
#: A walk that took t seconds is not repeated within this many times t, so walking takes less than 0.5 % of a core.
PAUSE_FACTOR = 200

#: Bytes of the data directory's disk that no job may take. They are room for the records and logs of other jobs until
#: somebody frees more. On a small disk it is a share of the disk.
RESERVE, SHARE = 256 * 1024**2, 0.05
#: Files (inodes) that no job may take. A disk may run out of inodes with most of its bytes free.
RESERVED_FILES = 1000

#: Errno values of OSError if a disk, or a user's share of it, takes no more bytes or files.
FULL = (errno.ENOSPC, errno.EDQUOT)


class Room(NamedTuple):
    """What may still be written to a disk, and the disk's total: bytes and files.

    A file system that makes inodes on demand (btrfs) reports none free and none in total. That means no limit.
    """

    free: int
    total: int
    free_files: int = 0
    files: int = 0

    @property
    def reserve(self) -> int:
        """Returns the bytes that no job may take."""
        return int(min(RESERVE, self.total * SHARE))

    @property
    def for_jobs(self) -> int:
        """Returns the bytes that jobs may still take."""
        return max(0, self.free - self.reserve)

    @property
    def reserved_files(self) -> int:
        """Returns the number of files that no job may make."""
        return int(min(RESERVED_FILES, self.files * SHARE))

    @property
    def lacks_files(self) -> bool:
        return self.free_files < self.reserved_files

    @property
    def full(self) -> bool:
        return self.free < self.reserve or self.lacks_files


class Taken(NamedTuple):
    """The files below a directory and the space that they take."""

    #: The sum of the files' sizes in bytes.
    claimed: int
    #: Bytes that all of it takes on the disk.
    bytes: int
    #: Files and directories.
    files: int


def is_full(error: BaseException) -> bool:
    """True for the error of a full disk, and for one that it caused."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in FULL:
            return True
        cause = cause.__cause__
    return False


def room(directory: Path) -> Room:
    """Raises OSError."""
    found = os.statvfs(directory)
    return Room(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, found.f_favail, found.f_files)


def remedy(directory: Path) -> str:
    """Returns what to do about a full disk, as a sentence."""
    try:
        found = room(directory)
    except OSError:
        return "Free space on its disk"
    if found.files and not found.free_files:
        return "Its disk has no inode left: remove files from it, however small"
    return "Free space on its disk"


class Volume:
    """A host's /opt/ml against VolumeSizeInGB, the size of the volume where it lies on AWS.

    If the request gives no size (0: AWS has instance types with disks of their own), the size of the file system here
    counts. `streamed` are directories, relative to `root`, that take no disk on AWS (FastFile channels).
    """

    def __init__(self, root: Path, size_gib: int, streamed: tuple[str, ...] = ()) -> None:
        self._root = root
        self._size = size_gib * GIB
        self._streamed = {str(root / directory) for directory in streamed}
        self._percent = 0.0
        self._next = 0.0

    def percent(self) -> float:
        """Returns 0 to 100. For a large directory it is the last known value for a while."""
        began = time.monotonic()
        if began < self._next:
            return self._percent
        used = measured(self._root, self._streamed).bytes
        size = self._size or shutil.disk_usage(self._root).total
        self._percent = min(100.0, 100.0 * used / size)
        ended = time.monotonic()
        self._next = ended + PAUSE_FACTOR * (ended - began)
        return self._percent


def measured(root: Path, left_out: Container[str] = ()) -> Taken:
    """Measures what lies below a directory. Links are not followed. Vanished files and the paths `left_out` do not
    count.
    """
    claimed, taken, files, seen, queue = 0, 0, 0, set[tuple[int, int]](), [str(root)]
    while queue:
        try:
            entries = list(os.scandir(queue.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.path in left_out:
                continue
            try:
                stat = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if entry.is_dir(follow_symlinks=False):
                queue.append(entry.path)
            if (stat.st_dev, stat.st_ino) not in seen:
                files += 1
                taken += stat.st_blocks * 512
                claimed += stat.st_size if entry.is_file(follow_symlinks=False) else 0
            if stat.st_nlink > 1:
                seen.add((stat.st_dev, stat.st_ino))
    return Taken(claimed, taken, files)
