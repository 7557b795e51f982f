"""How full a host's volume is: AWS's DiskUtilization, "the disk space utilization of the algorithm container"."""

import os
import shutil
import time
from pathlib import Path

GIB = 1024**3
#: A walk that took t seconds is not repeated within this many times t: walking takes less than 0.5 % of a core.
PATIENCE = 200


class Volume:
    """A host's /opt/ml against VolumeSizeInGB, the size of the volume that it lies on at AWS.

    A request without a size (0: AWS has instance types with disks of their own) is held against the file system here.
    `streamed` are directories that take no disk on AWS (FastFile channels), relative to `root`.
    """

    def __init__(self, root: Path, size_gib: int, streamed: tuple[str, ...] = ()) -> None:
        self._root = root
        self._size = size_gib * GIB
        self._streamed = {str(root / directory) for directory in streamed}
        self._percent = 0.0
        self._next = 0.0

    def percent(self) -> float:
        """0 to 100; of a large directory it is the last known value for a while."""
        began = time.monotonic()
        if began < self._next:
            return self._percent
        used = self._used()
        size = self._size or shutil.disk_usage(self._root).total
        self._percent = min(100.0, 100.0 * used / size)
        ended = time.monotonic()
        self._next = ended + PATIENCE * (ended - began)
        return self._percent

    def _used(self) -> int:
        """Bytes on the disk of all files, links not followed. What vanishes meanwhile is left out."""
        used, seen, queue = 0, set[tuple[int, int]](), [str(self._root)]
        while queue:
            try:
                entries = list(os.scandir(queue.pop()))
            except OSError:
                continue
            for entry in entries:
                if entry.path in self._streamed:
                    continue
                try:
                    stat = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    queue.append(entry.path)
                if (stat.st_dev, stat.st_ino) not in seen:
                    used += stat.st_blocks * 512
                if stat.st_nlink > 1:
                    seen.add((stat.st_dev, stat.st_ino))
        return used
