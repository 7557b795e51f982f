"""The one decision about who may do what: `authorize(principal, action, resource)`.

Requests, steps of pipelines, staging, uploads and functions all ask here, when they act, about the value that they use.
"""

from collections.abc import Sequence
from typing import Protocol

from sagelet_api.auth.permissions import EXECUTION_POLICY_TEXT, TRAINING_POLICY_TEXT
from sagelet_api.auth.policies import Policy, evaluate, is_denied, shown
from sagelet_engine.model.batch_keys import is_staging_bucket, job_may, staging_bucket
from sagelet_engine.model.principal import NotAuthorized, Principal, PrincipalKind

#: Everybody may ask who they are, as on AWS.
_NEEDS_NOTHING = "sts:GetCallerIdentity"
#: These make keys that never end, while a job ends.
_LASTING = ("iam:CreateAccessKey", "iam:UpdateAccessKey")
_PASS_ROLE = "iam:PassRole"


class RolePolicies(Protocol):
    """The roles of IAM."""

    def role_policies(self, arn: str) -> Sequence[str]:
        """Returns the policies of a role, inline and attached. Empty for a role that IAM does not know."""
        ...

    def role_boundary(self, arn: str) -> Sequence[str] | None:
        """Returns the permissions boundary of a role, or None if it has none. Empty if its policy does not exist."""
        ...


class Authorization:
    """An Authorize. `enforce_iam`: a role may do only what its policies allow."""

    def __init__(self, iam: RolePolicies, *, enforce_iam: bool) -> None:
        self._iam = iam
        self._enforce = enforce_iam

    def __call__(self, principal: Principal, action: str, resource: str) -> None:
        if not self.allows(principal, action, resource):
            by_a_denial = self._is_denied(principal, action, resource)
            raise NotAuthorized(principal, shown(action), shown(resource), by_a_denial=by_a_denial)

    def limits(self, principal: Principal) -> bool:
        """True if there is something that the principal may not do. IAM's policies limit an owner's session of a role
        only with --enforce-iam.
        """
        if principal.kind is PrincipalKind.OWNER:
            return False
        if principal.kind is not PrincipalKind.SESSION or principal.within is not None:
            return True
        return self._enforce or principal.limited or principal.policies is not None

    def allows(self, principal: Principal, action: str, resource: str) -> bool:
        """True if a principal may do this action. A session that a job requested may do nothing that the job may
        not.
        """
        if action == _NEEDS_NOTHING or not self.limits(principal):
            return True
        if principal.within is not None and not self.allows(principal.within, action, resource):
            return False
        if _is_of_a_job(principal):
            if action in _LASTING:
                return False
            bucket, _, key = resource.partition(":::")[2].partition("/")
            if is_staging_bucket(bucket):
                return _may_stage(principal, action, bucket, key)
        if action == _PASS_ROLE and self._is_unwritten(principal) and _is_written(self._iam.role_policies(resource)):
            return False
        return evaluate(self._limits_of(principal), action, resource)

    def _is_denied(self, principal: Principal, action: str, resource: str) -> bool:
        """True if a policy of the principal, or of the job that asked for its session, denies it."""
        if is_denied(self._limits_of(principal), action, resource):
            return True
        return principal.within is not None and self._is_denied(principal.within, action, resource)

    def _limits_of(self, principal: Principal) -> list[list[Policy]]:
        """Returns sets of policies, each of which must allow what the principal does."""
        limits: list[Sequence[str]] = [] if principal.policies is None else [principal.policies]
        by_role = principal.kind is not PrincipalKind.SESSION or self._enforce or principal.limited
        if principal.role and (by_role or principal.within is not None):
            limits.append(self._policies_of(principal))
            boundary = self._iam.role_boundary(principal.role)
            limits.extend([] if boundary is None else [boundary])
        return [[Policy.parse(text) for text in policies] for policies in limits]

    def _policies_of(self, principal: Principal) -> Sequence[str]:
        own = self._iam.role_policies(principal.role)
        if self._enforce:
            return own
        return [*own, EXECUTION_POLICY_TEXT if self._is_unwritten(principal) else TRAINING_POLICY_TEXT]

    def _is_unwritten(self, principal: Principal) -> bool:
        """True for an execution whose role nobody gave any right. It may do what steps need, but hands on no role that
        somebody did give rights.
        """
        return (
            principal.kind is PrincipalKind.EXECUTION
            and not self._enforce
            and not _is_written(self._iam.role_policies(principal.role))
        )


def _is_of_a_job(principal: Principal) -> bool:
    """True for a principal that must not leave anything behind, or reach another job's batches."""
    return principal.kind is not PrincipalKind.SESSION or principal.limited


def _may_stage(principal: Principal, action: str, bucket: str, key: str) -> bool:
    """True if a job's own hosts leave their files there or fetch theirs, whatever its role is."""
    return (
        bool(principal.launch_id)
        and bucket == staging_bucket(principal.account)
        and job_may(action, key, principal.launch_id)
    )


def _is_written(policies: Sequence[str]) -> bool:
    """True if somebody has given the role a policy. Roles that are there from the start have the training policy."""
    return any(text != TRAINING_POLICY_TEXT for text in policies)
