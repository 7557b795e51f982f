"""Checks Signature Version 4. botocore's own signer computes what the signature must be.

Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html. Presigned URLs are the same
with the parts of the Authorization header in the query.
"""

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from sagelet_api.auth import signature_errors as errors
from sagelet_api.auth.callers import Secret
from sagelet_api.auth.objects_origin import signed_hosts
from sagelet_api.protocol.aws_errors import AwsError
from sagelet_api.protocol.botocore_parts import signing
from sagelet_api.protocol.calls import Call, Environ, Protocol

_FIELD = re.compile(r"(Credential|SignedHeaders|Signature)=([^,\s]*)")
_ALGORITHM = "AWS4-HMAC-SHA256"
_NEEDED = ("Credential", "SignedHeaders", "Signature")
#: A presigned URL lives for a week at most.
MAX_EXPIRES = 7 * 24 * 3600
UNSIGNED = "UNSIGNED-PAYLOAD"


@dataclass(frozen=True)
class Claim:
    """What a request says about its own signature."""

    access_key: str
    #: `YYYYMMDD/REGION/SERVICE/aws4_request`, in parts.
    date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    signature: str
    #: `20260131T120000Z`.
    timestamp: str
    #: Seconds that a presigned URL is valid. None for a header.
    expires: int | None


@dataclass(frozen=True)
class Checked:
    """A valid signature, and what the chunks of the body need for theirs (`signed_bodies.py`)."""

    claim: Claim
    signer: Any
    request: Any


def read_claim(call: Call) -> Claim:
    """Reads the claim. Raises AwsError for a signature that is incomplete or of another version."""
    header = call.headers.get("authorization")
    if header is None:
        fields = {name: call.query.get(f"X-Amz-{name}", "") for name in _NEEDED}
        algorithm, timestamp = call.query.get("X-Amz-Algorithm", ""), call.query.get("X-Amz-Date", "")
        expires: int | None = _expires(call)
    else:
        found = _FIELD.findall(header)
        algorithm, fields = header.partition(" ")[0], dict(found)
        if len(found) != len(fields):
            raise errors.incomplete(call, "Authorization header has a parameter twice.", presigned=False)
        timestamp, expires = call.headers.get("x-amz-date", ""), None
    if algorithm != _ALGORITHM:
        raise errors.other_version(call)
    presigned = header is None
    for name in _NEEDED:
        if not fields.get(name):
            raise errors.incomplete(call, f"Authorization header requires '{name}' parameter.", presigned=presigned)
    scope = fields["Credential"].rsplit("/", 4)
    if len(scope) != 5 or scope[4] != "aws4_request":
        raise errors.incomplete(call, "Credential must be KEY/DATE/REGION/SERVICE/aws4_request.", presigned=presigned)
    if not re.fullmatch(r"\d{8}T\d{6}Z", timestamp, re.ASCII) or scope[1] != timestamp[:8]:
        raise errors.incomplete(
            call, "X-Amz-Date must be YYYYMMDDTHHMMSSZ, of the date in the Credential.", presigned=presigned
        )
    names = tuple(fields["SignedHeaders"].lower().split(";"))
    return Claim(
        access_key=scope[0],
        date=scope[1],
        region=scope[2],
        service=scope[3],
        signed_headers=names,
        signature=fields["Signature"],
        timestamp=timestamp,
        expires=expires,
    )


def check_time(call: Call, claim: Claim, now: datetime) -> None:
    """Raises AwsError for a request from another time, or an expired presigned URL."""
    try:
        signed = datetime.strptime(claim.timestamp, errors.BASIC).replace(tzinfo=timezone.utc)
    except ValueError as error:
        raise errors.incomplete(call, "X-Amz-Date is not a time.", presigned=claim.expires is not None) from error
    skew = errors.S3_SKEW if call.protocol is Protocol.S3 else errors.SKEW
    if signed > now + skew or (claim.expires is None and signed < now - skew):
        raise errors.skewed(call, signed, now)
    if claim.expires is not None and now > (end := signed + timedelta(seconds=claim.expires)):
        raise errors.url_expired(call, claim.expires, end, now)


def check(call: Call, environ: Environ, claim: Claim, secret: Secret, payload: str) -> Checked:
    """Checks the signature. `payload`: the SHA-256 of the body in hex, or what stands for it. Raises AwsError."""
    headers = sent_headers(call)
    _check_coverage(call, claim, headers)
    refusals: list[AwsError] = []
    for host in signed_hosts(call, headers):
        signer, request = _signer(call, environ, claim, secret, {**headers, "host": host})
        request.headers["X-Amz-Content-SHA256"] = payload
        canonical = signer.canonical_request(request)
        to_sign = signer.string_to_sign(request, canonical)
        if _is_same(signer.signature(to_sign, request), claim.signature):
            return Checked(claim, signer, request)
        refusals.append(errors.mismatch(call, claim.access_key, to_sign, canonical, claim.signature))
    raise refusals[0]


def _is_same(wanted: str, given: str) -> bool:
    return hmac.compare_digest(wanted, given.encode("ascii", "replace").decode())


def _expires(call: Call) -> int:
    text = call.query.get("X-Amz-Expires", "")
    if call.protocol is not Protocol.S3 and not text:
        return 900  # STS presigns without one. Kubernetes' tokens have 60, botocore 3600.
    if not re.fullmatch(r"\d{1,6}", text, re.ASCII) or not 1 <= int(text) <= MAX_EXPIRES:
        raise errors.incomplete(call, "X-Amz-Expires must be between 1 and 604800 seconds.", presigned=True)
    return int(text)


def sent_headers(call: Call) -> dict[str, str]:
    """Returns the headers by names in lower case. Values are text, which is UTF-8 on the wire unless it is ASCII."""
    return {name: _text(value) for name, value in call.headers.items()}


def _text(value: str) -> str:
    raw = value.encode("latin-1", "replace")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return value


def _check_coverage(call: Call, claim: Claim, headers: Mapping[str, str]) -> None:
    wanted = {"host"} | {name for name in headers if name.startswith("x-amz-")}
    # The hash of the body is in the canonical request anyway, and botocore's presigned URLs leave it unsigned.
    loose = sorted(wanted - set(claim.signed_headers) - {"x-amz-content-sha256"})
    if loose:
        raise errors.unsigned_headers(call, loose)


def _signer(call: Call, environ: Environ, claim: Claim, secret: Secret, headers: Mapping[str, str]) -> tuple[Any, Any]:
    parts = signing()
    base: Any = parts.auth.S3SigV4Auth if claim.service in ("s3", "s3express") else parts.auth.SigV4Auth

    class Signer(base):  # type: ignore[misc]
        """A signer of the headers that the client signed, instead of those that botocore would choose."""

        def headers_to_sign(self, request: Any) -> Any:  # noqa: ARG002 - botocore's
            chosen = parts.HTTPHeaders()
            for name in claim.signed_headers:
                if name in headers:
                    chosen[name] = headers[name]
            return chosen

    request = parts.AWSRequest(method=call.method, url=signed_url(call, environ))
    request.context["timestamp"] = claim.timestamp
    return Signer(parts.Credentials(claim.access_key, secret.secret), claim.service, claim.region), request


def signed_url(call: Call, environ: Environ) -> str:
    """Returns the URL as it was sent, without the signature itself."""
    target: str = environ.get("REQUEST_URI") or call.path
    path, _, query = target.partition("?")
    parts = [part for part in query.split("&") if part and not part.startswith("X-Amz-Signature=")]
    return f"http://server{path}{'?' + '&'.join(parts) if parts else ''}"
