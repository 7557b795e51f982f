"""Docker's multiplexed log stream -> lines with a position that neither skips nor repeats.

A frame is `[stream, 0, 0, 0, size (4 bytes)]` and, with `timestamps=1`, `TIME TEXT`. Docker cuts a line of more than
16 KiB into frames of their own times; only the last ends in a line end. stdout and stderr are written by two threads,
so times rise within a stream and may be slightly out of order between them. A position therefore holds, for each
stream, the time (ns) of the last frame that was delivered and how many frames of that very time were.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from sagelet_engine.runtimes.output import MAX_LINE_BYTES, text_of
from sagelet_engine.runtimes.port import Line

HEADER = struct.Struct(">BxxxI")
STDOUT, STDERR = 1, 2
#: How far the two streams may be out of order.
SLACK_NS = 1_000_000_000
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


class Cursor(NamedTuple):
    """How far a stream was read: `frames` of the time `ns`."""

    ns: int = 0
    frames: int = 0


class Frame(NamedTuple):
    stream: int
    ns: int
    payload: bytes


START = Cursor()


@lru_cache(maxsize=8)
def _second(text: str, zone: str) -> int:
    return int(datetime.fromisoformat(text + zone.replace("Z", "+00:00")).timestamp())


def nanoseconds(text: str) -> int:
    """RFC 3339 -> ns since the epoch; datetime alone would lose the last three digits."""
    if len(text) == 30 and text[29] == "Z":  # as Docker itself writes it, 50,000 times a second
        return _second(text[:19], "Z") * 1_000_000_000 + int(text[20:29])
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"not a time of Docker: {text!r}")
    return _second(match[1], match[3]) * 1_000_000_000 + int((match[2] or "").ljust(9, "0"))


def as_since(ns: int) -> str:
    """The `since` parameter with all its digits."""
    return f"{ns // 1_000_000_000}.{ns % 1_000_000_000:09d}"


class FrameParser:
    """Bytes as they arrive -> whole frames."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        buffer, start = self._buffer + data, 0
        while len(buffer) - start >= HEADER.size:
            stream, size = HEADER.unpack_from(buffer, start)
            end = start + HEADER.size + size
            if end > len(buffer):
                break
            time, _, payload = buffer[start + HEADER.size : end].partition(b" ")
            yield Frame(stream, nanoseconds(time.decode("ascii")), payload)
            start = end
        self._buffer = buffer[start:]


@dataclass
class _Stream:
    #: What an earlier follower delivered already; None once past it.
    resume: Cursor | None
    #: The last frame that was delivered in a line.
    delivered: Cursor
    #: The last frame that was read.
    seen: Cursor = START
    #: Frames of a line that has no end yet.
    pending: bytes = b""

    def is_new(self, ns: int) -> bool:
        """Counts a frame; False when an earlier follower delivered it."""
        self.seen = Cursor(ns, self.seen.frames + 1 if ns == self.seen.ns else 1)
        if self.resume is not None and self.seen <= self.resume:
            return False
        self.resume = None
        return True


class LineAssembler:
    """Frames -> lines: joins the pieces of long lines, per stream, and numbers what goes out."""

    def __init__(self, position: str | None) -> None:
        cursors = [Cursor(*map(int, part.split("."))) for part in position.split("-")] if position else [START] * 2
        self._out, self._err = (_Stream(resume=cursor, delivered=cursor) for cursor in cursors)
        self._streams = {STDOUT: self._out, STDERR: self._err}
        self._last_ms = 0

    @property
    def since_ns(self) -> int:
        """Where Docker has to start so that nothing is missed."""
        return min(stream.delivered.ns for stream in self._streams.values())

    def feed(self, frame: Frame) -> Iterator[Line]:
        stream = self._streams.get(frame.stream)
        if stream is None:
            return
        before = stream.seen
        if not stream.is_new(frame.ns):
            return
        whole = frame.payload.endswith(b"\n")
        text = frame.payload[:-1] if whole else frame.payload
        if stream.pending and len(stream.pending) + len(text) > MAX_LINE_BYTES:
            yield self._line(stream, before)
        stream.pending += text
        if whole:
            yield self._line(stream, stream.seen)

    def flush(self) -> Iterator[Line]:
        """The last lines of an ended container, when they have no line end."""
        for stream in self._streams.values():
            if stream.pending:
                yield self._line(stream, stream.seen)

    def _line(self, stream: _Stream, upto: Cursor) -> Line:
        text, stream.pending, stream.delivered = stream.pending, b"", upto
        self._catch_up(self._out, upto.ns - SLACK_NS)
        self._catch_up(self._err, upto.ns - SLACK_NS)
        self._last_ms = max(self._last_ms, upto.ns // 1_000_000)
        return Line(self._last_ms, text_of(text), self._position())

    def _catch_up(self, stream: _Stream, ns: int) -> None:
        """A stream that is silent shall not make Docker start from its last line of long ago."""
        if stream.delivered[0] < ns and not stream.pending:
            stream.delivered = Cursor(ns, 0)

    def _position(self) -> str:
        (out_ns, out_frames), (err_ns, err_frames) = self._out.delivered, self._err.delivered
        return f"{out_ns}.{out_frames}-{err_ns}.{err_frames}"
