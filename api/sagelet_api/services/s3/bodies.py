"""Receives an object's bytes: framing, length, and the digests that the client gives."""

import base64
import re
from typing import Any

from sagelet_api.protocol.aws_errors import IncompleteBody
from sagelet_api.protocol.calls import ReadInto, reader_into
from sagelet_api.protocol.s3.chunked import AwsChunked
from sagelet_api.protocol.s3.errors import S3Error, bad_digest, invalid_request
from sagelet_api.protocol.s3.request import S3Request
from sagelet_engine.s3.checksums import ALGORITHMS, DEFAULT
from sagelet_engine.s3.staged import StagedFile

#: 5 GiB: the most bytes of one PUT, or of one part.
MAX_PUT = 5 * 1024**3
#: More digits than the size of any object has.
_MOST_DIGITS = 18
_HASH = re.compile("[0-9a-f]{64}")
_NAMES = {f"x-amz-checksum-{name.lower()}": name for name in ALGORITHMS}


class Body:
    """The body of one request. `default`: the checksum to compute if the request names none."""

    def __init__(self, request: S3Request, default: str | None = DEFAULT) -> None:
        headers = request.headers
        self._headers = headers
        self._chunked = _is_aws_chunked(request)
        self._source: Any = request.environ["wsgi.input"]
        #: The length in bytes. None if the client does not know it.
        self.size = _size(request, aws_chunked=self._chunked is not None)
        self._given = {name: headers[wire] for wire, name in _NAMES.items() if wire in headers}
        self._md5 = _md5(headers.get("content-md5"))
        self._trailing = [_NAMES[name] for name in _trailers(headers) if name in _NAMES]
        named = headers.get("x-amz-sdk-checksum-algorithm", "").upper()
        if len(self._given) + len(self._trailing) > 1:
            raise invalid_request("Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")
        #: The algorithm whose checksum is kept with the object.
        self.algorithm = next(iter([*self._given, *self._trailing]), None) or (named or default)
        self._sha256 = headers.get("x-amz-content-sha256", "")
        self._check_sha256 = bool(_HASH.fullmatch(self._sha256)) and not (self._given or self._trailing or self._md5)

    @property
    def algorithms(self) -> list[str]:
        """Returns the algorithms to compute while the bytes come."""
        wanted = [self.algorithm] if self.algorithm else []
        return [*wanted, "SHA256"] if self._check_sha256 and "SHA256" not in wanted else wanted

    def receive(self, staged: StagedFile) -> dict[str, str]:
        """Writes all of the body and returns the checksum to keep. Raises S3Error, IncompleteBody."""
        read_into, left = self._reader(), MAX_PUT if self.size is None else self.size
        while left and (count := staged.take(read_into, left)):
            left -= count
        # Never reads beyond a length that HTTP announced. There the next request begins, or nothing ever comes.
        if (self.size is None or self._chunked is not None) and not left and read_into(memoryview(bytearray(1))):
            raise IncompleteBody("The request body is longer than its announced length")
        if self.size is not None and left:
            raise IncompleteBody("You did not provide the number of bytes specified by the Content-Length HTTP header")
        return self._verified(staged)

    def _reader(self) -> ReadInto:
        fill = reader_into(self._chunked or self._source)

        def read_into(buffer: memoryview) -> int:
            try:
                return fill(buffer)
            except (OSError, ValueError) as error:
                raise IncompleteBody(f"The request body did not arrive whole: {error}") from error

        return read_into

    def _verified(self, staged: StagedFile) -> dict[str, str]:
        computed = staged.digests.values()
        if self._md5 is not None and self._md5 != staged.digests.md5:
            raise bad_digest("Content-MD5")
        given = dict(self._given)
        if self._chunked is not None:
            trailers = self._chunked.trailers
            given |= {_NAMES[name]: value for name, value in trailers.items() if name in _NAMES}
            if any(name not in given for name in self._trailing):
                raise S3Error(
                    "MalformedTrailerError", 400, "The request contained trailing data that was not well-formed"
                )
        for name, value in given.items():
            if _decoded(name, value) != base64.b64decode(computed[name]):
                raise bad_digest(name)
        if self._check_sha256 and base64.b64decode(computed["SHA256"]).hex() != self._sha256:
            raise S3Error(
                "XAmzContentSHA256Mismatch", 400, "The provided 'x-amz-content-sha256' header does not match what was "
                "computed.", ClientComputedContentSHA256=self._sha256,
            )  # fmt: skip
        return {self.algorithm: computed[self.algorithm]} if self.algorithm else {}


def _is_aws_chunked(request: S3Request) -> AwsChunked | None:
    streaming = request.headers.get("x-amz-content-sha256", "").startswith("STREAMING-")
    encoded = "aws-chunked" in request.headers.get("content-encoding", "").lower()
    if not (streaming or encoded):
        return None
    return AwsChunked(request.environ["wsgi.input"], request.environ.get("sagelet.chunks"))


def _size(request: S3Request, *, aws_chunked: bool) -> int | None:
    text = request.headers.get("x-amz-decoded-content-length" if aws_chunked else "content-length")
    if text is None:
        if aws_chunked or "transfer-encoding" in request.headers:
            return None
        raise S3Error("MissingContentLength", 411, "You must provide the Content-Length HTTP header.")
    if not (text.isascii() and text.isdecimal()):
        raise invalid_request(f"Content-Length {text!r} is not a number")
    if len(text) > _MOST_DIGITS or int(text) > MAX_PUT:
        raise S3Error(
            "EntityTooLarge", 400, "Your proposed upload exceeds the maximum allowed size",
            ProposedSize=text, MaxSizeAllowed=MAX_PUT,
        )  # fmt: skip
    return int(text)


def _md5(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        digest = base64.b64decode(text, validate=True)
    except ValueError:
        digest = b""
    if len(digest) != 16:
        raise S3Error("InvalidDigest", 400, "The Content-MD5 you specified was invalid.")
    return digest


def _trailers(headers: Any) -> list[str]:
    return [name.strip().lower() for name in headers.get("x-amz-trailer", "").split(",") if name.strip()]


def _decoded(name: str, value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise invalid_request(f"Value for x-amz-checksum-{name.lower()} header is invalid.") from error
