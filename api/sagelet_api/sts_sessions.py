"""The sessions that STS gives out here: temporary keys with an account, a caller, an end and, for a job's, the job.

Nothing of them is stored. A session token carries its own claims, sealed with the data directory's key pair, and the
access key and secret are derived from it: so sessions survive a restart, and nobody else can make or change one. A
session that a training job asked for is that job's: it may do what the job may, and ends with it.
"""

import base64
import binascii
import hmac
import json
import secrets
from dataclasses import asdict, dataclass, replace

from sagelet_engine.jobs.session import SessionKey, is_job_token
from sagelet_engine.keys import KeyPair

_PREFIX = "sagelet-sts"


@dataclass(frozen=True)
class StsSession:
    """What a session token says."""

    account: str
    #: ARN of the caller: `arn:aws:sts::123456789012:assumed-role/NAME/SESSION`.
    principal: str
    #: UserId of GetCallerIdentity: `AROA...:SESSION`.
    user_id: str
    #: ARN of the role that was assumed; empty for GetSessionToken and GetFederationToken.
    role: str
    expires_ms: int
    #: Session policies, which limit what the caller may do; None: not limited by any.
    policies: tuple[str, ...] | None = None
    #: Session token of the training job that asked for it; empty: an owner did.
    job_token: str = ""
    #: Tells two sessions of one caller apart.
    nonce: str = ""


def give_out(keys: KeyPair, session: StsSession) -> SessionKey:
    claims = json.dumps(asdict(replace(session, nonce=secrets.token_hex(8))), separators=(",", ":"))
    return _key(keys, base64.urlsafe_b64encode(claims.encode()).decode().rstrip("="))


def is_sts_token(token: str) -> bool:
    return token.startswith(f"{_PREFIX}.")


def is_session_token(token: str) -> bool:
    """Whether it looks like a token that was given out here, to a job or by STS."""
    return is_job_token(token) or is_sts_token(token)


def read(keys: KeyPair, token: str) -> tuple[StsSession, SessionKey] | None:
    """The session of a token, with the key it must be used with; None when this data directory made no such token."""
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
        return None  # Sealed by us in another version, with other claims.


def _key(keys: KeyPair, claims: str) -> SessionKey:
    seal = keys.derived(f"sts token {claims}").replace("/", "_").replace("+", "-")
    return SessionKey(
        keys.derived_id("ASIA", f"sts access key {claims}"),
        keys.derived(f"sts secret {claims}"),
        f"{_PREFIX}.{claims}.{seal}",
    )
