"""Keeps gloo's `[Gloo] Rank 0 is connected to 1 peer ranks ...` out of the job's log; there is no switch for it."""

import ctypes
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_LINE = re.compile(
    rb"\[Gloo\] Rank \d+ is connected to \d+ peer ranks\. Expected number of connected peer ranks is : \d+\r?\n"
)


@contextmanager
def without_gloo_lines() -> Iterator[None]:
    """Holds back what this process writes on its standard output meanwhile, then passes all but gloo's line on."""
    _flush()
    with tempfile.TemporaryFile() as kept:
        standard_output = os.dup(1)
        os.dup2(kept.fileno(), 1)
        try:
            yield
        finally:
            _flush()
            os.dup2(standard_output, 1)
            os.close(standard_output)
            kept.seek(0)
            _write(_LINE.sub(b"", kept.read()))


def _flush() -> None:
    """Python's buffer and the C library's, which gloo's C++ stream writes to."""
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
