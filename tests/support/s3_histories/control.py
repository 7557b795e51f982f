"""What the store calls `os`, `fcntl` and `sqlite3` while a history runs: every look and every change is a step.

`support/histories` controls the threads, the locks and the names of files (by Python's audit hooks). This module
controls the calls that no hook reports. One process stands in for several, so it also has their locks and connections.
"""

import errno
import fcntl
import os
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from support.histories.database import Disk, connection_type
from support.histories.database import replaced as replaced_in_databases
from support.histories.files import Files
from support.histories.schedule import Life, Schedule

#: Functions of `os` that the store calls on an open file. The first three may fail as a disk does.
_CALLS = ("pwrite", "fsync", "fdatasync", "pread", "ftruncate", "copy_file_range", "fchmod")
_FAILING = _CALLS[:3]


class Machine:
    """The file system and the databases below one directory, and the processes that use them."""

    def __init__(self, schedule: Schedule, root: str) -> None:
        self.schedule = schedule
        self.files = Files(schedule, root, reading=True)
        self._disks: dict[int, Disk] = defaultdict(Disk)

    def connect(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        disk = self.disk()
        factory = connection_type(self.schedule, disk, lambda *_: None)
        connection = sqlite3.connect(*arguments, **options, factory=factory)
        disk.opened.append(connection)
        return connection

    def disk(self) -> Disk:
        """The disk of the calling process."""
        task = self.schedule.current
        return self._disks[task.life.number if task is not None and task.life is not None else 0]

    def died(self, life: Life) -> None:
        """Closes what the system would close for a process that is gone."""
        self._disks.pop(life.number, Disk()).close()

    def end(self) -> None:
        for disk in self._disks.values():
            disk.close()

    def flock(self, file: Any, operation: int) -> None:
        """Locks a file. Waits in the schedule's time, because the other process is a part of this one."""
        if operation == fcntl.LOCK_UN or operation & fcntl.LOCK_NB:
            fcntl.flock(file, operation)
            return
        self.schedule.step()
        while True:
            try:
                fcntl.flock(file, operation | fcntl.LOCK_NB)
            except BlockingIOError:
                self.schedule.sleep(0.001)
            else:
                return

    def stepping(self, name: str) -> Callable[..., Any]:
        work: Callable[..., Any] = getattr(os, name)

        def call(*arguments: Any) -> Any:
            task = self.schedule.current
            if task is not None and task.life is not None:
                self.schedule.step()
                if name in _FAILING and self.schedule.point(f"{name} fails", 0.02):
                    code = errno.EIO if name != "pwrite" else errno.ENOSPC
                    raise OSError(code, os.strerror(code))
            return work(*arguments)

        return call


@contextmanager
def under_control(machine: Machine) -> Iterator[None]:
    """Replaces the store's names during the block."""
    calls = {name: machine.stepping(name) for name in _CALLS if hasattr(os, name)}
    instead = {
        "os": SimpleNamespace(**{**vars(os), **calls}),
        "fcntl": SimpleNamespace(**{**vars(fcntl), "flock": machine.flock}),
    }
    real = {"os": os, "fcntl": fcntl}
    replaced = [
        (module, name)
        for path, module in sorted(sys.modules.items())
        if path.startswith(("sagelet_engine.s3.", "sagelet_engine.state.", "sagelet_engine.base.database"))
        for name in instead
        if vars(module).get(name) is real[name]
    ]
    try:
        for module, name in replaced:
            setattr(module, name, instead[name])
        with replaced_in_databases(machine.connect, machine.disk):
            yield
    finally:
        for module, name in replaced:
            setattr(module, name, real[name])
