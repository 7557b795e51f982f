"""Cuts the bytes of a pipe into whole lines. Pure: no input or output here."""

MAX_LINE_BYTES = 256 * 1024


class LineSplitter:
    """Cuts a byte stream at line feeds only (a carriage return of a progress bar stays inside its line).

    A line longer than `limit` bytes is cut into pieces of that size. So a stream without line feeds takes no more
    memory than that.
    """

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Returns the lines that this chunk completes, without their line feeds."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        complete = [piece for line in lines for piece in self._pieces(line)]
        while len(self._rest) > self._limit:
            complete.append(self._rest[: self._limit])
            self._rest = self._rest[self._limit :]
        return complete

    def close(self) -> list[bytes]:
        """Returns the unterminated last line. Empty if there is none."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []

    def _pieces(self, line: bytes) -> list[bytes]:
        if len(line) <= self._limit:
            return [line]
        return [line[at : at + self._limit] for at in range(0, len(line), self._limit)]
