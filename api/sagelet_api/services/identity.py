"""Who calls and what they may do, where moto's answer stops the SDKs. All other operations of STS and IAM are moto's.

A caller is a session of the execution role, as on a notebook instance; keys that moto's IAM or STS gave out stay
whose they are. There are no permissions to check: every simulation says `allowed`.
"""

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

from sagelet_api.aws_errors import NoSuchEntity, ValidationException
from sagelet_api.operations import Context, Operations, Parameters, SharedOperation
from sagelet_api.services import execution_role

#: IAM's own default of MaxItems.
_PAGE = 100


class Principals(Protocol):
    """The users, groups and roles of an account."""

    def knows_access_key(self, access_key: str) -> bool:
        """Whether it is a key of a user, or of a role's session, that was made here."""
        ...

    def role_id(self, account: str, region: str, name: str) -> str | None:
        """`AROA...`; None when there is no such role. `region` tells the partition."""
        ...

    def has_principal(self, account: str, region: str, arn: str) -> bool:
        """Whether the user, group or role is there."""
        ...

    def partition(self, region: str) -> str:
        """`aws`, `aws-cn`, ..."""
        ...


class Identity:
    def __init__(self, principals: Principals) -> None:
        self._principals = principals

    def services(self) -> dict[str, Operations]:
        """Operations by signing name."""
        return {
            "sts": {"GetCallerIdentity": SharedOperation(self.get_caller_identity, self._is_stranger)},
            "iam": {"SimulatePrincipalPolicy": self.simulate_principal_policy},
        }

    def get_caller_identity(self, context: Context, _parameters: Parameters) -> Mapping[str, Any]:
        name = context.role.rpartition("/")[2] or execution_role.NAME
        role_id = self._principals.role_id(context.account, context.region, name)
        if role_id is None and context.role:
            # A job runs with a role that IAM does not know, unless --enforce-iam forbids it.
            role_id = "AROA" + base64.b32encode(hashlib.sha256(context.role.encode()).digest())[:16].decode()
        if role_id is None:
            raise NoSuchEntity(
                f"The execution role {execution_role.NAME} was deleted: create it again, or restart the server."
            )
        partition = self._principals.partition(context.region)
        session = f"assumed-role/{name}/{execution_role.SESSION}"
        return {
            "UserId": f"{role_id}:{execution_role.SESSION}",
            "Account": context.account,
            "Arn": f"arn:{partition}:sts::{context.account}:{session}",
        }

    def simulate_principal_policy(self, context: Context, parameters: Parameters) -> Mapping[str, Any]:
        """`allowed` for each action on each resource. Raises NoSuchEntity, ValidationException for a bad Marker."""
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

    def _is_stranger(self, context: Context, _parameters: Parameters) -> bool:
        return not self._principals.knows_access_key(context.access_key)


def _allowed(action: str, resource: str) -> dict[str, Any]:
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
    if not marker.isdecimal() or int(marker) >= count:
        raise ValidationException(f"Invalid Marker: {marker}")
    return int(marker)
