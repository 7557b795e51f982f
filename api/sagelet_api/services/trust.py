"""Whether a role's trust policy lets a service assume the role: IAM's policy language, as far as trust policies use it.

Conditions are not evaluated: they are about requests that no service makes here.
"""

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

ASSUME = "sts:AssumeRole"


def trusts(policy: str, service: str) -> bool:
    """`policy`: the AssumeRolePolicyDocument; `service`: `sagemaker.amazonaws.com`. What is no policy trusts nobody."""
    try:
        document = json.loads(policy)
    except ValueError:
        return False
    statements = _listed(document.get("Statement")) if isinstance(document, dict) else []
    effects = {one.get("Effect") for one in statements if isinstance(one, dict) and _is_about(one, service)}
    return "Allow" in effects and "Deny" not in effects


def _is_about(statement: Mapping[str, Any], service: str) -> bool:
    principal = statement.get("Principal")
    services = principal.get("Service") if isinstance(principal, dict) else principal
    return any(one in ("*", service) for one in _listed(services)) and any(
        isinstance(action, str) and fnmatchcase(ASSUME.lower(), action.lower())
        for action in _listed(statement.get("Action"))
    )


def _listed(value: Any) -> list[Any]:
    """IAM writes a list of one as the one."""
    return value if isinstance(value, list) else [value]
