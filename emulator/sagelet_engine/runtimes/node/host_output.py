"""Copies a host's output to its log. The host prints into a pipe, as in a container; a thread of the shim reads it.

Standard library only. The command never holds the log itself: a script that opens /dev/stdout or /dev/stderr opens its
own end of the pipe, and can neither truncate nor overwrite what was printed. If the shim is slow, the pipe is full
and the command waits, so nothing piles up.
"""

import contextlib
import fcntl
import os
import select
import threading
import time
from collections.abc import Iterator

#: Bytes of one copy, and the assumed capacity of a pipe if the system does not report it.
CHUNK_BYTES = 256 * 1024
CAPACITY = 1024 * 1024
#: Linux's requests for a pipe's capacity, and the bytes that a command may be ahead of its shim.
F_SETPIPE_SZ, F_GETPIPE_SZ, WANTED_BYTES = 1031, 1032, 256 * 1024
#: Seconds that output waits for room on the disk before it is left out, and seconds between two tries.
TIMEOUT_S, RETRY_S = 5.0, 0.1


class Log:
    """The log file, which is only appended to. A full disk loses lines of the log, but never ends the host."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        #: Bytes that were left out since the last write that succeeded.
        self._lost = 0
        self._in_line = False

    def append(self, data: bytes) -> None:
        """Writes `data`. If the disk stays full for TIMEOUT_S seconds, the rest is left out.

        The next write that fits begins with a notice about the bytes left out.
        """
        if not self._lost:
            self._lost = self._left_out(data, TIMEOUT_S)
        elif self._left_out(self._notice(), 0.0):
            self._lost += len(data)
        else:
            self._lost = self._left_out(data, 0.0)

    def _left_out(self, data: bytes, patience: float) -> int:
        """Writes `data` and returns how many bytes could not be written within `patience` seconds."""
        deadline = time.monotonic() + patience
        rest = memoryview(data)
        while rest:
            try:
                written = os.write(self._file, rest)
            except OSError:
                if time.monotonic() >= deadline:
                    break
                time.sleep(RETRY_S)
                continue
            self._in_line = rest[written - 1] != ord("\n")
            rest = rest[written:]
        return len(rest)

    def _notice(self) -> bytes:
        start = "\n" if self._in_line else ""
        return f"{start}sagelet: the disk was full: {self._lost} bytes of this log are missing here\n".encode()

    def close(self) -> None:
        os.close(self._file)


class Output:
    """A context around the life of a host.

    At its exit no process of the host may be left. It copies what is in the pipe and does not wait for the pipe's
    end, since a process of another host may have the pipe open.
    """

    def __init__(self, path: str) -> None:
        self._log = Log(path)
        self._pipe, self._end = os.pipe()
        self._stop, self._ask = os.pipe()
        with contextlib.suppress(OSError):
            # If the command opens /dev/stdout as another user, the kernel checks the pipe's mode again.
            os.fchmod(self._end, 0o666)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._end, F_SETPIPE_SZ, WANTED_BYTES)
        self._thread = threading.Thread(target=self._copy, name="output")

    def __enter__(self) -> "Output":
        return self

    @contextlib.contextmanager
    def given(self) -> Iterator[int]:
        """Yields the pipe's write end, once, for the command to inherit. Copying starts afterwards, so that the command
        is forked while this process has no other thread."""
        try:
            yield self._end
        finally:
            os.close(self._end)
            self._thread.start()

    def __exit__(self, *_error: object) -> None:
        os.write(self._ask, b"x")
        self._thread.join()
        self._log.close()
        for end in (self._pipe, self._stop, self._ask):
            os.close(end)

    def _copy(self) -> None:
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        poll.register(self._stop, select.POLLIN)
        while self._stop not in dict(poll.poll()):
            data = os.read(self._pipe, CHUNK_BYTES)
            if not data:
                return
            self._log.append(data)
        self._copy_rest()

    def _copy_rest(self) -> None:
        """Copies at most the pipe's capacity: anything more would not be from this host."""
        os.set_blocking(self._pipe, False)
        left = self._capacity()
        with contextlib.suppress(BlockingIOError):
            while left > 0 and (data := os.read(self._pipe, min(left, CHUNK_BYTES))):
                self._log.append(data)
                left -= len(data)

    def _capacity(self) -> int:
        try:
            return fcntl.fcntl(self._pipe, F_GETPIPE_SZ)
        except OSError:
            return CAPACITY
