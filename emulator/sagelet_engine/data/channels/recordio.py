"""MXNet's RecordIO framing, which RecordWrapperType RecordIO puts around each object. Standard library only.

A record is the magic number, the length (both little-endian, 4 bytes), the data, and zeros up to a multiple of 4.
"""

import struct

MAGIC = 0xCED7230A
#: The upper 3 bits of the length word mark the parts of a split record, which AWS's own readers do not know.
MAX_LENGTH = 2**29 - 1


def header(length: int) -> bytes:
    """Returns the header of `length` bytes of data. Raises ValueError if they are too many for one record."""
    if not 0 <= length <= MAX_LENGTH:
        raise ValueError(f"{length} bytes do not fit into one RecordIO record of at most {MAX_LENGTH} bytes")
    return struct.pack("<II", MAGIC, length)


def padding(length: int) -> bytes:
    """Returns the padding after `length` bytes of data."""
    return b"\0" * (-length % 4)
