"""Finds who a request's credentials belong to, and what that caller may do."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sagelet_api.auth.permissions import TRAINING_POLICY, TRAINING_POLICY_TEXT, Policy, allows
from sagelet_api.protocol import credentials
from sagelet_api.protocol.credentials import DEFAULT_ACCOUNT, Credential, StsSession, is_sts_token
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.model.job import Job
from sagelet_engine.model.session import JobSession, is_job_token
from sagelet_engine.runtimes.slurm.file_sync.batches import is_staging_bucket, job_may, staging_bucket

#: Everybody may ask who they are, as on AWS.
_NEEDS_NOTHING = "sts:GetCallerIdentity"
#: They make keys that do not end, and a job does.
_LASTING = ("iam:CreateAccessKey", "iam:UpdateAccessKey")


@dataclass(frozen=True)
class Secret:
    """What a signature by an access key is checked with."""

    secret: str = field(repr=False)
    #: The session token that has to come with it; empty: none.
    token: str = field(default="", repr=False)
    account: str = DEFAULT_ACCOUNT
    #: Whether the job that it belongs to has ended.
    expired: bool = False
    #: When the session that it belongs to ends.
    expires_ms: int | None = None
    #: The job that it belongs to, or that asked for the session that it belongs to.
    job: Job | None = None
    session: StsSession | None = None
    #: Whether it is the key pair's: the owner's.
    owner: bool = False


class Sessions(Protocol):
    """The sessions of jobs."""

    def session(self, token: str) -> JobSession | None:
        """The job that a session token belongs to."""
        ...


class Iam(Protocol):
    """The users and roles of an account."""

    def secret_of(self, access_key: str) -> tuple[str, str] | None:
        """Secret and account of a key that IAM gave to a user here."""
        ...

    def role_policies(self, arn: str) -> Sequence[str]:
        """The policies of a role, inline and attached. Empty for a role that IAM does not know."""
        ...


class Callers:
    """`keys`: the server's own. `enforce_iam`: a job may do what its role's policies allow, and nothing else."""

    def __init__(self, keys: KeyPair, sessions: Sessions, iam: Iam, *, enforce_iam: bool) -> None:
        self._keys = keys
        self._sessions = sessions
        self._iam = iam
        self._enforce = enforce_iam

    def secret_of(self, credential: Credential, token: str) -> Secret | None:
        """None for a key that nobody here gave out.

        The key pair's secret signs for every account: a 12-digit access key names one, as it does without `--auth`.
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
        """Whether there is something that they may not do. An owner's session of a role is limited as IAM is asked."""
        return job is not None or (session is not None and (self._enforce or session.policies is not None))

    def allows(self, job: Job | None, session: StsSession | None, action: str, resource: str) -> bool:
        """Whether a caller reaches this: `s3:GetObject`, `arn:aws:s3:::bucket/key`.

        A session that a job asked for may do nothing that the job may not.
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
            # Where its own hosts leave their files and find those for them, whatever its role is.
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
        found = credentials.read(self._keys, token)
        if found is None or found[1].access_key != credential.access_key:
            return None
        session, key = found
        secret = Secret(key.secret, token, session.account, expires_ms=session.expires_ms, session=session)
        if not session.job_token:
            return secret
        asked = self._sessions.session(session.job_token)
        # A job that is forgotten has ended.
        return None if asked is None else replace(secret, job=asked.job, expired=asked.job.terminal)
