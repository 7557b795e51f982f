"""GetCallerIdentity, and the sessions that STS gives out. moto has all other operations of STS and IAM.

A caller is a session of the execution role, as on a notebook instance; a user's key stands for that user, and a
session's key for that session. An owner has all permissions: every simulation says `allowed`. AssumeRole requires what
AWS requires: the role exists, and its trust policy names the caller.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Protocol

from sagelet_api.protocol import sts_sessions
from sagelet_api.protocol.aws_errors import (
    AccessDenied,
    MalformedPolicyDocument,
    NoSuchEntity,
    NotImplementedOperation,
    ValidationException,
)
from sagelet_api.protocol.members import Output, Parameters
from sagelet_api.protocol.operations import Context, Operations, SharedOperation
from sagelet_api.protocol.sts_sessions import StsSession
from sagelet_api.services.iam import execution_role
from sagelet_api.services.iam.trust import Caller, trusts
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.base.number_text import whole_number_in

#: IAM's own default of MaxItems.
_PAGE = 100
#: Seconds that sessions live unless the caller says otherwise (AWS's API reference of STS).
_ROLE_SECONDS, _SESSION_SECONDS = 3600, 12 * 3600
#: The most seconds for a role chain: a session that assumes a role.
_CHAIN_SECONDS = 3600


@dataclass(frozen=True)
class Role:
    """A role of IAM."""

    id: str
    name: str
    trust_policy: str
    max_session_seconds: int


class Principals(Protocol):
    """The users, groups and roles of an account."""

    def user_of_key(self, access_key: str) -> str | None:
        """Returns the ARN of the user who has the key, or None for any other key."""
        ...

    def role(self, arn: str) -> Role | None:
        """Returns a role by its ARN, or None if there is no such role."""
        ...

    def role_id(self, account: str, region: str, name: str) -> str | None:
        """Returns the role's id, `AROA...`, or None if there is no such role. `region` determines the partition."""
        ...

    def has_principal(self, account: str, region: str, arn: str) -> bool:
        """True if the user, group or role exists."""
        ...

    def policy(self, account: str, region: str, arn: str) -> str | None:
        """Returns a managed policy as JSON, or None if there is no such policy."""
        ...

    def partition(self, region: str) -> str:
        """Returns the partition of a region: `aws`, `aws-cn`, ..."""
        ...


