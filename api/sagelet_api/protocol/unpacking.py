"""Unpacks bodies that were compressed on the way (`Content-Encoding: gzip`). Some SDKs compress large ones."""

import zlib

from sagelet_api.protocol.aws_errors import IncompleteBody, RequestEntityTooLarge
from sagelet_api.protocol.calls import Environ

_ENCODING = "HTTP_CONTENT_ENCODING"


def unpack(environ: Environ, body: bytes, limit: int) -> bytes:
    """Returns the unpacked body and makes the environ describe it. Any other body is returned as it is.

    Raises IncompleteBody, and RequestEntityTooLarge before it has unpacked more than `limit` bytes.
    """
    if environ.get(_ENCODING, "").strip().lower() != "gzip":
        return body
    del environ[_ENCODING]
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        unpacked = reader.decompress(body, limit)
    except zlib.error as error:
        raise IncompleteBody(f"The request body is not the gzip that Content-Encoding says: {error}") from error
    if reader.unconsumed_tail:
        raise RequestEntityTooLarge(f"The request body is larger than {limit} bytes when it is unpacked.")
    if not reader.eof:
        raise IncompleteBody("The request body ends within the gzip that Content-Encoding says.")
    return unpacked
