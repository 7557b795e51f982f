"""The file system as a part of the simulated world: each change of a file below the data directory is a step.

Python calls its audit hooks before a file is opened, made, renamed or removed. So the engine may be interrupted, die or
find the disk full at its own calls, and no call is replaced.
"""

import errno
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from support.histories.schedule import Schedule

#: The index of the argument with the open directory to which a name is relative, or -1 if there is none.
_CHANGES = {"os.mkdir": 2, "os.rename": 2, "os.remove": 1, "os.rmdir": 1, "os.link": 2, "os.symlink": 2}
_GROWING = ("open", "os.mkdir")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

_active: "Files | None" = None
_hooked = False


def open_files() -> int:
    """Returns how many descriptors this process has."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


class Files:
    def __init__(self, schedule: Schedule, root: str, *, reading: bool = False) -> None:
        """`reading`: if true, opening a file to read it is a step, too."""
        self._schedule = schedule
        self._root = root
        self._reading = reading
        self._beside = 0
        self.full = False

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Marks the block's changes to files as the outside world's, not the engine's."""
        self._beside += 1
        try:
            yield
        finally:
            self._beside -= 1

    def heard(self, event: str, arguments: tuple[object, ...]) -> None:
        task = self._schedule.current
        if self._beside or task is None or task.life is None:
            return
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or isinstance(path, int) or not self._ours(path, -1):
                return
            if not flags & _WRITING:
                if self._reading:
                    self._schedule.step()
                return
        elif not self._ours(arguments[event == "os.symlink"], arguments[_CHANGES[event]]):
            return
        self._schedule.step()
        if event in _GROWING and (self.full or self._schedule.point("a file cannot be written", 0.005)):
            self._schedule.losses += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _ours(self, path: object, directory: object) -> bool:
        return directory != -1 or os.fspath(path).startswith(self._root)  # type: ignore[call-overload]


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if _active is not None and (event == "open" or event in _CHANGES):
        _active.heard(event, arguments)


@contextmanager
def under_control(files: Files) -> Iterator[None]:
    global _active, _hooked
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True
    _active = files
    try:
        yield
    finally:
        _active = None
