"""Checks Signature Version 2 of S3 with botocore's own signer. boto3 presigns URLs with it by default.

Source: docs.aws.amazon.com/AmazonS3/latest/userguide/RESTAuthentication.html. The body is not signed. Only the parts of
the query that change the operation or the answer are signed.
"""

import hmac
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from sagelet_api.auth import signature_errors as errors
from sagelet_api.auth.callers import Secret
from sagelet_api.auth.signatures import sent_headers, signed_url
from sagelet_api.protocol.botocore_parts import signing
from sagelet_api.protocol.calls import Call, Environ, Protocol
from sagelet_engine.base.number_text import whole_number_in


def is_version_2(call: Call) -> bool:
    """True if the request has S3's version 2, in a header or a presigned URL."""
    if call.protocol is not Protocol.S3:
        return False
    return call.headers.get("authorization", "AWS ").startswith("AWS ") and (
        "authorization" in call.headers or "AWSAccessKeyId" in call.query
    )


def check_version_2(call: Call, environ: Environ, secret: Secret, now: datetime) -> None:
    """Raises AwsError unless the signature is valid and its time is now."""
    presigned = "authorization" not in call.headers
    headers = sent_headers(call)
    _refuse_unsigned(call)
    if presigned:
        # botocore's presigned URLs carry them in the query.
        taken = {name.lower(): value for name, value in call.query.items()}
        headers = {**{k: v for k, v in taken.items() if k.startswith("x-amz-") or k == "content-md5"}, **headers}
        date, given = call.query.get("Expires", ""), call.query.get("Signature", "")
        _check_expiry(call, date, now)
    else:
        date, given = headers.get("date", ""), call.headers["authorization"].rpartition(":")[2]
        _check_date(call, headers.get("x-amz-date") or date, now)
        date = "" if "x-amz-date" in headers else date
    to_sign, expected = _signature(call, environ, secret, headers, date)
    if not hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
        assert call.credential is not None
        raise errors.mismatch(call, call.credential.access_key, to_sign, "", given)


def _refuse_unsigned(call: Call) -> None:
    """Raises AwsError for unsigned parts that select another operation. This version covers S3 as it was ten years
    ago.
    """
    from sagelet_api.protocol.s3.request import selecting

    # Both listings of a bucket need the same permission, and botocore signs the newer one like this.
    loose = (selecting() & call.query.keys()) - {*signing().auth.HmacV1Auth.QSAOfInterest, "list-type"}
    if loose:
        raise errors.unsigned_headers(call, sorted(loose))


def _signature(call: Call, environ: Environ, secret: Secret, headers: dict[str, str], date: str) -> tuple[str, str]:
    from sagelet_api.protocol.s3.request import bucket_of_host

    parts = signing()
    base: Any = parts.auth.HmacV1Auth

    class Signer(base):  # type: ignore[misc]
        def _get_date(self) -> str:
            return date

    signer: Any = Signer(parts.Credentials("", secret.secret))
    url = urlsplit(signed_url(call, environ))
    bucket = bucket_of_host(call.headers.get("host", ""))
    path = f"/{bucket}{url.path}" if bucket else url.path
    to_sign = signer.canonical_string(call.method, url, parts.HTTPHeaders.from_dict(headers), auth_path=path)
    return to_sign, signer.sign_string(to_sign)


def _check_expiry(call: Call, text: str, now: datetime) -> None:
    seconds = whole_number_in(text)
    refusal = errors.incomplete(call, "Expires must say when the URL ends.", presigned=True)
    if seconds is None:
        raise refusal
    try:
        end = datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError) as error:
        raise refusal from error
    if now > end:
        raise errors.url_expired(call, seconds, end, now)


def _check_date(call: Call, text: str, now: datetime) -> None:
    try:
        signed = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError) as error:
        raise errors.incomplete(call, "Date must say when the request was signed.", presigned=False) from error
    signed = signed if signed.tzinfo else signed.replace(tzinfo=timezone.utc)
    if abs(signed - now) > errors.S3_SKEW:
        raise errors.skewed(call, signed, now)