class Identity:
    """Serves the operations on identities. `keys`: the data directory's key pair, which seals sessions.

    `now` is the client's clock, as for signatures: SDKs renew a session by their clock, even if a job's time is
    simulated.
    """

    def __init__(
        self,
        principals: Principals,
        keys: KeyPair,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._principals = principals
        self._keys = keys
        self._now = now

    def services(self) -> dict[str, Operations]:
        """Returns the operations by signing name."""
        return {
            "sts": {
                "GetCallerIdentity": SharedOperation(self.get_caller_identity, self._is_no_user),
                "AssumeRole": self.assume_role,
                "GetSessionToken": self.get_session_token,
                "GetFederationToken": self.get_federation_token,
                "AssumeRoleWithSAML": _refuse_federation,
                "AssumeRoleWithWebIdentity": _refuse_federation,
            },
            "iam": {"SimulatePrincipalPolicy": self.simulate_principal_policy},
        }

    def get_caller_identity(self, context: Context, _parameters: Parameters) -> Mapping[str, Any]:
        if context.session is not None:
            session = context.session
            return {"UserId": session.user_id, "Account": session.account, "Arn": session.principal}
        name = context.role.rpartition("/")[2] or execution_role.NAME
        role_id = self._principals.role_id(context.account, context.region, name)
        if role_id is None and context.role:
            # A job runs with a role that IAM does not know, unless --enforce-iam forbids it.
            role_id = "AROA" + base64.b32encode(hashlib.sha256(context.role.encode()).digest())[:16].decode()
        if role_id is None:
            raise NoSuchEntity(f"The execution role {execution_role.NAME} was deleted: create it again.")
        partition = self._principals.partition(context.region)
        who = f"assumed-role/{name}/{execution_role.SESSION}"
        return {
            "UserId": f"{role_id}:{execution_role.SESSION}",
            "Account": context.account,
            "Arn": f"arn:{partition}:sts::{context.account}:{who}",
        }

    def assume_role(self, context: Context, parameters: Parameters) -> Mapping[str, Any]:
        """Gives out a session of a role. Raises AccessDenied as AWS does, for a missing role and for one that does not
        trust the caller.
        """
        arn, name = parameters["RoleArn"], parameters["RoleSessionName"]
        who, names = self._caller(context)
        role = self._principals.role(arn)
        external_id = parameters.get("ExternalId")
        caller = Caller.principal(context.account, self._principals.partition(context.region), names, external_id)
        if role is None or not trusts(role.trust_policy, caller):
            raise AccessDenied(f"User: {who} is not authorized to perform: sts:AssumeRole on resource: {arn}")
        seconds = parameters.get("DurationSeconds", _ROLE_SECONDS)
        if (context.session or context.job_token) and seconds > _CHAIN_SECONDS:
            raise ValidationException(
                "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining"
            )
        if seconds > role.max_session_seconds:
            raise ValidationException("The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
        _, partition, _, _, account, _ = arn.split(":", 5)
        if context.job_token and account != context.account:
            # With such a role a client would reach what the job may not reach.
            raise AccessDenied(
                f"User: {who} is a training job of another account than {arn}, and may only use roles of its own."
            )
        principal = f"arn:{partition}:sts::{account}:assumed-role/{role.name}/{name}"
        user_id = f"{role.id}:{name}"
        policies = self._session_policies(context, parameters)
        given = self._give_out(
            context,
            StsSession(
                account=account, principal=principal, user_id=user_id, role=arn, expires_ms=0, policies=policies
            ),
            seconds,
        )
        return {"Credentials": given, "AssumedRoleUser": {"AssumedRoleId": user_id, "Arn": principal}}

    def get_session_token(self, context: Context, parameters: Parameters) -> Mapping[str, Any]:
        """Gives out a session of the caller that ends."""
        who, user_id = self._for_itself(context, "GetSessionToken")
        session = StsSession(account=context.account, principal=who, user_id=user_id, role="", expires_ms=0)
        return {"Credentials": self._give_out(context, session, parameters.get("DurationSeconds", _SESSION_SECONDS))}

    def get_federation_token(self, context: Context, parameters: Parameters) -> Mapping[str, Any]:
        """Gives out a federated session. Without a session policy it may do nothing, as on AWS."""
        self._for_itself(context, "GetFederationToken")
        name, partition = parameters["Name"], self._principals.partition(context.region)
        arn, user_id = f"arn:{partition}:sts::{context.account}:federated-user/{name}", f"{context.account}:{name}"
        policies = self._session_policies(context, parameters) or ()
        session = StsSession(
            account=context.account, principal=arn, user_id=user_id, role="", expires_ms=0, policies=policies
        )
        given = self._give_out(context, session, parameters.get("DurationSeconds", _SESSION_SECONDS))
        return {"Credentials": given, "FederatedUser": {"FederatedUserId": user_id, "Arn": arn}}

    def _session_policies(self, context: Context, parameters: Parameters) -> tuple[str, ...] | None:
        """Returns the session policies, or None if the caller gives none. Raises MalformedPolicyDocument."""
        given = [parameters["Policy"]] if "Policy" in parameters else []
        for one in parameters.get("PolicyArns", []):
            found = self._principals.policy(context.account, context.region, one.get("arn", ""))
            if found is None:
                raise MalformedPolicyDocument(f"There is no policy {one.get('arn')} for the session.")
            given.append(found)
        for text in given:
            try:
                json.loads(text)
            except ValueError as error:
                raise MalformedPolicyDocument(f"The session policy is not JSON: {error}") from error
        return tuple(given) or None

    def _for_itself(self, context: Context, operation: str) -> tuple[str, str]:
        """Returns ARN and user id of a caller with lasting keys. Raises AccessDenied for others, as AWS does."""
        if context.session or context.job_token:
            raise AccessDenied(f"Cannot call {operation} with session credentials")
        who, _ = self._caller(context)
        return who, context.access_key

    def _caller(self, context: Context) -> tuple[str, set[str]]:
        """Returns the caller's ARN, and all ARNs by which a trust policy may name it. A session's role is one of
        them.
        """
        if context.session is not None:
            return context.session.principal, {context.session.principal, context.session.role} - {""}
        user = None if context.role else self._principals.user_of_key(context.access_key)
        if user is not None:
            return user, {user}
        who = str(self.get_caller_identity(context, {})["Arn"])
        partition = self._principals.partition(context.region)
        role = f"arn:{partition}:iam::{context.account}:role{execution_role.PATH}{execution_role.NAME}"
        return who, {who, context.role or role}

    def _give_out(self, context: Context, session: StsSession, seconds: int) -> Output:
        expires_ms = (int(self._now().timestamp()) + seconds) * 1000
        before = context.session
        if before is not None:
            session = replace(session, limited=before.limited, ends_with=before.ends_with)
        key = sts_sessions.give_out(self._keys, replace(session, expires_ms=expires_ms, job_token=context.job_token))
        return {
            "AccessKeyId": key.access_key,
            "SecretAccessKey": key.secret,
            "SessionToken": key.token,
            "Expiration": datetime.fromtimestamp(expires_ms / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def simulate_principal_policy(self, context: Context, parameters: Parameters) -> Mapping[str, Any]:
        """Answers `allowed` for each action on each resource. Raises NoSuchEntity, and ValidationException for a bad
        Marker.
        """
        arn = parameters["PolicySourceArn"]
        if not self._principals.has_principal(context.account, context.region, arn):
            raise NoSuchEntity(f"The principal {arn} cannot be found.")
        resources = parameters.get("ResourceArns") or ["*"]
        pairs = [(action, resource) for action in parameters["ActionNames"] for resource in resources]
        start = _start(parameters.get("Marker"), len(pairs))
        end = start + parameters.get("MaxItems", _PAGE)
        more = end < len(pairs)
        return {
            "EvaluationResults": [_allowed(*pair) for pair in pairs[start:end]],
            "IsTruncated": more,
            **({"Marker": str(end)} if more else {}),
        }

    def _is_no_user(self, context: Context, _parameters: Parameters) -> bool:
        return context.session is not None or self._principals.user_of_key(context.access_key) is None


def _refuse_federation(_context: Context, _parameters: Parameters) -> Mapping[str, Any]:
    raise NotImplementedOperation(
        "sagelet has no identity provider to check the token with: use AssumeRole with a role that trusts your account."
    )


def _allowed(action: str, resource: str) -> Output:
    return {
        "EvalActionName": action,
        "EvalResourceName": resource,
        "EvalDecision": "allowed",
        "MatchedStatements": [],
        "MissingContextValues": [],
    }


def _start(marker: str | None, count: int) -> int:
    if marker is None:
        return 0
    start = whole_number_in(marker)
    if start is None or not 0 <= start < count:
        raise ValidationException(f"Invalid Marker: {marker}")
    return start
