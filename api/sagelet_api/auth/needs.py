"""Finds what a call must be allowed: its own action, and iam:PassRole for each role that it hands on.

A request of a client and a call from inside the server (`services/local_calls.py`) need the same. The roles are those
of the body that runs, so what an expression of a pipeline yields counts, and not the text of its definition.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from sagelet_api.auth.iam_resources import json_body, needed, requested, texts_of
from sagelet_api.protocol.calls import Call, Environ
from sagelet_api.protocol.operation_names import form_fields
from sagelet_api.protocol.validation import rule_book
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.principal import Principal

#: Services, by their signing names, whose bodies are searched for roles: what they make acts with its role here.
_HAND_ON_ROLES = frozenset({"sagemaker", "lambda"})
#: The end of the names of botocore's shapes for a role.
_ROLE = "RoleArn"


def needs(call: Call, environ: Environ) -> Iterator[tuple[str, str]]:
    """Yields IAM's actions and their resources, all of which must be allowed to the caller, for any service but S3."""
    assumed = _assumed(call, environ)
    for action, resource in requested(call, environ):
        yield action, assumed or resource
    if call.service in _HAND_ON_ROLES and _has_roles(call.model, call.operation):
        yield from _passed(call.caller, call.model, call.operation, json_body(environ))


def needs_of(
    principal: Principal, region: str, service: str, operation: str, body: JsonObject
) -> Iterator[tuple[str, str]]:
    """Yields the same for a call from inside the server. `service`: its signing name and the name of its model."""
    yield from needed(service, operation, region, principal.account, texts_of(body))
    if service in _HAND_ON_ROLES:
        yield from _passed(principal, service, operation, body)


def _assumed(call: Call, environ: Environ) -> str:
    """Returns the role that a caller wants to assume."""
    if call.service != "sts" or not call.operation.startswith("AssumeRole"):
        return ""
    return {**call.query, **dict(form_fields(environ))}.get("RoleArn", "")


def _passed(principal: Principal, model: str, operation: str, body: Any) -> Iterator[tuple[str, str]]:
    """Yields iam:PassRole for each role in a body, except the caller's own. Each is asked for once."""
    shape = rule_book(model).input_shape(operation)
    for role in dict.fromkeys(_roles(shape, body)):
        if role != principal.role:
            yield "iam:PassRole", role


@cache
def _has_roles(model: str, operation: str) -> bool:
    """True if a request of the operation may have a role anywhere."""
    return _may_hold(rule_book(model).input_shape(operation), set())


def _may_hold(shape: Any, seen: set[str]) -> bool:
    if shape is None or shape.name in seen:
        return False
    seen.add(shape.name)
    if shape.type_name == "structure":
        return any(_may_hold(one, seen) for one in shape.members.values())
    if shape.type_name in ("list", "map"):
        return _may_hold(shape.member if shape.type_name == "list" else shape.value, seen)
    return _is_role(shape)


def _is_role(shape: Any) -> bool:
    return bool(shape.type_name == "string" and shape.name.endswith(_ROLE))


def _roles(shape: Any, value: Any) -> Iterator[str]:
    """Yields the roles in a value of one of botocore's shapes. What does not fit the shape is left to validation."""
    if shape is None:
        return
    kind = shape.type_name
    if kind == "structure" and isinstance(value, dict):
        for name, member in shape.members.items():
            if name in value:
                yield from _roles(member, value[name])
    elif kind == "list" and isinstance(value, list):
        for one in value:
            yield from _roles(shape.member, one)
    elif kind == "map" and isinstance(value, dict):
        for one in value.values():
            yield from _roles(shape.value, one)
    elif isinstance(value, str) and _is_role(shape):
        yield value
