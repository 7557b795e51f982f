"""Keeps the lines of torchrun's workers whole.

torchrun's workers inherit its output and write to it at the same time. Python writes a text and its line feed one after
the other, so the lines of two workers may mix. Here each worker writes to its own pipes, and a thread in torchrun's
process passes whole lines on from each pipe.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

from sagelet_runtime.base.lines import LineSplitter
from sagelet_runtime.workers.launcher import LATE, QUIET

#: The module of torch's launcher that starts workers. It is patched once torchrun imports it.
MODULE = "torch.distributed.elastic.multiprocessing.api"
_CHUNK = 256 * 1024
_LOOK = 0.05
_STDOUT, _STDERR = 1, 2
_passing: list[Passing] = []
_writing = threading.Lock()


class Passing(threading.Thread):
    """Copies whole lines from a pipe to the file descriptor `out` until the pipe ends."""

    def __init__(self, pipe: int, out: int) -> None:
        super().__init__(name="whole-lines", daemon=True)
        self._pipe = pipe
        self._out = out
        self.last_read = time.monotonic()

    def run(self) -> None:
        splitter = LineSplitter()
        try:
            while chunk := os.read(self._pipe, _CHUNK):
                self.last_read = time.monotonic()
                self._write(splitter.feed(chunk))
            self._write(splitter.close())
        finally:
            # Nobody reads torchrun's output any more. A worker that writes on ends as it would without the pipe.
            os.close(self._pipe)

    def _write(self, lines: list[bytes]) -> None:
        data = b"".join(line + b"\n" for line in lines)
        # The kernel keeps only short writes together, and Python's own unbuffered files have no lock.
        with _writing:
            while data:
                data = data[os.write(self._out, data) :]


def install(module: Any) -> None:
    """Patches `SubprocessHandler`. Output that torchrun writes to files stays as it is."""
    handler = module.SubprocessHandler
    original = handler._popen

    def _popen(self: Any, args: Any, env: Any) -> Any:
        opened = {
            name: _pipe_to(out)
            for name, out in (("_stdout", _STDOUT), ("_stderr", _STDERR))
            if getattr(self, name) is None
        }
        for name, file in opened.items():
            setattr(self, name, file)
        try:
            return original(self, args, env)
        finally:
            for name, file in opened.items():
                setattr(self, name, None)
                file.close()

    handler._popen = _popen
    atexit.register(drain)
    sys.excepthook = _after_the_workers(sys.excepthook)


def drain() -> None:
    """Waits until the output of ended workers is passed on. A daemon that one of them left behind holds its pipe."""
    begin = time.monotonic()
    for one in _passing:
        while one.is_alive() and time.monotonic() < min(begin + LATE, max(begin, one.last_read) + QUIET):
            one.join(_LOOK)


def _after_the_workers(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `hook` so that torchrun's report of a failed worker comes after that worker's own lines."""

    def excepthook(*error: Any) -> None:
        drain()
        hook(*error)

    return excepthook


def _pipe_to(out: int) -> BinaryIO:
    end, begin = os.pipe()
    passing = Passing(end, out)
    _passing.append(passing)
    passing.start()
    return os.fdopen(begin, "wb", 0)
