"""Who acts, and the port to the one decision about what a principal may do.

Everything that reads, writes, calls or invokes takes a Principal. None of these ports has a default, so nothing acts
as the account's owner unless its code says `owner`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from sagelet_engine.base.errors import ClientFault

#: The name that SageMaker gives its own sessions of a job's role.
JOB_SESSION = "SageMaker"


class PrincipalKind(Enum):
    #: The account itself: who holds the key pair, and the server's own housekeeping.
    OWNER = "owner"
    #: A training or processing job, by its role.
    JOB = "job"
    #: An execution of a pipeline, by its role.
    EXECUTION = "execution"
    #: A session of STS, or of a Lambda function.
    SESSION = "session"


@dataclass(frozen=True)
class Principal:
    """Who acts. `owner`, `of_role` and those of `acting.py` make one; the API makes those of sessions."""

    kind: PrincipalKind
    account: str
    #: The ARN by which IAM's refusals name the caller. Empty for an owner.
    arn: str = ""
    #: The ARN of the role that it acts with. Empty for an owner.
    role: str = ""
    #: The launch id of a job that runs.
    launch_id: str = ""
    #: Session policies, as JSON. None if there are none.
    policies: tuple[str, ...] | None = None
    #: True if the policies of the role limit a session. Otherwise only --enforce-iam has them do so.
    limited: bool = False
    #: The job that asked for the session, which may do no more than the job.
    within: "Principal | None" = None
    #: Ids of the jobs with whose ends what it obtains ends, too.
    jobs: tuple[str, ...] = ()


class NotAuthorized(ClientFault):
    """The principal may not do it. The text is IAM's ("Troubleshoot access denied error messages", IAM user guide)."""

    def __init__(self, principal: Principal, action: str, resource: str, *, by_a_denial: bool = False) -> None:
        why = (
            "with an explicit deny in an identity-based policy"
            if by_a_denial
            else f"because no identity-based policy allows the {action} action"
        )
        super().__init__(f"User: {principal.arn} is not authorized to perform: {action} on resource: {resource} {why}")
        self.action = action
        self.resource = resource


class Authorize(Protocol):
    """The one decision. The API evaluates the policies (`sagelet_api/auth/authorization.py`)."""

    def __call__(self, principal: Principal, action: str, resource: str) -> None:
        """Raises NotAuthorized unless the principal may do an action, such as `s3:GetObject` on
        `arn:aws:s3:::bucket/key`.
        """
        ...


def allow_all(principal: Principal, action: str, resource: str) -> None:
    """The Authorize of a store or engine without IAM: commands on a data directory, and tests."""


def owner(account: str) -> Principal:
    return Principal(PrincipalKind.OWNER, account)


def of_role(account: str, role: str) -> Principal:
    """Returns the principal of a job with this role that does not exist yet."""
    return Principal(PrincipalKind.JOB, account, session_arn(account, role, JOB_SESSION), role)


def object_arn(bucket: str, key: str = "") -> str:
    return f"arn:aws:s3:::{bucket}/{key}" if key else f"arn:aws:s3:::{bucket}"


def union(*jobs: Iterable[str]) -> tuple[str, ...]:
    """Returns ids of jobs without repetition."""
    return tuple(dict.fromkeys(one for some in jobs for one in some))


def session_arn(account: str, role: str, name: str) -> str:
    """Returns the ARN of the caller in a session of a role."""
    parts = role.split(":", 2)
    partition = parts[1] if len(parts) == 3 else "aws"
    return f"arn:{partition}:sts::{account}:assumed-role/{role.rpartition('/')[2]}/{name}"
