r"""aws-chunked: a body in chunks with their sizes in front, and checksums behind the last (SigV4 for streams).

SIZE_HEX[;chunk-signature=...]\r\n DATA \r\n ... 0[;...]\r\n TRAILER:VALUE\r\n ... \r\n
"""

from typing import Any

from sagelet_api.aws_errors import IncompleteBody

_MAX_LINE = 16 * 1024
#: Read ahead while a line is looked for. (cheroot's own `readline` of a chunked body never ends.)
_AHEAD = 16 * 1024


class AwsChunked:
    """Reads the data of such a body; `trailers` (lower-case names) are there when `read` has given its last."""

    def __init__(self, source: Any) -> None:
        self.trailers: dict[str, str] = {}
        self._source = source
        self._ahead = b""
        self._left = 0
        self._over = False

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; empty at the end. Raises IncompleteBody."""
        if not self._left and not self._over:
            self._begin()
        if self._over:
            return b""
        data = self._take(min(size, self._left))
        self._left -= len(data)
        if not self._left and self._line():
            raise IncompleteBody("A chunk of the request body is longer than its size says")
        return data

    def _take(self, size: int) -> bytes:
        if self._ahead:
            ahead, self._ahead = self._ahead[:size], self._ahead[size:]
            return ahead
        data: bytes = self._source.read(size)
        if not data:
            raise IncompleteBody("The request body terminated unexpectedly")
        return data

    def _begin(self) -> None:
        size, _, _ = self._line().partition(";")
        try:
            self._left = int(size, 16)
        except ValueError as error:
            raise IncompleteBody(f"{size[:40]!r} is no size of a chunk") from error
        if self._left < 0:
            raise IncompleteBody(f"{size[:40]!r} is no size of a chunk")
        if not self._left:
            self._over = True
            while line := self._line(may_end=True):
                name, _, value = line.partition(":")
                self.trailers[name.strip().lower()] = value.strip()

    def _line(self, *, may_end: bool = False) -> str:
        while (end := self._ahead.find(b"\n")) < 0:
            more = self._source.read(_AHEAD) if len(self._ahead) < _MAX_LINE else b""
            if not more and may_end and not self._ahead:
                return ""
            if not more:
                raise IncompleteBody("The request body terminated unexpectedly")
            self._ahead += more
        line, self._ahead = self._ahead[:end], self._ahead[end + 1 :]
        return line.rstrip(b"\r").decode("latin-1")
