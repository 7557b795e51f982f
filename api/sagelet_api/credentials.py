"""Who calls, as the SigV4 credential scope says it. Whether it is true is `authentication.py`'s question."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT_ACCOUNT = "123456789012"
DEFAULT_REGION = "us-east-1"

#: What S3 called regions in its first years; s3cmd signs for US until a server tells it of another region.
_FORMER_NAMES = {"US": "us-east-1", "EU": "eu-west-1"}
_SCOPE = re.compile(r"AWS4-(?P<algorithm>HMAC|ECDSA)\S*\s.*?Credential=(?P<scope>[^,\s]+)", re.DOTALL)
_V2 = re.compile(r"AWS (?P<key>[^:\s]+):\S")
_ACCOUNT = re.compile(r"\d{12}", re.ASCII)
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}", re.IGNORECASE)


@dataclass(frozen=True)
class Credential:
    """The parts of a credential scope that route a request."""

    access_key: str
    #: As the client signed it, lower case: `sagemaker`, `s3`, `monitoring`, ...
    service: str
    region: str

    @property
    def account(self) -> str:
        """A 12-digit access key names the account, as with LocalStack; every other key is the default account."""
        return self.access_key if self.names_account else DEFAULT_ACCOUNT

    @property
    def names_account(self) -> bool:
        return _ACCOUNT.fullmatch(self.access_key) is not None


def find_credential(headers: Mapping[str, str], query: Mapping[str, str]) -> Credential | None:
    """The credential of a signed or presigned request; None when there is none or it cannot be read.

    `headers` has lower-case names. Knows SigV4, SigV4A (its scope names no region) and S3's SigV2.
    """
    authorization = headers.get("authorization")
    if authorization is not None:
        return _from_header(authorization)
    if "X-Amz-Credential" in query and "X-Amz-Signature" in query:
        return _from_scope(query["X-Amz-Credential"], "ECDSA" in query.get("X-Amz-Algorithm", ""))
    if "AWSAccessKeyId" in query and "Signature" in query:
        return Credential(query["AWSAccessKeyId"], "s3", DEFAULT_REGION)
    return None


def _from_header(authorization: str) -> Credential | None:
    if match := _SCOPE.match(authorization):
        return _from_scope(match["scope"], match["algorithm"] == "ECDSA")
    if match := _V2.match(authorization):
        return Credential(match["key"], "s3", DEFAULT_REGION)
    return None


def _from_scope(scope: str, without_region: bool) -> Credential | None:
    if without_region:
        scope = _insert_region(scope)
    parts = scope.rsplit("/", 4)
    if len(parts) != 5 or parts[4] != "aws4_request":
        return None
    access_key, _, region, service, _ = parts
    if not access_key or not _NAME.fullmatch(region) or not _NAME.fullmatch(service):
        return None
    return Credential(access_key, service.lower(), _FORMER_NAMES.get(region, region))


def _insert_region(scope: str) -> str:
    head, _, tail = scope.partition("/")
    date, _, rest = tail.partition("/")
    return f"{head}/{date}/{DEFAULT_REGION}/{rest}"
