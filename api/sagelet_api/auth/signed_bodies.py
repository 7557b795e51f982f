"""Checks that a request has the body that was signed.

Source: docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html and sigv4-streaming-trailers.html.
"""

import hashlib
import hmac
import re
from typing import Any

from sagelet_api.auth.signature_errors import Refused, mismatch
from sagelet_api.auth.signatures import UNSIGNED, Checked, Claim
from sagelet_api.protocol.calls import Call, Environ, Protocol, read_body, reader_into, rewind

_HASH = re.compile("[0-9a-f]{64}")
_UNSIGNED = (UNSIGNED, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
_SIGNED_CHUNKS = ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER")
_EMPTY = hashlib.sha256().hexdigest()


def payload_of(call: Call, environ: Environ, claim: Claim, limit: int) -> str:
    """Returns the last part of the canonical request. Reads bodies of services other than S3, up to `limit` bytes.

    An object's bytes stay in the stream, where `protect` checks them. Raises AwsError.
    """
    if call.protocol is not Protocol.S3:
        body = read_body(environ, limit)
        rewind(environ, body)
        return hashlib.sha256(body).hexdigest()
    given = call.headers.get("x-amz-content-sha256")
    if claim.expires is not None and "x-amz-content-sha256" not in claim.signed_headers:
        return call.query.get("X-Amz-Content-Sha256", UNSIGNED)
    if given is None:
        raise Refused("InvalidRequest", 400, "Missing required header for this request: x-amz-content-sha256")
    if not (_HASH.fullmatch(given) or given in _UNSIGNED or given in _SIGNED_CHUNKS):
        words = "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-*, or a valid sha256 value."
        raise Refused(
            "InvalidArgument", 400, words, ArgumentName="x-amz-content-sha256", ArgumentValue=given
        )  # fmt: skip
    return given


def protect(call: Call, environ: Environ, payload: str, checked: Checked) -> None:
    """Makes S3's handlers read exactly the bytes that were signed, or get an error."""
    if call.protocol is not Protocol.S3:
        return
    if payload in _SIGNED_CHUNKS:
        environ["sagelet.chunks"] = ChunkSignatures(call, checked)
    elif _HASH.fullmatch(payload):
        environ["wsgi.input"] = HashedBody(environ["wsgi.input"], _length(environ), payload)


def _length(environ: Environ) -> int | None:
    """Returns the bytes to come, or None if the client does not say."""
    if "HTTP_TRANSFER_ENCODING" in environ:
        return None
    return int(environ.get("CONTENT_LENGTH") or 0)


class HashedBody:
    """A stream that ends in an error if its bytes do not have the given SHA-256."""

    def __init__(self, source: Any, length: int | None, expected: str) -> None:
        self._source = source
        self._fill = reader_into(source)
        self._left = length
        self._expected = expected
        self._digest = hashlib.sha256()
        if length == 0:
            self._compare()

    @property
    def remaining(self) -> int:
        """Returns the bytes that were not read yet, as cheroot's streams do."""
        left: int = getattr(self._source, "remaining", 0)
        return left

    def read(self, size: int = -1) -> bytes:
        """Reads bytes. Raises Refused with the last ones."""
        if self._left is not None:
            size = self._left if size is None or size < 0 else min(size, self._left)
            if not size:
                return b""
        data: bytes = self._source.read() if size is None or size < 0 else self._source.read(size)
        self._took(data)
        if self._left is None and (size is None or size < 0) and data:
            self._compare()
        return data

    def _took(self, data: bytes | memoryview) -> None:
        self._digest.update(data)
        if self._left is not None:
            self._left -= len(data)
        # The code that knows the length finds a body that is cut short.
        if self._left == 0 or (self._left is None and not data):
            self._compare()

    def readinto(self, buffer: memoryview) -> int:
        """Reads into a buffer, with the checks and errors of `read`."""
        if self._left is not None:
            buffer = buffer[: self._left]
        if not buffer:
            return 0
        count = self._fill(buffer)
        self._took(buffer[:count])
        return count

    def _compare(self) -> None:
        computed = self._digest.hexdigest()
        if computed != self._expected:
            raise Refused(
                "XAmzContentSHA256Mismatch",
                400,
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
                ClientComputedContentSHA256=self._expected,
                S3ComputedContentSHA256=computed,
            )


class ChunkSignatures:
    """The signatures of an aws-chunked body. Each chunk is signed, and its signature covers the one before."""

    def __init__(self, call: Call, checked: Checked) -> None:
        self._call = call
        self._checked = checked
        self._previous = checked.claim.signature

    def check_chunk(self, sha256: str, given: str) -> None:
        """Raises Refused unless the chunk with this hash (hex) has this signature."""
        self._check("PAYLOAD", f"{_EMPTY}\n{sha256}", given)

    def check_trailers(self, trailers: str, given: str) -> None:
        """Raises Refused unless the trailers have this signature. `trailers`: `name:value\n` each, in the order in
        which they came.
        """
        self._check("TRAILER", hashlib.sha256(trailers.encode()).hexdigest(), given)

    def _check(self, kind: str, what: str, given: str) -> None:
        checked = self._checked
        scope = checked.signer.credential_scope(checked.request)
        to_sign = "\n".join(
            (f"AWS4-HMAC-SHA256-{kind}", checked.claim.timestamp, scope, self._previous, what)
        )  # fmt: skip
        expected = checked.signer.signature(to_sign, checked.request)
        if not hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
            raise mismatch(self._call, checked.claim.access_key, to_sign, "", given)
        self._previous = expected
