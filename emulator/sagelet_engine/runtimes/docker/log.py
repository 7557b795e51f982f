"""Reads Docker's multiplexed log stream as lines with positions. Following from a position skips and repeats nothing.

A frame is `[stream, 0, 0, 0, size (4 bytes)]` and, with `timestamps=1`, `TIME TEXT`. Docker cuts a line of more than
16 KiB into frames with times of their own; only the last ends in a line end. Two threads write stdout and stderr, so
times rise within a stream and may be slightly out of order between the streams. A position therefore holds the bytes
printed so far and, for each stream, the time (ns) of the last delivered frame and how many frames had that very time.

Docker keeps two files, each larger than what a host may print. A line is lost only when both are full. Then at least
one whole file follows the line, so the reader counts more than a host may print, and the job fails. So a job loses no
line unless it fails for its output. This holds for a slow follower, and while no server runs.
"""

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sagelet_engine.model.runtime import Line
from sagelet_engine.runtimes.node.output import MAX_LINE_BYTES, text_of

HEADER = struct.Struct(">BxxxI")
STDOUT, STDERR = 1, 2
#: How far the two streams may be out of order.
SLACK_NS = 1_000_000_000
#: What Docker writes around a frame's text: `{"log":"\\n","stream":"stdout","time":"2026-01-01T00:00:00.123456789Z"}`.
_LINE_OVERHEAD = 80
#: Bytes that Docker's JSON writes unchanged, and the bytes of UTF-8's longer characters.
_PLAIN = bytes(byte for byte in range(0x20, 0x7F) if byte not in b'"\\<>&')
_HIGH = bytes(range(0x80, 0x100))
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


class Cursor(NamedTuple):
    """How far a stream was read: up to `frames` frames of the time `ns`."""

    ns: int = 0
    frames: int = 0


class Frame(NamedTuple):
    stream: int
    ns: int
    payload: bytes


START = Cursor()


