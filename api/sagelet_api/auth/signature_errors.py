"""AWS's errors for credentials and signatures that it refuses, in each of its protocols.

Sources: S3 API reference, "List of error codes"; "Common Errors" of the SageMaker, STS and CloudWatch references; the
texts are what these services answer. AWS JSON has its own names for what the Query protocol calls
InvalidClientTokenId, SignatureDoesNotMatch and so on.
"""

from datetime import datetime, timedelta

from sagelet_api.protocol.aws_errors import AwsError
from sagelet_api.protocol.calls import Call, Protocol

#: Seconds by which the clocks of client and server may differ, for S3 and for the others.
S3_SKEW, SKEW = timedelta(minutes=15), timedelta(minutes=5)
BASIC = "%Y%m%dT%H%M%SZ"
_ISO = "%Y-%m-%dT%H:%M:%SZ"
_DIFFERS = "The request signature we calculated does not match the signature you provided."


class Refused(AwsError):
    """An AWS error. `details` become elements of their own in S3's errors."""

    def __init__(self, code: str, status: int, message: str, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.details = {name: str(value) for name, value in details.items()}


def _is_json(call: Call) -> bool:
    return call.protocol in (Protocol.JSON, Protocol.CBOR)


def unknown_key(call: Call, access_key: str) -> Refused:
    if call.protocol is Protocol.S3:
        message = "The AWS Access Key Id you provided does not exist in our records."
        return Refused("InvalidAccessKeyId", 403, message, AWSAccessKeyId=access_key)
    message = "The security token included in the request is invalid."
    return Refused("UnrecognizedClientException", 400, message) if _is_json(call) else Refused(
        "InvalidClientTokenId", 403, message
    )  # fmt: skip


def invalid_token(call: Call, access_key: str) -> Refused:
    if call.protocol is Protocol.S3:
        return Refused("InvalidToken", 400, "The provided token is malformed or otherwise invalid.")
    return unknown_key(call, access_key)


def expired_token(call: Call) -> Refused:
    if call.protocol is Protocol.S3:
        return Refused("ExpiredToken", 400, "The provided token has expired.")
    message = "The security token included in the request is expired"
    return Refused("ExpiredTokenException", 400, message) if _is_json(call) else Refused("ExpiredToken", 403, message)


def mismatch(call: Call, access_key: str, to_sign: str, canonical: str, given: str) -> Refused:
    if call.protocol is Protocol.S3:
        return Refused(
            "SignatureDoesNotMatch",
            403,
            f"{_DIFFERS} Check your key and signing method.",
            AWSAccessKeyId=access_key,
            StringToSign=to_sign,
            SignatureProvided=given,
            StringToSignBytes=to_sign.encode().hex(" "),
            CanonicalRequest=canonical,
            CanonicalRequestBytes=canonical.encode().hex(" "),
        )
    return _invalid(
        call,
        f"{_DIFFERS} Check your AWS Secret Access Key and signing method. "
        "Consult the service documentation for details.",
    )


def _invalid(call: Call, message: str) -> Refused:
    code, status = ("InvalidSignatureException", 400) if _is_json(call) else ("SignatureDoesNotMatch", 403)
    return Refused(code, status, message)


def skewed(call: Call, signed: datetime, now: datetime) -> Refused:
    """Returns the error of a request that was signed too long ago, or in the future."""
    if call.protocol is Protocol.S3:
        return Refused(
            "RequestTimeTooSkewed",
            403,
            "The difference between the request time and the current time is too large.",
            RequestTime=signed.strftime(BASIC),
            ServerTime=now.strftime(_ISO),
            MaxAllowedSkewMilliseconds=int(S3_SKEW.total_seconds() * 1000),
        )
    then, current = signed.strftime(BASIC), now.strftime(BASIC)
    if signed < now:
        limit = (now - SKEW).strftime(BASIC)
        return _invalid(call, f"Signature expired: {then} is now earlier than {limit} ({current} - 5 min.)")
    limit = (now + SKEW).strftime(BASIC)
    return _invalid(call, f"Signature not yet current: {then} is still later than {limit} ({current} + 5 min.)")


def url_expired(call: Call, expires: int, end: datetime, now: datetime) -> Refused:
    if call.protocol is Protocol.S3:
        return Refused(
            "AccessDenied",
            403,
            "Request has expired",
            **{"X-Amz-Expires": expires},
            Expires=end.strftime(_ISO),
            ServerTime=now.strftime(_ISO),
        )
    return _invalid(call, f"Signature expired: {end.strftime(BASIC)} is now earlier than {now.strftime(BASIC)}")


def incomplete(call: Call, what: str, *, presigned: bool) -> Refused:
    """Returns the error of a signature that lacks a part, or has a garbled one."""
    if call.protocol is Protocol.S3:
        code = "AuthorizationQueryParametersError" if presigned else "AuthorizationHeaderMalformed"
        return Refused(code, 400, f"The authorization {'query' if presigned else 'header'} is malformed; {what}")
    code = "IncompleteSignatureException" if _is_json(call) else "IncompleteSignature"
    return Refused(code, 400, what)


def other_version(call: Call) -> Refused:
    """Returns the error for signature version 2, or 4A."""
    message = "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256."
    if call.protocol is Protocol.S3:
        return Refused("InvalidRequest", 400, message)
    return incomplete(call, message, presigned=False)


def unsigned_headers(call: Call, names: list[str]) -> Refused:
    """Returns the error for unsigned headers. `host` and all `x-amz-*` must be signed, or others could change what the
    request means.
    """
    if call.protocol is Protocol.S3:
        message = "There were headers present in the request which were not signed"
        return Refused("AccessDenied", 403, message, HeadersNotSigned=", ".join(names))
    return _invalid(call, f"'{', '.join(names)}' must be a 'SignedHeader' in the AWS Authorization.")


def not_authorized(call: Call, message: str) -> Refused:
    """Returns the error for what the caller may not do. `message`: IAM's text."""
    if _is_json(call):
        return Refused("AccessDeniedException", 400, message)
    return Refused("AccessDenied", 403, message)
