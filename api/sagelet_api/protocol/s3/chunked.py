r"""aws-chunked: a body in chunks with their sizes in front, and checksums behind the last (SigV4 for streams).

SIZE_HEX[;chunk-signature=...]\r\n DATA \r\n ... 0[;...]\r\n TRAILER:VALUE\r\n ... \r\n
"""

import hashlib
import re
from typing import Any, Protocol

from sagelet_api.protocol.aws_errors import IncompleteBody
from sagelet_api.protocol.calls import reader_into

_MAX_LINE = 16 * 1024
#: 16 digits are more bytes than there are.
_SIZE = re.compile(r"[0-9A-Fa-f]{1,16}")
#: Bytes that are read ahead while a line is looked for. (cheroot's own `readline` of a chunked body never ends.)
_AHEAD = 16 * 1024


class Signatures(Protocol):
    """Checks the signatures in front of each chunk and after the last."""

    def check_chunk(self, sha256: str, given: str) -> None: ...

    def check_trailers(self, trailers: str, given: str) -> None: ...


class AwsChunked:
    """Reads the data of such a body. `trailers` (lower-case names) are set once `readinto` has returned the last
    bytes.
    """

    def __init__(self, source: Any, signatures: Signatures | None = None) -> None:
        self.trailers: dict[str, str] = {}
        self._source = source
        self._fill = reader_into(source)
        self._ahead = b""
        self._left = 0
        self._over = False
        self._signatures = signatures
        #: The signature of the current chunk.
        self._signature = ""
        self._digest = hashlib.sha256()

    def readinto(self, buffer: memoryview) -> int:
        """Reads bytes and returns their number, 0 at the end. Raises IncompleteBody."""
        if not self._left and not self._over:
            self._begin()
        if self._over:
            return 0
        count = self._take(buffer[: self._left])
        self._left -= count
        if self._signatures is not None:
            self._digest.update(buffer[:count])
        if not self._left:
            self._end_chunk()
        return count

    def _end_chunk(self) -> None:
        if self._line():
            raise IncompleteBody("A chunk of the request body is longer than its size says")
        self._check_chunk()

    def _check_chunk(self) -> None:
        if self._signatures is not None:
            self._signatures.check_chunk(self._digest.hexdigest(), self._signature)
            self._digest = hashlib.sha256()

    def _take(self, buffer: memoryview) -> int:
        if self._ahead:
            ahead, self._ahead = self._ahead[: len(buffer)], self._ahead[len(buffer) :]
            buffer[: len(ahead)] = ahead
            return len(ahead)
        count = self._fill(buffer)
        if not count:
            raise IncompleteBody("The request body terminated unexpectedly")
        return count

    def _begin(self) -> None:
        size, _, extension = self._line().partition(";")
        self._signature = extension.strip().removeprefix("chunk-signature=")
        if not _SIZE.fullmatch(size):
            raise IncompleteBody(f"{size[:40]!r} is not the size of a chunk")
        self._left = int(size, 16)
        if not self._left:
            self._over = True
            self._check_chunk()
            self._read_trailers()

    def _read_trailers(self) -> None:
        while line := self._line(may_end=True):
            name, _, value = line.partition(":")
            self.trailers[name.strip().lower()] = value.strip()
        signature = self.trailers.pop("x-amz-trailer-signature", "")
        if self._signatures is not None and self.trailers:
            text = "".join(f"{name}:{value}\n" for name, value in self.trailers.items())
            self._signatures.check_trailers(text, signature)

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