def nanoseconds(text: str) -> int:
    """Converts RFC 3339 to ns since the epoch. datetime alone would lose the last three digits."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"not a time of Docker: {text!r}")
    second = int(datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00")).timestamp())
    return second * 1_000_000_000 + int((match[2] or "").ljust(9, "0"))


def as_since(ns: int) -> str:
    """Formats the `since` parameter with all its digits."""
    return f"{ns // 1_000_000_000}.{ns % 1_000_000_000:09d}"


class FrameParser:
    """Joins bytes, as they arrive, into whole frames."""

    def __init__(self) -> None:
        self._buffer = b""
        #: The last second that was parsed (`2026-01-01T00:00:00`) and its ns since the epoch. It is kept because lines
        #: come in bursts.
        self._second = (b"", 0)

    def feed(self, data: bytes) -> list[Frame]:
        buffer, start, frames = self._buffer + data, 0, []
        size_of_buffer = len(buffer)
        while size_of_buffer - start >= HEADER.size:
            stream, size = HEADER.unpack_from(buffer, start)
            start += HEADER.size
            end = start + size
            if end > size_of_buffer:
                start -= HEADER.size
                break
            space = buffer.index(b" ", start, end)
            frames.append(Frame(stream, self._nanoseconds(buffer[start:space]), buffer[space + 1 : end]))
            start = end
        self._buffer = buffer[start:]
        return frames

    def _nanoseconds(self, time: bytes) -> int:
        if len(time) != 30 or time[29] != ord("Z"):
            return nanoseconds(time.decode("ascii"))
        second, ns = self._second
        if second != time[:19]:  # Docker's own way to write times
            second, ns = time[:19], nanoseconds(f"{time[:19].decode('ascii')}Z")
            self._second = second, ns
        return ns + int(time[20:29])


@dataclass(slots=True)
class _Stream:
    #: The place where an earlier follower stopped, or None once this follower is past it.
    resume: Cursor | None
    #: The time of the last frame that was delivered in a line, and how many frames had that time. Positions hold both.
    delivered_ns: int = 0
    delivered: str = ""
    #: The time of the last frame that was read, and how many frames had that time.
    ns: int = 0
    frames: int = 0
    #: Frames of a line that has no end yet, and the bytes that they take in Docker's log.
    pending: bytes = b""
    pending_size: int = 0

    def counts(self, ns: int) -> bool:
        """Counts a frame. False if an earlier follower delivered it."""
        self.frames = self.frames + 1 if ns == self.ns else 1
        self.ns = ns
        if self.resume is not None and (ns, self.frames) <= self.resume:
            return False
        self.resume = None
        return True

    def deliver(self, ns: int, frames: int) -> None:
        self.delivered_ns, self.delivered = ns, f"{ns}.{frames}"


def size_in_log(payload: bytes) -> int:
    """Returns the most bytes that a frame can take in a json-file log: a line of JSON with its stream and its time.

    A character that JSON or Docker escapes becomes six (`\\u001b`), as does a byte that is not UTF-8.
    """
    special = payload.translate(None, _PLAIN)
    if special == b"\n":
        return _LINE_OVERHEAD + len(payload)
    try:
        payload.decode()
        # U+2028 and U+2029 are escaped, too: three bytes each.
        escaped = len(special.translate(None, _HIGH)) + special.count(b"\xe2")
    except UnicodeDecodeError:
        escaped = len(special)
    return _LINE_OVERHEAD + len(payload) + 5 * escaped


class LineAssembler:
    """Makes lines of frames: joins the pieces of long lines, for each stream, and gives each line its position."""

    def __init__(self, position: str | None) -> None:
        *parts, printed = position.split("-") if position else ("0",)
        cursors = [Cursor(*map(int, part.split("."))) for part in parts] or [START] * 2
        #: Bytes in Docker's log of all lines delivered so far, including those of earlier followers.
        self.printed = int(printed)
        self._out, self._err = map(_Stream, cursors)
        for stream, cursor in zip((self._out, self._err), cursors, strict=True):
            stream.deliver(*cursor)
        self._last_ms = 0

    @property
    def since_ns(self) -> int:
        """The time (ns) from which Docker has to send frames so that none is missed."""
        return min(self._out.delivered_ns, self._err.delivered_ns)

    def feed(self, frames: Iterable[Frame]) -> list[Line]:
        lines: list[Line] = []
        for number, ns, payload in frames:
            if number != STDOUT and number != STDERR:
                continue
            stream = self._out if number == STDOUT else self._err
            before = stream.ns, stream.frames
            if not stream.counts(ns):
                continue
            stream.pending_size += size_in_log(payload)
            whole = payload.endswith(b"\n")
            text = payload[:-1] if whole else payload
            if stream.pending and len(stream.pending) + len(text) > MAX_LINE_BYTES:
                lines.append(self._line(stream, *before))
            if whole:
                lines.append(self._line(stream, ns, stream.frames, text))
            else:
                stream.pending += text
        return lines

    def flush(self) -> Iterator[Line]:
        """Yields the last lines of an ended container that have no line end."""
        for stream in (self._out, self._err):
            if stream.pending:
                yield self._line(stream, stream.ns, stream.frames)

    def _line(self, stream: _Stream, ns: int, frames: int, rest: bytes = b"") -> Line:
        text = stream.pending + rest if stream.pending else rest
        self.printed += stream.pending_size
        stream.pending, stream.pending_size = b"", 0
        stream.deliver(ns, frames)
        self._catch_up(self._err if stream is self._out else self._out, ns - SLACK_NS)
        self._last_ms = max(self._last_ms, ns // 1_000_000)
        return Line(self._last_ms, text_of(text), f"{self._out.delivered}-{self._err.delivered}-{self.printed}")

    def _catch_up(self, silent: _Stream, ns: int) -> None:
        """Moves a silent stream's position on from time to time.

        Without this, Docker would send everything since that stream's last line, which may be old.
        """
        if silent.delivered_ns < ns - SLACK_NS and not silent.pending:
            silent.deliver(ns, 0)
