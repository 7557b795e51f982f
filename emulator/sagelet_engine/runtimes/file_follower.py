"""Follows a file that another process appends to. A position is the byte offset after a line."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from sagelet_engine.base import nofollow
from sagelet_engine.base.clock import Clock
from sagelet_engine.model.runtime import Line
from sagelet_engine.runtimes.node.output import HEARTBEAT_S, MAX_BATCH, split_lines, text_of

#: Seconds between reads of a file that does not grow; the last value repeats. The first pauses are short because a
#: host that has just printed often prints more at once, and because many a short job ends within them.
POLL_S = (0.005, 0.01, *[0.02] * 7, 0.05)
CHUNK_BYTES = 1024 * 1024


def follow(path: Path, position: str | None, ended: Callable[[], bool], clock: Clock) -> Iterator[list[Line]]:
    """Yields batches of lines as they come. Ends when `ended` returns True and everything has been read."""
    numbered = _Numbered(int(position or 0), clock)
    with nofollow.open_path(path) as file:
        file.seek(numbered.offset)
        pending, beat = b"", time.monotonic()
        for chunk in _chunks(file, ended):
            lines, pending = split_lines(pending + chunk)
            if lines or time.monotonic() - beat >= HEARTBEAT_S:
                yield from numbered.batches(lines)
                beat = time.monotonic()
    if pending:
        yield from numbered.batches([(pending, len(pending))])


def _chunks(file: BinaryIO, ended: Callable[[], bool]) -> Iterator[bytes]:
    """Yields appended bytes as they come, at most CHUNK_BYTES at a time; an empty chunk if there is nothing new."""
    pauses = iter(POLL_S)
    while True:
        over = ended()  # before the read, so that everything written before the end is read
        chunk = file.read(CHUNK_BYTES)
        yield chunk
        if chunk:
            pauses = iter(POLL_S)
            continue
        if over:
            return
        time.sleep(next(pauses, POLL_S[-1]))


class _Numbered:
    """Gives lines their time and position."""

    def __init__(self, offset: int, clock: Clock) -> None:
        self.offset = offset
        self._clock = clock
        self._last_ms = 0

    def batches(self, lines: list[tuple[bytes, int]]) -> Iterator[list[Line]]:
        """Yields at least one batch: an empty one, as a heartbeat, if there are no lines."""
        self._last_ms = max(self._last_ms, self._clock.now_ms())
        for start in range(0, max(len(lines), 1), MAX_BATCH):
            yield [self._line(*line) for line in lines[start : start + MAX_BATCH]]

    def _line(self, line: bytes, size: int) -> Line:
        self.offset += size
        return Line(self._last_ms, text_of(line), str(self.offset))
