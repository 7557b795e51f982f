"""Reads a wheel from an index without the members that are left out of it afterwards.

PyTorch's wheel has 900 MB, of which 147 MB are not kernels for GPUs. An index that answers requests for ranges of bytes
(RFC 9110, section 14) sends those alone, several at a time. The result is a sparse file of the wheel's size, which
`zipfile` reads as ever. Each member that is read has its CRC in the archive. The wheel's own SHA-256, which the index
names, cannot be checked, so only addresses of https are read in this way.
"""

from __future__ import annotations

import io
import os
import re
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from zipfile import BadZipFile, ZipFile

#: Bytes of one request, requests at a time, and seconds of silence.
PIECE, AT_A_TIME, TIMEOUT_S = 4 << 20, 6, 60.0
#: How often a piece is asked for.
ATTEMPTS = 3
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

#: Is called with the bytes that have come and those that are to come.
Progress = Callable[[int, int], None]


class NotInRanges(Exception):
    """The index does not send ranges of this wheel, or sends something else. The message says why."""


@dataclass(frozen=True)
class RemoteWheel:
    url: str
    #: Environment variables by which certificates and proxies are known, as for uv.
    environ: Mapping[str, str]

    @property
    def name(self) -> str:
        return unquote(urlsplit(self.url).path.rpartition("/")[2])

    def fetch(self, folder: Path, dropped: re.Pattern[str], progress: Progress) -> Path:
        """Leaves the wheel in the folder, without the content of the members that `dropped` matches.

        Raises NotInRanges.
        """
        address = urlsplit(self.url)
        if address.scheme != "https" and address.hostname not in _LOOPBACK:
            raise NotInRanges(f"{address.scheme}://{address.hostname} is not https")
        target = folder / self.name
        try:
            with target.open("w+b") as file:
                self._fill(file.fileno(), dropped, progress)
        except (OSError, HTTPException, BadZipFile, ValueError) as error:
            target.unlink(missing_ok=True)
            raise NotInRanges(f"{address.hostname}: {error}") from error
        return target

    def _fill(self, file: int, dropped: re.Pattern[str], progress: Progress) -> None:
        opener = self._opener()
        size = _size(opener, self.url)
        os.ftruncate(file, size)
        remote = _Ranges(opener, self.url, size, file)
        with ZipFile(io.BufferedReader(remote)) as archive:
            wanted = list(_pieces(archive, dropped))
        total, done, lock = sum(end - begin for begin, end in wanted), 0, threading.Lock()

        def fetch(piece: tuple[int, int]) -> None:
            nonlocal done
            remote.fetch(*piece)
            with lock:
                done += piece[1] - piece[0]
                progress(done, total)

        with ThreadPoolExecutor(AT_A_TIME) as threads:
            for _ in threads.map(fetch, wanted):
                pass

    def _opener(self) -> urllib.request.OpenerDirector:
        """Returns what asks, with the certificates and proxies of `environ`."""
        certificates = self.environ.get("SSL_CERT_FILE") or None
        context = ssl.create_default_context(cafile=certificates)
        secure = urllib.request.HTTPSHandler(context=context)
        proxy = self.environ.get("HTTPS_PROXY")
        proxies = urllib.request.ProxyHandler({"https": proxy} if proxy else None)
        return urllib.request.build_opener(secure, proxies)


def _pieces(archive: ZipFile, dropped: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yields begin and end of what is wanted of the archive, PIECE bytes at most. The directory has been read."""
    members = sorted(archive.infolist(), key=lambda member: member.header_offset)
    ends = [member.header_offset for member in members[1:]] + [archive.start_dir]
    runs: list[list[int]] = []
    for number, member in enumerate(members):
        end = ends[number]
        if dropped.match(member.filename):
            continue
        if runs and runs[-1][1] == member.header_offset:
            runs[-1][1] = end
        else:
            runs.append([member.header_offset, end])
    for begin, end in runs:
        for start in range(begin, end, PIECE):
            yield start, min(start + PIECE, end)


class _Ranges(io.RawIOBase):
    """A remote file whose bytes are left in a local one, at the same offsets, as they are read."""

    def __init__(self, opener: urllib.request.OpenerDirector, url: str, size: int, file: int) -> None:
        self._opener, self._url, self._size, self._file = opener, url, size, file
        self._offset = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size}[whence]
        self._offset = max(0, start + offset)
        return self._offset

    def tell(self) -> int:
        return self._offset

    def readinto(self, buffer: Any) -> int:
        end = min(self._size, self._offset + len(buffer))
        content = self.fetch(self._offset, end) if end > self._offset else b""
        buffer[: len(content)] = content
        self._offset += len(content)
        return len(content)

    def fetch(self, begin: int, end: int) -> bytes:
        """Returns these bytes, and leaves them in the local file. Raises OSError."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                content = self._ask(begin, end)
                break
            except (OSError, HTTPException):
                if attempt == ATTEMPTS:
                    raise
        written = 0
        while written < len(content):
            written += os.pwrite(self._file, content[written:], begin + written)
        return content

    def _ask(self, begin: int, end: int) -> bytes:
        with self._opener.open(_request(self._url, begin, end), timeout=TIMEOUT_S) as answer:
            if answer.status != 206:
                raise OSError("a request for a range is answered by the whole file")
            content: bytes = answer.read(end - begin + 1)
        if len(content) != end - begin:
            raise OSError(f"{len(content)} bytes came of a range of {end - begin}")
        return content


def _size(opener: urllib.request.OpenerDirector, url: str) -> int:
    """Returns the file's size, from the answer to a request for its first byte. Raises OSError or ValueError."""
    with opener.open(_request(url, 0, 1), timeout=TIMEOUT_S) as answer:
        unit, _, size = (answer.headers.get("Content-Range") or "").rpartition("/")
        if answer.status != 206 or not unit.startswith("bytes "):
            raise OSError("it does not answer requests for ranges")
        return int(size)


def _request(url: str, begin: int, end: int) -> urllib.request.Request:
    # Compressed in transit, a range would have another length.
    headers = {"Range": f"bytes={begin}-{end - 1}", "Accept-Encoding": "identity", "User-Agent": "sagelet"}
    return urllib.request.Request(url, headers=headers)
