"""Finds who a request's credentials belong to, and what that caller may do."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sagelet_api.auth.permissions import TRAINING_POLICY, TRAINING_POLICY_TEXT, Policy, allows
from sagelet_api.protocol import sts_sessions
from sagelet_api.protocol.calls import DEFAULT_ACCOUNT, Credential
from sagelet_api.protocol.sts_sessions import StsSession, is_sts_token
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.model.batch_keys import is_staging_bucket, job_may, staging_bucket
from sagelet_engine.model.job import Job
from sagelet_engine.model.session import JobSession, is_job_token

#: Everybody may ask who they are, as on AWS.
_NEEDS_NOTHING = "sts:GetCallerIdentity"
#: These make keys that never end, while a job ends.
_LASTING = ("iam:CreateAccessKey", "iam:UpdateAccessKey")


@dataclass(frozen=True)
class Secret:
    """The secret that a signature is checked with, and whose it is."""

    secret: str = field(repr=False)
    #: The session token that must come with it. Empty if none.
    token: str = field(default="", repr=False)
    account: str = DEFAULT_ACCOUNT
    #: True if the job that it belongs to has ended.
    expired: bool = False
    #: The end of the session that it belongs to.
    expires_ms: int | None = None
    #: The job that it belongs to, or that requested its session.
    job: Job | None = None
    session: StsSession | None = None
    #: True if it is the key pair's, so the owner's.
    owner: bool = False


class Sessions(Protocol):
    """The sessions of jobs."""

    def session(self, token: str) -> JobSession | None:
        """Returns the job that a session token belongs to."""
        ...


class Iam(Protocol):
    """The users and roles of an account."""

    def secret_of(self, access_key: str) -> tuple[str, str] | None:
        """Returns the secret and the account of a key that IAM gave to a user here."""
        ...

    def role_policies(self, arn: str) -> Sequence[str]:
        """Returns the policies of a role, inline and attached. Empty for a role that IAM does not know."""
        ...


class Callers:
    """Finds callers. `keys`: the server's own. `enforce_iam`: a job may only do what its role's policies allow."""

    def __init__(self, keys: KeyPair, sessions: Sessions, iam: Iam, *, enforce_iam: bool) -> None:
        self._keys = keys
        self._sessions = sessions
        self._iam = iam
        self._enforce = enforce_iam

    def secret_of(self, credential: Credential, token: str) -> Secret | None:
        """Returns the secret of an access key, or None for a key that nobody here gave out.

        The key pair's secret signs for every account: a 12-digit access key names the account, as without `--auth`.
        """
        keys = self._keys
        if is_job_token(token):
            return self._of_job(credential, token)
        if is_sts_token(token):
            return self._of_sts(credential, token)
        if credential.access_key == keys.access_key or credential.names_account:
            return Secret(keys.secret, account=credential.account, owner=True)
        found = self._iam.secret_of(credential.access_key)
        return None if found is None else Secret(found[0], account=found[1])

    def is_limited(self, job: Job | None, session: StsSession | None) -> bool:
        """True if there is something that the caller may not do. IAM's policies limit an owner's session of a role."""
        return job is not None or (session is not None and (self._enforce or session.policies is not None))

    def allows(self, job: Job | None, session: StsSession | None, action: str, resource: str) -> bool:
        """True if a caller may do this action, such as `s3:GetObject` on `arn:aws:s3:::bucket/key`.

        A session that a job requested may do nothing that the job may not.
        """
        if action == _NEEDS_NOTHING:
            return True
        if job is not None and not self._job_allows(job, action, resource):
            return False
        return session is None or self._session_allows(session, action, resource)

    def _session_allows(self, session: StsSession, action: str, resource: str) -> bool:
        limits: list[Sequence[str]] = [] if session.policies is None else [session.policies]
        if session.role and (self._enforce or session.job_token):
            limits.append([*self._iam.role_policies(session.role), *([] if self._enforce else [TRAINING_POLICY_TEXT])])
        return all(allows([Policy.parse(text) for text in one], action, resource) for one in limits)

    def _job_allows(self, job: Job, action: str, resource: str) -> bool:
        if action in _LASTING:
            return False
        bucket, _, key = resource.partition(":::")[2].partition("/")
        if is_staging_bucket(bucket):
            # The job's own hosts leave their files there and fetch theirs, whatever its role is.
            return bucket == staging_bucket(job.key.account) and job_may(action, key, job.launch_id)
        policies = [Policy.parse(text) for text in self._iam.role_policies(job.spec.role)]
        if not self._enforce:
            policies.append(TRAINING_POLICY)
        return allows(policies, action, resource)

    def _of_job(self, credential: Credential, token: str) -> Secret | None:
        session = self._sessions.session(token)
        if session is None or session.key.access_key != credential.access_key:
            return None
        job = session.job
        return Secret(session.key.secret, token, job.key.account, job.terminal, job=job)

    def _of_sts(self, credential: Credential, token: str) -> Secret | None:
        found = sts_sessions.read(self._keys, token)
        if found is None or found[1].access_key != credential.access_key:
            return None
        session, key = found
        secret = Secret(key.secret, token, session.account, expires_ms=session.expires_ms, session=session)
        if not session.job_token:
            return secret
        asked = self._sessions.session(session.job_token)
        # A forgotten job has ended.
        return None if asked is None else replace(secret, job=asked.job, expired=asked.job.terminal)
