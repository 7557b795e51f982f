"""Bytes that a host printed -> lines, for every runtime."""

from collections.abc import Iterator

#: CloudWatch Logs takes no longer event; a longer line goes out in pieces.
MAX_LINE_BYTES = 256 * 1024
#: Lines of one batch at most.
MAX_BATCH = 4096
#: A follower yields at least one batch (it may be empty) in this time.
HEARTBEAT_S = 1.0


def text_of(line: bytes) -> str:
    return line.decode("utf-8", errors="replace")


def split_lines(data: bytes) -> tuple[list[tuple[bytes, int]], bytes]:
    """Whole lines of `data`, each with the bytes it takes (line end included), and what has no line end yet."""
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
