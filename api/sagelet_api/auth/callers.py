"""Finds who a request's credentials belong to: the principal that acts."""

from dataclasses import dataclass, field
from typing import Protocol

from sagelet_api.protocol import sts_sessions
from sagelet_api.protocol.calls import Credential
from sagelet_api.protocol.sts_sessions import StsSession, is_sts_token
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.model.acting import of_job
from sagelet_engine.model.job import Job
from sagelet_engine.model.principal import Principal, PrincipalKind, owner, union
from sagelet_engine.model.session import JobSession, is_job_token


@dataclass(frozen=True)
class Secret:
    """The secret that a signature is checked with, and whose it is."""

    secret: str = field(repr=False)
    principal: Principal
    #: The session token that must come with it. Empty if none.
    token: str = field(default="", repr=False)
    #: True if the job that it belongs to has ended.
    expired: bool = False
    #: The end of the session that it belongs to.
    expires_ms: int | None = None
    #: The job that it belongs to, or that requested its session.
    job: Job | None = None
    session: StsSession | None = None
    #: True if it is the key pair's, so the owner's.
    owner: bool = False

    @property
    def account(self) -> str:
        return self.principal.account


class Sessions(Protocol):
    """The sessions of jobs."""

    def session(self, token: str) -> JobSession | None:
        """Returns the job that a session token belongs to."""
        ...

    def has_ended(self, job_id: str) -> bool:
        """True if the job has ended. A forgotten job has."""
        ...


class UserKeys(Protocol):
    """The keys of users."""

    def secret_of(self, access_key: str) -> tuple[str, str] | None:
        """Returns the secret and the account of a key that IAM gave to a user here."""
        ...


class Callers:
    """Finds callers. `keys`: the server's own."""

    def __init__(self, keys: KeyPair, sessions: Sessions, users: UserKeys) -> None:
        self._keys = keys
        self._sessions = sessions
        self._users = users

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
            return Secret(keys.secret, owner(credential.account), owner=True)
        found = self._users.secret_of(credential.access_key)
        return None if found is None else Secret(found[0], owner(found[1]))

    def _of_job(self, credential: Credential, token: str) -> Secret | None:
        session = self._sessions.session(token)
        if session is None or session.key.access_key != credential.access_key:
            return None
        job = session.job
        return Secret(session.key.secret, of_job(job), token, job.terminal, job=job)

    def _of_sts(self, credential: Credential, token: str) -> Secret | None:
        found = sts_sessions.read(self._keys, token)
        if found is None or found[1].access_key != credential.access_key:
            return None
        session, key = found
        job: Job | None = None
        if session.job_token:
            asked = self._sessions.session(session.job_token)
            if asked is None:
                return None  # A forgotten job has ended.
            job = asked.job
        ended = (job is not None and job.terminal) or any(map(self._sessions.has_ended, session.ends_with))
        principal = _principal_of(session, job)
        return Secret(key.secret, principal, token, ended, session.expires_ms, job, session)


def _principal_of(session: StsSession, job: Job | None) -> Principal:
    within = None if job is None else of_job(job)
    return Principal(
        PrincipalKind.SESSION,
        session.account,
        session.principal,
        session.role,
        policies=session.policies,
        limited=session.limited,
        within=within,
        jobs=union(() if within is None else within.jobs, session.ends_with),
    )
