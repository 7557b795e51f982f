"""The form of a service of sagelet, as the application sees it: a table of small handlers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sagelet_api.protocol.calls import Call, Environ, StartResponse
from sagelet_api.protocol.members import Parameters
from sagelet_api.protocol.sts_sessions import StsSession
from sagelet_engine.base.loading import Late
from sagelet_engine.model.principal import Principal


@dataclass(frozen=True)
class Context:
    """The caller of an operation, with the region."""

    principal: Principal
    region: str
    request_id: str
    access_key: str
    #: The role of the training job that calls. Empty if no job calls.
    role: str = ""
    #: The session token of that job.
    job_token: str = ""
    #: The STS session whose token came with the request.
    session: StsSession | None = None
    #: `sagemaker ListTrainingJobs`. Empty for pages, which call operations' parts.
    operation: str = ""

    @property
    def account(self) -> str:
        return self.principal.account


#: Takes the validated parameters and returns the members of the output. Times are epoch seconds as floats. Returns None
#: for an operation without output. Raises AwsError.
Handler = Callable[[Context, Parameters], Mapping[str, Any] | None]


@dataclass(frozen=True)
class SharedOperation:
    """An operation that sagelet serves for some resources only, such as ListTags. Calls for other resources go on to
    moto.

    `is_ours` gets the parameters before they are validated, so it must take any JSON value for any member.
    """

    handler: Handler
    is_ours: Callable[[Context, Parameters], bool]


@dataclass(frozen=True)
class RefusedOperation:
    """An operation that is refused with UnknownOperationException, whatever its parameters are."""

    reason: str


def either(first: SharedOperation, second: SharedOperation) -> SharedOperation:
    """An operation that two handlers serve, each for resources of its own."""

    def handler(context: Context, parameters: Parameters) -> Mapping[str, Any] | None:
        chosen = first if first.is_ours(context, parameters) else second
        return chosen.handler(context, parameters)

    return SharedOperation(handler, lambda *call: first.is_ours(*call) or second.is_ours(*call))


def merged(*tables: "Operations") -> "Operations":
    """Returns the operations of all tables. Several may have a SharedOperation of the same name."""
    together: dict[str, Operation] = {}
    for table in tables:
        for name, one in table.items():
            other = together.get(name)
            if other is None:
                together[name] = one
                continue
            assert isinstance(one, SharedOperation)
            assert isinstance(other, SharedOperation)
            together[name] = either(other, one)
    return together


Operation = Handler | SharedOperation | RefusedOperation
Operations = Mapping[str, Operation]


class LateOperations(Mapping[str, Operation]):
    """The operations of a service that is loaded by its first call."""

    def __init__(self, make: Callable[[], Operations]) -> None:
        self._table = Late(make)

    def __getitem__(self, name: str) -> Operation:
        return self._table()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table())

    def __len__(self) -> int:
        return len(self._table())


#: sagelet's own operations hold a body in memory. 100 hyperparameters of 2,500 characters are far below this limit.
MAX_BODY = 5 * 1024 * 1024


@dataclass(frozen=True)
class RestOperation:
    """An operation of a rest-json service of sagelet, whose input is in the body only."""

    #: The signing name. Several services share `sagemaker`.
    signing_name: str
    method: str
    path: str
    #: botocore's name of the service model.
    model: str
    operation: str
    handler: Handler


class OwnProtocol(Protocol):
    """A service whose requests are of a protocol of its own, such as S3's."""

    def has(self, path: str) -> bool:
        """True if something is at a path that may also be another service's."""
        ...

    def name_operation(self, call: Call, environ: Environ) -> Call:
        """Returns the call with its `operation` and `model`. Raises AwsError for a request that names none, or two."""
        ...

    def needs(self, call: Call, environ: Environ) -> Iterator[tuple[str, str]]:
        """Yields IAM's actions and their resources, all of which must be allowed to the caller. Raises AwsError."""
        ...

    def answer(self, call: Call, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Runs the operation. Raises AwsError."""
        ...


def owned_arn(member: str, resource: str) -> Callable[[Context, Parameters], bool]:
    """A predicate for SharedOperation: `member` is the ARN of a `resource`, for example `training-job/`."""

    def is_ours(_context: Context, parameters: Parameters) -> bool:
        value = parameters.get(member)
        return isinstance(value, str) and value.split(":", 5)[-1].lower().startswith(resource)

    return is_ours
