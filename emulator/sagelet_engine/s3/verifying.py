"""Checks that an object's bytes are those that were put, by the cheapest checksum or by the ETag.

Reading costs what the disk costs. awscrt computes CRCs at memory speed and MD5 runs at about 0.6 GB/s. An object that a
job wrote has only its ETag.
"""

import hashlib
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from sagelet_engine.s3.checksums import CRCS, Digests, multipart_etag
from sagelet_engine.s3.errors import DamagedObject
from sagelet_engine.s3.records import FULL_OBJECT, StoredObject

#: The cheapest first.
_ORDER = ("CRC64NVME", "CRC32C", "CRC32")
_CHUNK = 1024 * 1024


class Verifier(Protocol):
    """Takes an object's bytes in order. After the last one, `matches` says whether they are unchanged."""

    def update(self, data: bytes, /) -> None: ...

    def matches(self) -> bool: ...


def verifier(stored: StoredObject) -> Verifier | None:
    """Returns the verifier of an object's bytes, or None if nothing that is known of the object can be computed from
    them.
    """
    if stored.checksum_type == FULL_OBJECT:
        for algorithm in (*_ORDER, *(name for name in stored.checksums if name not in CRCS)):
            if algorithm in stored.checksums:
                return _Checksum(algorithm, stored.checksums[algorithm])
    return of_etag(stored)


def of_etag(stored: StoredObject) -> Verifier | None:
    if "-" not in stored.etag:
        return _Whole(stored.etag)
    sizes = [part.size for part in stored.parts]
    return _Parts(sizes, stored.etag) if sizes and sum(sizes) == stored.size else None


def verify(stored: StoredObject, data: BinaryIO, *, by_all: bool = False) -> None:
    """Reads all of an object's bytes and verifies them. `by_all`: by the ETag and by each checksum. Raises
    DamagedObject.
    """
    with_checksums = [_Checksum(name, value) for name, value in stored.checksums.items() if "-" not in value]
    cheapest = verifier(stored)
    used = [one for one in (of_etag(stored), *with_checksums) if one] if by_all else [cheapest] if cheapest else []
    size = 0
    for chunk in _chunks(data):
        size += len(chunk)
        for one in used:
            one.update(chunk)
    if size != stored.size or not all(one.matches() for one in used):
        raise damaged(stored)


def damaged(stored: StoredObject) -> DamagedObject:
    return DamagedObject(
        f"s3://{stored.bucket}/{stored.key}: its bytes on the disk are not those that were put (their checksum differs)"
        ": put the object again. `sagelet check`, with the server stopped, tells which others are damaged"
    )


class _Checksum:
    def __init__(self, algorithm: str, value: str) -> None:
        self._algorithm, self._value = algorithm, value
        self._digests = Digests([algorithm])

    def update(self, data: bytes, /) -> None:
        self._digests.update_checksums(data)

    def matches(self) -> bool:
        return self._digests.values()[self._algorithm] == self._value


class _Whole:
    def __init__(self, etag: str) -> None:
        self._etag = etag
        self._digest = hashlib.md5(usedforsecurity=False)

    def update(self, data: bytes, /) -> None:
        self._digest.update(data)

    def matches(self) -> bool:
        return self._digest.hexdigest() == self._etag


class _Parts:
    """The ETag of a multipart upload, from its parts' MD5s."""

    def __init__(self, sizes: list[int], etag: str) -> None:
        self._etag = etag
        self._left = iter(sizes)
        self._digest = hashlib.md5(usedforsecurity=False)
        self._of_parts: list[str] = []
        self._missing = next(self._left, 0)

    def update(self, data: bytes, /) -> None:
        rest = memoryview(data)
        while rest:
            taken = rest[: self._missing] if self._missing else rest
            self._digest.update(taken)
            self._missing -= len(taken)
            rest = rest[len(taken) :]
            if self._missing <= 0:
                self._end_part()

    def matches(self) -> bool:
        return multipart_etag(self._of_parts) == self._etag

    def _end_part(self) -> None:
        self._of_parts.append(self._digest.hexdigest())
        self._digest = hashlib.md5(usedforsecurity=False)
        self._missing = next(self._left, 1 << 62)


def _chunks(data: BinaryIO) -> Iterator[bytes]:
    while chunk := data.read(_CHUNK):
        yield chunk
