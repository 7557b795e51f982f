"""Splits the bytes that a host printed into lines, for every runtime."""

from collections.abc import Iterator

#: The longest event that CloudWatch Logs takes. A longer line goes out in pieces.
MAX_LINE_BYTES = 256 * 1024
#: Lines of one batch at most.
MAX_BATCH = 4096
#: Seconds within which a follower yields at least one batch, which may be empty.
HEARTBEAT_S = 1.0


def text_of(line: bytes) -> str:
    return line.decode("utf-8", errors="replace")


def split_lines(data: bytes) -> tuple[list[tuple[bytes, int]], bytes]:
    """Returns the whole lines of `data`, each with its size in bytes (line end included), and the rest without one."""
    *whole, rest = data.split(b"\n")
    lines: list[tuple[bytes, int]] = []
    for line in whole:
        if len(line) <= MAX_LINE_BYTES:
            lines.append((line, len(line) + 1))
            continue
        *pieces, last = pieces_of(line)
        lines += [(piece, len(piece)) for piece in pieces]
        lines.append((last, len(last) + 1))
    *pieces, rest = pieces_of(rest)
    lines += [(piece, len(piece)) for piece in pieces]
    return lines, rest


def pieces_of(line: bytes) -> Iterator[bytes]:
    """Cuts an overlong line, never inside a character of UTF-8."""
    start = 0
    while len(line) - start > MAX_LINE_BYTES:
        end = start + MAX_LINE_BYTES
        for back in range(4):
            if line[end - back] & 0xC0 != 0x80:
                end -= back
                break
        yield line[start:end]
        start = end
    yield line[start:]
