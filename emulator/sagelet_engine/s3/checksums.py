"""MD5 and S3's checksums, computed while bytes go by.

awscrt (AWS's own C library, the one botocore takes for the same purpose) computes CRC32C, CRC64NVME and the XXHASH
family at memory speed and combines CRCs of parts; zlib has CRC32. It is loaded by the first object that needs it.
"""

import base64
import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from sagelet_engine.s3.errors import UnknownChecksum

#: Algorithms that can compute the checksum of a whole from those of its parts, with the size of the value in bytes.
CRCS = {"CRC32": 4, "CRC32C": 4, "CRC64NVME": 8}
_HASHES = {"SHA1": "sha1", "SHA256": "sha256", "SHA512": "sha512", "MD5": "md5"}
_XXHASHES = {"XXHASH64": "new_xxhash64", "XXHASH3": "new_xxhash3_64", "XXHASH128": "new_xxhash3_128"}
ALGORITHMS = (*CRCS, *_HASHES, *_XXHASHES)
#: What S3 computes when the client names none.
DEFAULT = "CRC64NVME"


class _Digest(Protocol):
    def update(self, data: bytes | memoryview, /) -> None: ...

    def digest(self) -> bytes: ...


class Digests:
    """Computes the MD5 of what was `update`d, and any of ALGORITHMS. Raises UnknownChecksum."""

    def __init__(self, algorithms: Iterable[str] = ()) -> None:
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._others = {name: _digest(name) for name in algorithms}

    def update(self, data: bytes | memoryview) -> None:
        self.update_md5(data)
        self.update_checksums(data)

    def update_md5(self, data: bytes | memoryview) -> None:
        self._md5.update(data)

    def update_checksums(self, data: bytes | memoryview) -> None:
        """Updates all digests but the MD5. One thread may do this while another updates the MD5."""
        for digest in self._others.values():
            digest.update(data)

    @property
    def md5(self) -> bytes:
        return self._md5.digest()

    def values(self) -> dict[str, str]:
        """Returns the checksums in base64, as S3 writes them."""
        return {name: base64.b64encode(digest.digest()).decode() for name, digest in self._others.items()}


def of_parts(algorithm: str, values: Sequence[str]) -> str:
    """Returns the checksum of the parts' checksums, which is a multipart upload's checksum of type COMPOSITE."""
    digest = _digest(algorithm)
    for value in values:
        digest.update(base64.b64decode(value))
    return f"{base64.b64encode(digest.digest()).decode()}-{len(values)}"


def combined(algorithm: str, parts: Iterable[tuple[str, int]]) -> str:
    """Returns the CRC of a whole from the CRCs and sizes of its parts (type FULL_OBJECT)."""
    combine: Callable[[int, int, int], int] = getattr(_crt(), f"combine_{algorithm.lower()}")
    value = 0
    for text, size in parts:
        value = combine(value, int.from_bytes(base64.b64decode(text), "big"), size)
    return base64.b64encode(value.to_bytes(CRCS[algorithm], "big")).decode()


def multipart_etag(etags: Sequence[str]) -> str:
    """Returns the MD5 of the parts' MD5s, with the number of parts."""
    digest = hashlib.md5(b"".join(bytes.fromhex(etag) for etag in etags), usedforsecurity=False)
    return f"{digest.hexdigest()}-{len(etags)}"


class _Crc:
    def __init__(self, function: Callable[[bytes | memoryview, int], int], length: int) -> None:
        self._function, self._length, self._value = function, length, 0

    def update(self, data: bytes | memoryview, /) -> None:
        self._value = self._function(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._length, "big")


class _XxHash:
    def __init__(self, hasher: Any) -> None:
        self._hasher = hasher
        self._value: bytes | None = None

    def update(self, data: bytes | memoryview, /) -> None:
        self._hasher.update(bytes(data))  # awscrt takes nothing else.

    def digest(self) -> bytes:
        if self._value is None:
            self._value = bytes(self._hasher.finalize())
        return self._value


def _digest(algorithm: str) -> _Digest:
    if algorithm == "CRC32":
        return _Crc(zlib.crc32, CRCS[algorithm])
    if algorithm in CRCS:
        return _Crc(getattr(_crt(), algorithm.lower()), CRCS[algorithm])
    if algorithm in _HASHES:
        return hashlib.new(_HASHES[algorithm], usedforsecurity=False)
    if algorithm in _XXHASHES:
        return _XxHash(getattr(_crt().XXHash, _XXHASHES[algorithm])())
    raise UnknownChecksum(f"The checksum algorithm {algorithm} is not one of {', '.join(ALGORITHMS)}")


def _crt() -> Any:
    from awscrt import checksums

    return checksums


def same(given: Mapping[str, str], computed: Mapping[str, str]) -> str | None:
    """Returns the first algorithm whose given value is not the computed one, or None if all agree."""
    return next((name for name, value in given.items() if computed.get(name) != value), None)
