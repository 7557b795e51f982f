"""The process that feeds a job's pipes. Run as `python -I -S feeder.py DIRECTORY`; standard library only.

Each stream has a thread, which may block: in open until the training code opens the FIFO, in write until it has read.
The first process ends as soon as the FIFOs of epoch 0 exist, so the feeder is not a child of the server.
"""

import array
import contextlib
import fcntl
import itertools
import json
import os
import stat
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

# With `-I -S` Python finds neither the package nor site-packages. Only the package is needed here.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))

from sagelet_engine.base.json_files import read_json, write_json
from sagelet_engine.data.channels import recordio
from sagelet_engine.data.channels.dealing import dealt, shuffled
from sagelet_engine.data.channels.stream_plan import UNITS, Part, StreamPlan

_CHUNK = 256 * 1024
#: The container may have replaced a FIFO by something else. The feeder must not write into that.
_OPEN = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class PipeTaken(Exception):
    """The container has put something else in a FIFO's place, or removed its directory. This is not an error of the
    feeder.
    """


class Stream:
    """One channel of one host: `DIRECTORY/CHANNEL_EPOCH`, epoch after epoch, for as long as somebody reads."""

    def __init__(self, plan: StreamPlan) -> None:
        self._plan = plan
        # The container can move and replace its directories. This descriptor stays the same directory.
        self._directory = os.open(plan["directory"], os.O_RDONLY | os.O_DIRECTORY)
        self._units = open(os.path.join(plan["spool"], UNITS), "rb")  # noqa: SIM115 - as long as the process
        self._offsets = _line_offsets(self._units)

    def make(self, epoch: int) -> None:
        """Makes the FIFO of an epoch, or takes over one that an earlier feeder left."""
        name = self._name(epoch)
        try:
            os.mkfifo(name, 0o644, dir_fd=self._directory)
        except FileExistsError:
            if not stat.S_ISFIFO(os.lstat(name, dir_fd=self._directory).st_mode):
                raise

    def feed_epochs(self) -> None:
        """Feeds epoch after epoch until the container removes the FIFO or the directory."""
        try:
            for epoch in itertools.count():
                self._feed_epoch(epoch)
        except PipeTaken as error:
            print(f"{self._plan['directory']}: {error}: nothing more is fed", flush=True)

    def _feed_epoch(self, epoch: int) -> None:
        pipe = self._opened(epoch)
        try:
            with contextlib.suppress(BrokenPipeError):  # The reader does not need the rest of this epoch.
                self._feed(epoch, pipe)
            # The next epoch's FIFO exists before a reader can see the end of this one.
            self._turn_to(epoch + 1)
        finally:
            os.close(pipe)

    def _opened(self, epoch: int) -> int:
        with _pipe_is_there():
            pipe = os.open(self._name(epoch), _OPEN, dir_fd=self._directory)
        if not stat.S_ISFIFO(os.fstat(pipe).st_mode):
            raise PipeTaken(f"{self._name(epoch)} is not a pipe any more")
        return pipe

    def _feed(self, epoch: int, pipe: int) -> None:
        for unit in self._order(epoch):
            for data in self._bytes(unit):
                _write(pipe, data)

    def _turn_to(self, epoch: int) -> None:
        with _pipe_is_there():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._name(epoch - 1), dir_fd=self._directory)
            self.make(epoch)

    def _order(self, epoch: int) -> Iterator[list[Part]]:
        plan = self._plan
        indexes = dealt(shuffled(range(len(self._offsets)), plan["seed"], epoch), plan["host"], plan["hosts"])
        for index in indexes:
            self._units.seek(self._offsets[index])
            yield json.loads(self._units.readline())

    def _bytes(self, parts: list[Part]) -> Iterator[bytes]:
        for part in parts:
            if "text" in part:
                text = part["text"].encode()
                yield from self._framed(len(text), iter((text,)))
            else:
                path = os.path.join(self._plan["spool"], part["file"])
                yield from self._framed(part["size"], _content(path))

    def _framed(self, size: int, content: Iterator[bytes]) -> Iterator[bytes]:
        if not self._plan["record_io"]:
            yield from content
            return
        yield recordio.header(size)
        yield from content
        yield recordio.padding(size)

    def _name(self, epoch: int) -> str:
        return f"{self._plan['channel']}_{epoch}"


def main(directory: str) -> int:
    os.chdir(directory)
    ready, tell = os.pipe()
    if os.fork() == 0:
        os.close(ready)
        os.setsid()
        return run(tell)
    os.close(tell)
    return 0 if os.read(ready, 1) else 1


def run(tell: int) -> int:
    """Runs the feeder. `tell` is the pipe to the first process: one byte when all is ready."""
    lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    write_json("feeder.json", {"pid": os.getpid()})
    plan = read_json("plan.json")
    if plan is None:
        raise FileNotFoundError(f"no plan.json in {os.getcwd()}")
    streams = [Stream(stream) for stream in plan["streams"]]
    for stream in streams:
        stream.make(0)
    threads = [threading.Thread(target=_feed, args=(stream,), daemon=True) for stream in streams]
    for thread in threads:
        thread.start()
    os.write(tell, b"1")
    os.close(tell)
    threading.Event().wait(plan["seconds"])
    return 0


def _feed(stream: Stream) -> None:
    """Feeds a stream. If it fails, the process ends: the streams are cut, and the server notices the end."""
    try:
        stream.feed_epochs()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


@contextlib.contextmanager
def _pipe_is_there() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PipeTaken(str(error)) from error


def _write(pipe: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(pipe, left) :]


def _content(path: str) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _line_offsets(file: Any) -> "array.array[int]":
    """Returns the offset of each line. It takes 8 bytes a unit, so a manifest of millions of lines is not held in
    memory.
    """
    offsets, at = array.array("Q"), 0
    for line in file:
        offsets.append(at)
        at += len(line)
    return offsets


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
