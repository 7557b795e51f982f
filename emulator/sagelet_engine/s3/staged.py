"""A file that is being written: digested and brought to the disk while its bytes come.

MD5 (an ETag) is the slowest of all that happens to a byte, and cannot be divided. So a thread does nothing else, and
all else is beside it: this thread reads, computes other checksums and writes, another flushes.
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

#: Bytes read and written at once.
CHUNK = 256 * 1024
#: From this size on another thread digests.
PARALLEL = 128 * 1024
#: Chunks that may wait for it.
AHEAD = 8
#: Bytes of a file that are worth bringing to the disk while more of them come.
FLUSH = 64 * 1024 * 1024
#: Files from which on flushing their file system is cheaper than flushing each.
MANY = 8
#: Nobody writes to an object in place, not even by mistake.
READ_ONLY = 0o444
#: Puts a source's next bytes into memory: how many; 0 at its end.
ReadInto = Callable[[memoryview], int]


class Digesting:
    """Takes large chunks' MD5 on another thread. Some may wait, so that neither thread has to be woken for each.

    A chunk is not to be changed until AHEAD + 1 more were added, or `done` returned.
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
        """When all that was added is in them."""
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
            # Nobody may wait for what does not come.
            with self._turn:
                self._error, self._work = error, None
                self._waiting.clear()
                self._turn.notify_all()

    def _next(self) -> bytes | memoryview | None:
        """The next piece of work, or None if there is no more for now."""
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
    """Brings a file to the disk while it is written, so that little is left to wait for at its end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._dirty = 0
        self._work: Future[None] | None = None

    def wrote(self, size: int) -> None:
        """Raises OSError: the system tells an error of the disk to one flush only."""
        self._dirty += size
        if self._dirty >= FLUSH and (self._work is None or self._work.done()):
            self.end()
            self._dirty = 0
            self._work = _flushers().submit(os.fdatasync, self._descriptor)

    def end(self) -> None:
        """Before the descriptor is closed: nobody uses it any more. Raises OSError."""
        if self._work is not None:
            self._work.result()

    def abandon(self) -> None:
        """As `end`, for bytes that nobody wants any more."""
        if self._work is not None:
            wait([self._work])


@cache
def _flushers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="sagelet-flush")


class Ring:
    """Memory for chunks, used over and over: new memory for each would cost as much as copying it."""

    def __init__(self) -> None:
        self._chunks: list[memoryview] = []
        self._taken = 0

    def next(self, size: int) -> memoryview:
        """A chunk, of `size` bytes at most, that Digesting is done with."""
        place = self._taken % (AHEAD + 2)
        self._taken += 1
        if place == len(self._chunks):
            self._chunks.append(memoryview(bytearray(min(size, CHUNK))))
        return self._chunks[place][:size]


class StagedFile:
    """Bytes on their way into the store, digested while they are written."""

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
        """The digest of all that was written."""
        return self._digesting.done()

    def take(self, read_into: ReadInto, limit: int) -> int:
        """Writes a source's next bytes, at most `limit`, and returns how many; 0: it has ended.

        `limit` never grows from call to call. Raises OSError, and what `read_into` raises.
        """
        chunk, count = self._ring.next(limit), 0
        while count < len(chunk) and (more := read_into(chunk[count:])):
            count += more
        return self.write(chunk[:count]) if count else 0

    def write(self, data: bytes | memoryview) -> int:
        """Raises OSError. Memory that changes later: see Digesting."""
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
        """As `finish`, for a file that is flushed with others (`flush_all`). Raises OSError."""
        self._flushing.end()
        os.fchmod(self._file.fileno(), READ_ONLY)
        self._file.close()

    def close(self) -> None:
        """For a file whose bytes came another way."""
        self._file.close()

    def discard(self) -> None:
        self._flushing.abandon()
        self._file.close()
        self._path.unlink(missing_ok=True)


def rest(descriptor: int) -> None:
    """A file that is whole: on the disk, and not to be written any more."""
    os.fchmod(descriptor, READ_ONLY)
    os.fsync(descriptor)


def flush_all(directory: Path, names: Sequence[str]) -> None:
    """Brings files of a directory to the disk: many with one flush of its file system. Raises OSError.

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
    """False where there is no syncfs(2), which is Linux's. It tells errors of writing since Linux 5.8."""
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
