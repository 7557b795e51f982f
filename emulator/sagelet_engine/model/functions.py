"""Lambda functions, as steps of pipelines and Invoke run them, and the port to where the functions are kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sagelet_engine.base.errors import SageletError
from sagelet_engine.model.principal import Principal

#: Bytes of LogResult (API reference, Invoke).
LOG_TAIL = 4096
#: The beginning of the names of log groups.
LOG_GROUPS = "/aws/lambda/"
#: The beginning of the ids of invocations.
_PREFIX = "function"


class FunctionRefused(SageletError):
    """The function cannot run here. The text says why."""


class FunctionNotFound(FunctionRefused):
    """The function does not exist."""


class LogRefused(SageletError):
    """CloudWatch Logs did not keep lines. The text says why."""


@dataclass(frozen=True)
class Function:
    """One version of a function, as it is when it is invoked."""

    #: With the version or alias, if the caller named one.
    arn: str
    name: str
    version: str
    #: `python3.11`.
    runtime: str
    #: `module.function`.
    handler: str
    timeout_seconds: int
    memory_mib: int
    role: str
    environment: Mapping[str, str] = field(repr=False)
    #: The package, a zip file.
    code: bytes = field(repr=False)
    #: Ids of the jobs that made or changed it. Its sessions end with theirs.
    jobs: tuple[str, ...] = ()


class Functions(Protocol):
    """Where functions are kept: the API."""

    def get(self, principal: Principal, region: str, arn: str) -> Function:
        """Returns the function that an ARN names, for a principal that invokes it. Raises FunctionRefused,
        NotAuthorized.
        """
        ...

    def credentials(self, account: str, role: str, name: str, seconds: int, jobs: Sequence[str]) -> Mapping[str, str]:
        """Returns AWS_ACCESS_KEY_ID and the like: a session of the function's role, for so many seconds, which ends
        with the first of these jobs (ids) that ends.
        """
        ...

    def keep_log(self, account: str, region: str, group: str, stream: str, lines: list[tuple[int, str]]) -> None:
        """Puts lines into CloudWatch Logs, each with its time in ms since the epoch. Times never fall.

        May be called again for the same stream. Raises LogRefused, or what else keeps a line from being kept.
        """
        ...


class _NoFunctions:
    def get(self, principal: Principal, region: str, arn: str) -> Function:  # noqa: ARG002
        raise FunctionNotFound(f"Function not found: {arn}")

    def credentials(self, account: str, role: str, name: str, seconds: int, jobs: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002
        return {}

    def keep_log(self, account: str, region: str, group: str, stream: str, lines: list[tuple[int, str]]) -> None:
        """Keeps nothing."""


#: The functions of an engine without an API.
NO_FUNCTIONS: Functions = _NoFunctions()


@dataclass(frozen=True)
class Outcome:
    """How an invocation ended."""

    #: The JSON text that the function returned. None if it failed.
    payload: str | None = None
    #: As Lambda names errors: `ValueError`, `Runtime.ExitError`. Empty if it did not fail.
    error: str = ""
    message: str = ""
    timed_out: bool = False
    #: True if the machine failed, and not the function.
    fault: bool = False
    #: Where it failed, as Python's `traceback` formats frames. None: its process ended, and no code reported an error.
    stack: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Invoked:
    """An invocation that somebody waited for, after its end."""

    outcome: Outcome
    request_id: str
    #: The version that ran.
    version: str
    timeout_seconds: int
    #: The end of its log, at most LOG_TAIL bytes.
    log: bytes


class Invoker(Protocol):
    """Runs functions. A repeated call finds the invocation by its id."""

    def begin(
        self, invocation: str, principal: Principal, region: str, arn: str, event: str, most_seconds: int = 900
    ) -> None:
        """Starts an invocation, unless it has begun. `event`: JSON. `most_seconds`: a limit besides the function's own.

        Raises FunctionRefused, NotAuthorized, RuntimeUnavailable.
        """
        ...

    def has(self, invocation: str) -> bool:
        """True if the invocation has begun, and was not forgotten."""
        ...

    def look(self, invocation: str) -> Outcome | None:
        """Returns how it ended, or None while it runs. Raises FunctionRefused, RuntimeUnavailable."""
        ...

    def forget(self, invocation: str) -> None:
        """Removes what is left of it. May be repeated."""
        ...


class _NoInvoker:
    def begin(
        self,
        invocation: str,  # noqa: ARG002
        principal: Principal,  # noqa: ARG002
        region: str,  # noqa: ARG002
        arn: str,  # noqa: ARG002
        event: str,  # noqa: ARG002
        most_seconds: int = 900,  # noqa: ARG002
    ) -> None:
        raise FunctionRefused("sagelet runs no functions here")

    def has(self, invocation: str) -> bool:  # noqa: ARG002
        return False

    def look(self, invocation: str) -> Outcome | None:  # noqa: ARG002
        return Outcome(error="Unknown", message="sagelet runs no functions here")

    def forget(self, invocation: str) -> None:
        """Nothing is left."""


NO_INVOKER: Invoker = _NoInvoker()


def invocation_id(owner: str, suffix: str) -> str:
    """Returns the id of an invocation. `owner`: the id of the execution that makes it, or what else does."""
    return f"{_PREFIX}-{owner}-{suffix}"


def owner_of(invocation: str) -> str | None:
    """Returns the owner in an id, or None for the id of something else."""
    prefix, _, rest = invocation.partition("-")
    owner, _, suffix = rest.rpartition("-")
    return owner if prefix == _PREFIX and owner and suffix else None
