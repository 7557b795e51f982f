"""What a service of sagelet looks like to the front: a table of small handlers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sagelet_api.protocol.credentials import StsSession
from sagelet_api.protocol.members import Parameters


@dataclass(frozen=True)
class Context:
    """Who calls an operation, and where."""

    account: str
    region: str
    request_id: str
    access_key: str
    #: The role of the training job that calls; empty: no job does.
    role: str = ""
    #: That job's session token.
    job_token: str = ""
    #: The session of STS's whose token came with the request.
    session: StsSession | None = None


#: Takes the validated parameters; returns the members of the output (times as epoch seconds, floats), or None for an
#: operation without output. Raises AwsError.
Handler = Callable[[Context, Parameters], Mapping[str, Any] | None]


@dataclass(frozen=True)
class SharedOperation:
    """An operation that sagelet serves for some resources only, such as ListTags. The others go on to moto.

    `is_ours` sees the parameters before they are validated: it must take any JSON value for any member.
    """

    handler: Handler
    is_ours: Callable[[Context, Parameters], bool]


Operations = Mapping[str, Handler | SharedOperation]


@dataclass(frozen=True)
class RestOperation:
    """An operation of a rest-json service of sagelet, whose input is the body and nothing else."""

    #: Signing name; several services share `sagemaker`.
    signing_name: str
    method: str
    path: str
    #: botocore's name of the service model.
    model: str
    operation: str
    handler: Handler


def owned_where(member: str, prefix: str) -> Callable[[Context, Parameters], bool]:
    """A predicate for SharedOperation: `member` of the parameters is text that starts with `prefix`."""

    def is_ours(_context: Context, parameters: Parameters) -> bool:
        value = parameters.get(member)
        return isinstance(value, str) and value.startswith(prefix)

    return is_ours


def owned_arn(member: str, resource: str) -> Callable[[Context, Parameters], bool]:
    """A predicate for SharedOperation: `member` is the ARN of a `resource`, `training-job/` say."""

    def is_ours(_context: Context, parameters: Parameters) -> bool:
        value = parameters.get(member)
        return isinstance(value, str) and value.split(":", 5)[-1].lower().startswith(resource)

    return is_ours
