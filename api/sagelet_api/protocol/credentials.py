"""Reads who calls from the SigV4 credential scope. `auth/authentication.py` checks whether that is true.

STS's sessions here are temporary keys with an account, a caller, an end and, if a job requested them, the job. Nothing
of them is stored. A session token carries its own claims, sealed with the data directory's key pair, and the access key
and secret are derived from it. So sessions survive a restart, and nobody else can make or change one. A session that a
training job requested may do what the job may, and ends with the job.
"""

import base64
import binascii
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from sagelet_engine.base.keys import KeyPair
from sagelet_engine.model.session import SessionKey, is_job_token

_PREFIX = "sagelet-sts"


@dataclass(frozen=True)
class StsSession:
    """The claims of a session token."""

    account: str
    #: ARN of the caller: `arn:aws:sts::123456789012:assumed-role/NAME/SESSION`.
    principal: str
    #: The UserId of GetCallerIdentity: `AROA...:SESSION`.
    user_id: str
    #: The ARN of the role that was assumed. Empty for GetSessionToken and GetFederationToken.
    role: str
    expires_ms: int
    #: Session policies, which limit what the caller may do. None if there are none.
    policies: tuple[str, ...] | None = None
    #: The session token of the training job that requested it. Empty if an owner did.
    job_token: str = ""
    #: Distinguishes two sessions of one caller.
    nonce: str = ""


def give_out(keys: KeyPair, session: StsSession) -> SessionKey:
    claims = json.dumps(asdict(replace(session, nonce=secrets.token_hex(8))), separators=(",", ":"))
    return _key(keys, base64.urlsafe_b64encode(claims.encode()).decode().rstrip("="))


def is_sts_token(token: str) -> bool:
    return token.startswith(f"{_PREFIX}.")


def is_session_token(token: str) -> bool:
    """True if the text looks like a token that was given out here, to a job or by STS."""
    return is_job_token(token) or is_sts_token(token)


def read(keys: KeyPair, token: str) -> tuple[StsSession, SessionKey] | None:
    """Returns the session of a token and the key that it must be used with. None if this data directory did not make
    the token.
    """
    prefix, _, rest = token.partition(".")
    claims, _, _ = rest.rpartition(".")
    key = _key(keys, claims)
    if prefix != _PREFIX or not hmac.compare_digest(key.token.encode(), token.encode("utf-8", "replace")):
        return None
    try:
        said = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        policies = None if said["policies"] is None else tuple(said["policies"])
        return StsSession(**{**said, "policies": policies}), key
    except (ValueError, TypeError, KeyError, binascii.Error):
        return None  # Sealed by another version of sagelet, with other claims.


def _key(keys: KeyPair, claims: str) -> SessionKey:
    seal = keys.derived(f"sts token {claims}").replace("/", "_").replace("+", "-")
    return SessionKey(
        keys.derived_id("ASIA", f"sts access key {claims}"),
        keys.derived(f"sts secret {claims}"),
        f"{_PREFIX}.{claims}.{seal}",
    )


DEFAULT_ACCOUNT = "123456789012"
DEFAULT_REGION = "us-east-1"

#: The names that S3 gave regions in its first years. s3cmd signs for US until a server names another region.
_FORMER_NAMES = {"US": "us-east-1", "EU": "eu-west-1"}
_SCOPE = re.compile(r"AWS4-(?P<algorithm>HMAC|ECDSA)\S*\s.*?Credential=(?P<scope>[^,\s]+)", re.DOTALL)
_V2 = re.compile(r"AWS (?P<key>[^:\s]+):\S")
_ACCOUNT = re.compile(r"\d{12}", re.ASCII)
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}", re.IGNORECASE)


@dataclass(frozen=True)
class Credential:
    """The parts of a credential scope that route a request."""

    access_key: str
    #: As the client signed it, in lower case: `sagemaker`, `s3`, `monitoring`, ...
    service: str
    region: str

    @property
    def account(self) -> str:
        """Returns the account. A 12-digit access key names it, as with LocalStack; every other key means the default
        account.
        """
        return self.access_key if self.names_account else DEFAULT_ACCOUNT

    @property
    def names_account(self) -> bool:
        return _ACCOUNT.fullmatch(self.access_key) is not None


def find_credential(headers: Mapping[str, str], query: Mapping[str, str]) -> Credential | None:
    """Returns the credential of a signed or presigned request, or None if it is missing or unreadable.

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
