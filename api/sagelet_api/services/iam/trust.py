"""Checks whether a role's trust policy lets a caller assume the role, as far as trust policies use IAM's policy
language.

Conditions are not evaluated for services, because no service here makes the requests that they are about. For other
callers a statement with a condition allows nothing, unless the condition is on the external id and the caller gives
that id.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

ASSUME = "sts:AssumeRole"


@dataclass(frozen=True)
class Caller:
    """A caller, by the names that a `Principal` may use."""

    #: The key of `Principal`: `Service`, `AWS`.
    kind: str
    names: frozenset[str]
    external_id: str | None = None

    @classmethod
    def service(cls, name: str) -> "Caller":
        """`sagemaker.amazonaws.com`."""
        return cls("Service", frozenset({name}))

    @classmethod
    def principal(cls, account: str, partition: str, arns: set[str], external_id: str | None) -> "Caller":
        """Makes the Caller of a user, a role or a session. A policy that names the account names all of its
        principals.
        """
        return cls("AWS", frozenset({account, f"arn:{partition}:iam::{account}:root", *arns}), external_id)


def trusts(policy: str, caller: Caller) -> bool:
    """True if the policy trusts the caller. `policy`: the AssumeRolePolicyDocument. A malformed one trusts nobody."""
    try:
        document = json.loads(policy)
    except ValueError:
        return False
    statements = _listed(document.get("Statement")) if isinstance(document, dict) else []
    effects = {one.get("Effect") for one in statements if isinstance(one, dict) and _is_about(one, caller)}
    return "Allow" in effects and "Deny" not in effects


def _is_about(statement: Mapping[str, Any], caller: Caller) -> bool:
    principal = statement.get("Principal")
    named = principal.get(caller.kind) if isinstance(principal, dict) else principal
    return (
        any(isinstance(one, str) and (one == "*" or one in caller.names) for one in _listed(named))
        and any(
            isinstance(action, str) and fnmatchcase(ASSUME.lower(), action.lower())
            for action in _listed(statement.get("Action"))
        )
        and (statement.get("Effect") == "Deny" or _holds(statement.get("Condition"), caller))
    )


def _holds(condition: Any, caller: Caller) -> bool:
    if not condition or caller.kind == "Service":
        return True
    if not isinstance(condition, dict) or [*condition] != ["StringEquals"]:
        return False
    wanted = condition["StringEquals"]
    if not isinstance(wanted, dict) or [name.lower() for name in wanted] != ["sts:externalid"]:
        return False
    return caller.external_id is not None and caller.external_id in _listed(next(iter(wanted.values())))


def _listed(value: Any) -> list[Any]:
    """Returns a list. IAM writes a list of one item as the item."""
    return value if isinstance(value, list) else [value]
