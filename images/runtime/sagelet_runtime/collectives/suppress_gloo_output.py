"""Keeps gloo's `[Gloo] Rank 0 is connected to 1 peer ranks ...` out of the job's log. gloo has no switch for it."""

import ctypes
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LINE = re.compile(
    rb"\[Gloo\] Rank \d+ is connected to \d+ peer ranks\. Expected number of connected peer ranks is : \d+\r?\n"
)
_GLOO = b"[Gloo] Rank "
_MARK = b"\0sagelet "
_CHUNK = 64 * 1024


@contextmanager
def without_gloo_lines() -> Iterator[None]:
    """Sends standard output through a pipe. Its other end passes everything but gloo's line on at once.

    A child that another thread starts meanwhile keeps the pipe. What the child prints is passed on until it ends.
    """
    _flush()
    filtered = _Filter()
    try:
        yield
    finally:
        _flush()
        filtered.end()


class _Filter:
    """The pipe in place of file descriptor 1, and the thread that reads it."""

    def __init__(self) -> None:
        self._mark = _MARK + os.urandom(16).hex().encode() + b"\n"
        self._marked = threading.Event()
        self._standard_output, self._passed_on = os.dup(1), os.dup(1)
        self._pipe, end = os.pipe()
        os.dup2(end, 1)
        os.close(end)
        threading.Thread(target=self._pass_on, name="without-gloo-lines", daemon=True).start()

    def end(self) -> None:
        """Restores file descriptor 1. Returns when everything that was written before is passed on."""
        try:
            _write(1, self._mark)
        finally:
            os.dup2(self._standard_output, 1)
            os.close(self._standard_output)
        self._marked.wait()

    def _pass_on(self) -> None:
        try:
            self._copy()
        finally:
            # This must happen even if nobody reads the standard output any more.
            self._marked.set()
            os.close(self._pipe)
            os.close(self._passed_on)

    def _copy(self) -> None:
        kept = b""
        while chunk := os.read(self._pipe, _CHUNK):
            text, mark, after = (kept + chunk).partition(self._mark)
            text = _LINE.sub(b"", text) + after
            done = len(text) if mark else _passable(text)
            _write(self._passed_on, text[:done])
            kept = text[done:]
            if mark:
                self._marked.set()
        _write(self._passed_on, kept)


def _passable(text: bytes) -> int:
    """Returns how many bytes come before a possible beginning of gloo's line or of the mark."""
    start = text.rfind(b"\n") + 1
    return start + min(_begin(text[start:], begin) for begin in (_GLOO, _MARK))


def _begin(line: bytes, begin: bytes) -> int:
    """Returns where `begin`, or a first part of it at the end of `line`, begins. The length of `line` if nowhere."""
    if begin in line:
        return line.index(begin)
    return next((len(line) - size for size in range(len(begin), 0, -1) if line.endswith(begin[:size])), len(line))


def _flush() -> None:
    """Flushes Python's buffer, and the C library's, to which gloo's C++ stream writes."""
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
