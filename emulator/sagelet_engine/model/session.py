"""The credentials of a job: a temporary key of its own, valid until the job ends.

They are not stored. They are derived from the data directory's key pair and the job's id, so they survive a restart,
and the session token names its job.
"""

import hmac
from dataclasses import dataclass, field

from sagelet_engine.base.keys import KeyPair
from sagelet_engine.model.job import Job

_PREFIX = "sagelet-job"


@dataclass(frozen=True)
class SessionKey:
    """Credentials as STS gives them out: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN."""

    access_key: str
    secret: str = field(repr=False)
    token: str = field(repr=False)


@dataclass(frozen=True)
class JobSession:
    """A job whose session token a caller has shown, with the key that must belong to it."""

    job: Job
    key: SessionKey


def session_key(keys: KeyPair, job_id: str) -> SessionKey:
    return SessionKey(
        keys.derived_id("ASIA", f"job access key {job_id}"),
        keys.derived(f"job secret {job_id}"),
        f"{_PREFIX}.{job_id}.{_seal(keys, job_id)}",
    )


def is_job_token(token: str) -> bool:
    """True if the text looks like a job's token. Other tokens are STS's."""
    return token.startswith(f"{_PREFIX}.")


def job_id_of(keys: KeyPair, token: str) -> str | None:
    """Returns the job that a session token was made for, or None if this data directory made no such token."""
    prefix, _, rest = token.partition(".")
    job_id, _, seal = rest.rpartition(".")
    genuine = hmac.compare_digest(seal.encode("utf-8", "replace"), _seal(keys, job_id).encode())
    return job_id if prefix == _PREFIX and genuine else None


def _seal(keys: KeyPair, job_id: str) -> str:
    return keys.derived(f"job token {job_id}").replace("/", "_").replace("+", "-")
