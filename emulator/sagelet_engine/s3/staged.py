"""A file that is being written: it is digested and brought to the disk while its bytes come.

MD5 (an ETag) is the slowest step for each byte, and it cannot be divided. So one thread does nothing else. This thread
reads, computes other checksums and writes; a third one flushes.
"""

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path

from sagelet_engine.s3.checksums import Digests

#: Bytes that are read and written at once.
CHUNK = 256 * 1024
#: Files of at least this size are digested by another thread.
PARALLEL = 128 * 1024
#: Chunks that may wait for that thread.
AHEAD = 8
#: From this many written bytes on, the flusher brings them to the disk while more come.
FLUSH = 64 * 1024 * 1024
#: From this number of files on, one flush of their file system is cheaper than a flush of each.
MANY = 8
#: The file is made read-only, so nobody writes to an object in place by mistake.
READ_ONLY = 0o444
#: Puts a source's next bytes into memory and returns how many. 0 at the source's end.
ReadInto = Callable[[memoryview], int]


class Digesting:
    """Computes the MD5 of large chunks on another thread. Some chunks may wait, so that neither thread is woken for
    each.

    A chunk must not change until AHEAD + 1 more were added, or `done` has returned.
    """

    def __init__(self, digests: Digests) -> None:
        self._digests = digests
        self._waiting: deque[bytes | memoryview] = deque()
        self._turn = threading.Condition()
        self._work: Future[None] | None = None
        self._error: BaseException | None = None

    def add(self, data: bytes | memoryview) -> None:
        if len(data) < PARALLEL:
            self.done().update(data)
            return
        with self._turn:
            self._turn.wait_for(lambda: len(self._waiting) < AHEAD)
            self._waiting.append(data)
            if self._work is None:
                self._work = _digesters().submit(self._drain)
        self._digests.update_checksums(data)

    def done(self) -> Digests:
        """Waits until all added chunks are digested, and returns the digests."""
        with self._turn:
            self._turn.wait_for(lambda: self._work is None)
        if self._error is not None:
            raise self._error
        return self._digests

    def _drain(self) -> None:
        try:
            while (data := self._next()) is not None:
                self._digests.update_md5(data)
        except BaseException as error:
            # The waiting side must not wait for chunks that never come.
            with self._turn:
                self._error, self._work = error, None
                self._waiting.clear()
                self._turn.notify_all()

    def _next(self) -> bytes | memoryview | None:
        """Returns the next piece of work, or None if there is no more for now."""
        with self._turn:
            self._turn.notify_all()
            if self._waiting:
                return self._waiting.popleft()
            self._work = None
            return None


@cache
def _digesters() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="sagelet-digest")


class Flushing:
    """Brings a file to the disk while it is written, so that there is little left to wait for at its end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._dirty = 0
        self._work: Future[None] | None = None

    def wrote(self, size: int) -> None:
        """Notes that `size` bytes were written. Raises OSError: the system reports an error of the disk to one flush
        only.
        """
        self._dirty += size
        if self._dirty >= FLUSH and (self._work is None or self._work.done()):
            self.end()
            self._dirty = 0
            self._work = _flushers().submit(os.fdatasync, self._descriptor)

    def end(self) -> None:
        """Ends the flushing. Called before the descriptor is closed, so nobody uses it afterwards. Raises OSError."""
        if self._work is not None:
            self._work.result()

    def abandon(self) -> None:
        """Ends the flushing of bytes that are not needed any more."""
        if self._work is not None:
            wait([self._work])


@cache
def _flushers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="sagelet-flush")


class Ring:
    """Memory for chunks that is used over and over. New memory for each chunk would cost as much as copying it."""

    def __init__(self) -> None:
        self._chunks: list[memoryview] = []
        self._taken = 0

    def next(self, size: int) -> memoryview:
        """Returns a chunk of at most `size` bytes that Digesting does not need any more."""
        place = self._taken % (AHEAD + 2)
        self._taken += 1
        if place == len(self._chunks):
            self._chunks.append(memoryview(bytearray(min(size, CHUNK))))
        return self._chunks[place][:size]


class StagedFile:
    """A file of bytes on their way into the store. They are digested while they are written."""

    def __init__(self, path: Path, digests: Digests) -> None:
        self.file_id = path.name
        self.size = 0
        self._digesting = Digesting(digests)
        self._ring = Ring()
        self._path = path
        self._file = path.open("xb", buffering=0)
        self._flushing = Flushing(self._file.fileno())

    @property
    def digests(self) -> Digests:
        """Returns the digests of all that was written."""
        return self._digesting.done()

    def take(self, read_into: ReadInto, limit: int) -> int:
        """Writes a source's next bytes, at most `limit`, and returns how many. 0 at the source's end.

        `limit` never grows from call to call. Raises OSError, and what `read_into` raises.
        """
        chunk, count = self._ring.next(limit), 0
        while count < len(chunk) and (more := read_into(chunk[count:])):
            count += more
        return self.write(chunk[:count]) if count else 0

    def write(self, data: bytes | memoryview) -> int:
        """Writes bytes. The memory must not change for a while; see Digesting. Raises OSError."""
        self._digesting.add(data)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self.size += len(data)
        self._flushing.wrote(len(data))
        return len(data)

    def finish(self) -> None:
        """Brings the bytes to the disk. Raises OSError."""
        self._flushing.end()
        rest(self._file.fileno())
        self._file.close()

    def seal(self) -> None:
        """Does what `finish` does for a file that is flushed together with others (`flush_all`). Raises OSError."""
        self._flushing.end()
        os.fchmod(self._file.fileno(), READ_ONLY)
        self._file.close()

    def close(self) -> None:
        """Closes a file whose bytes came another way."""
        self._file.close()

    def discard(self) -> None:
        self._flushing.abandon()
        self._file.close()
        self._path.unlink(missing_ok=True)


def rest(descriptor: int) -> None:
    """Makes a finished file durable and read-only."""
    os.fchmod(descriptor, READ_ONLY)
    os.fsync(descriptor)


def flush_all(directory: Path, names: Sequence[str]) -> None:
    """Brings files of a directory to the disk. Many files take one flush of their file system. Raises OSError.

    A flush of one file costs a commit of the file system's journal, whatever its size.
    """
    if len(names) >= MANY and _flush_file_system(directory):
        return
    for name in names:
        descriptor = os.open(directory / name, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _flush_file_system(directory: Path) -> bool:
    """Flushes the file system. Returns False without syncfs(2), which only Linux has. Since Linux 5.8 it reports write
    errors.
    """
    try:
        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except AttributeError:
        return False
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        if syncfs(descriptor):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(directory))
    finally:
        os.close(descriptor)
    return True
