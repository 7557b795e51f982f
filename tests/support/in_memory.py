"""Has tests write in memory. That takes a fifth less CPU time than a disk, and nobody waits for it.

`--basetemp` names another directory, and keeps what the tests wrote there.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sagelet_engine.data import removal

MEMORY = Path("/dev/shm")
#: Bytes that have to be free there. A run of all tests in six processes took a part of them at its peak.
ROOM = 6 << 30
_PREFIX = "sagelet-tests-"


def choose(config: pytest.Config) -> None:
    """Sets where this run's tests write, if nobody else has. The process that deals tests to workers does."""
    if config.option.basetemp or not is_roomy(MEMORY):
        return
    directory = MEMORY / f"{_PREFIX}{os.getpid()}"
    # What runs left that were killed.
    for left in MEMORY.glob(f"{_PREFIX}*"):
        number = left.name.removeprefix(_PREFIX)
        if left == directory or not (number.isascii() and number.isdecimal() and psutil.pid_exists(int(number))):
            _remove(left)
    # Fails if it is somebody else's.
    directory.mkdir(mode=0o700)
    config.option.basetemp = str(directory)


def is_roomy(directory: Path) -> bool:
    """False for a file system without programs, as /dev/shm of a container is, and where memory is short."""
    if sys.platform != "linux" or not directory.is_dir():
        return False
    about = os.statvfs(directory)
    free = about.f_bavail * about.f_frsize
    return not about.f_flag & os.ST_NOEXEC and min(free, psutil.virtual_memory().available // 2) >= ROOM


def remove(config: pytest.Config) -> None:
    directory = MEMORY / f"{_PREFIX}{os.getpid()}"
    if config.option.basetemp == str(directory):
        _remove(directory)


def _remove(directory: Path) -> None:
    """Removes a tree of any depth, as failed tests leave some. What stays is another user's."""
    with suppress(OSError, removal.DirectoryStays):
        removal.remove_tree(directory)
