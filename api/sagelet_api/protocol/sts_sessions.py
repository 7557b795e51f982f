"""Sessions of STS: temporary keys with an account, a caller, an end and, if a job requested them, the job.

Nothing of them is stored. A session token carries its own claims, sealed with the data directory's key pair, and the
access key and secret are derived from it. So sessions survive a restart, and nobody else can make or change one. A
session that a training job requested may do what the job may, and ends with the job.
"""

import base64
import binascii
import hmac
import json
import secrets
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
    #: True if the role's policies limit it, although no job requested it: a function's session, and those that it
    #: requests.
    limited: bool = False
    #: Ids of further jobs with which it ends: those that made or invoked the function whose session it is.
    ends_with: tuple[str, ...] = ()
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
        return StsSession(**{**said, "policies": policies, "ends_with": tuple(said.get("ends_with", ()))}), key
    except (ValueError, TypeError, KeyError, binascii.Error):
        return None  # Sealed by another version of sagelet, with other claims.


def _key(keys: KeyPair, claims: str) -> SessionKey:
    seal = keys.derived(f"sts token {claims}").replace("/", "_").replace("+", "-")
    return SessionKey(
        keys.derived_id("ASIA", f"sts access key {claims}"),
        keys.derived(f"sts secret {claims}"),
        f"{_PREFIX}.{claims}.{seal}",
    )
