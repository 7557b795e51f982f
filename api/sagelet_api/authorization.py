"""The one point where it is decided whether a call may do what it asks for: after its operation is known, before
anybody acts on it.
"""

import json
from collections.abc import Iterator

from sagelet_api.aws_errors import UnknownOperationException
from sagelet_api.operation_names import form_fields
from sagelet_api.permissions import action_of, resource_of
from sagelet_api.protocol import Call, Environ, read_body, rewind

#: More than any request of SageMaker's own that is taken.
_MAX_BODY = 5 * 1024 * 1024


def authorize(call: Call, environ: Environ) -> None:
    """Raises AwsError for what the caller may not do. An owner may do everything."""
    if call.permit is None:
        return
    if not call.model:
        # What it is stays open, and so would what runs.
        raise UnknownOperationException(
            f"{call.service} {call.operation or f'{call.method} {call.path}'} is no operation that sagelet knows."
        )
    for action, resource in _needs(call, environ):
        call.permit(action, resource)


def _needs(call: Call, environ: Environ) -> Iterator[tuple[str, str]]:
    """Actions of IAM's and the resources they are about, all of which the caller must be allowed."""
    if call.service == "s3":
        from sagelet_api.services.s3 import permissions, request

        yield from permissions.needs(call.operation, environ[request.PARSED])
        return
    role = _assumed(call, environ)
    yield action_of(call.service, call.operation), role or resource_of(call)
    if passed := _passed(call, environ):
        yield "iam:PassRole", passed


def _assumed(call: Call, environ: Environ) -> str:
    """The role that a caller wants to be."""
    if call.service != "sts" or not call.operation.startswith("AssumeRole"):
        return ""
    return {**call.query, **dict(form_fields(environ))}.get("RoleArn", "")


def _passed(call: Call, environ: Environ) -> str:
    """The role that a caller hands to a new job, unless it is its own."""
    if (call.service, call.operation) != ("sagemaker", "CreateTrainingJob"):
        return ""
    body = read_body(environ, _MAX_BODY)
    rewind(environ, body)
    try:
        role = json.loads(body).get("RoleArn")
    except (ValueError, AttributeError, RecursionError):
        return ""  # The handler says what is wrong with it.
    own = call.session.role if call.session else call.job.request["RoleArn"] if call.job else ""
    return role if isinstance(role, str) and role != own else ""
