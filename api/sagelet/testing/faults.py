"""Faults on purpose, typed: as tags of CreateTrainingJob, or as calls to the server of the test.

The engine's own words for them are in `sagelet_engine.model.faults` and `interruptions`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode

from sagelet.testing.control import ask
from sagelet_engine.base.errors import SageletError
from sagelet_engine.model import faults, interruptions


class FaultRefused(SageletError):
    """The server refused a fault: there is no such job, or it has ended."""


@dataclass(frozen=True)
class Fault:
    """A fault of a job. The functions below make them."""

    #: As in the tag `sagelet:fault`.
    word: str


def slow_start(seconds: float) -> Fault:
    """Delays the start of the instances by `seconds`, at every start of the job."""
    return Fault(f"starting:{_number(seconds)}")


def insufficient_capacity(seconds: float) -> Fault:
    """EC2 has no capacity for this long. The status message says so, and that AWS retries."""
    return Fault(f"insufficient-capacity:{_number(seconds)}")


def unhealthy_instance(seconds: float) -> Fault:
    """An instance is unhealthy, and its replacement takes this long."""
    return Fault(f"unhealthy-instance:{_number(seconds)}")


def capacity_error() -> Fault:
    """There are no instances: the job fails with CapacityError."""
    return Fault("capacity-error")


def internal_server_error(*, times: int | None = None, after: float | None = None) -> Fault:
    """InternalServerError in the first `times` attempts, or in all if None, after `after` seconds of Training.

    `after` None: at the start of the attempt. The job's RetryStrategy decides whether there is another attempt.
    """
    count = "" if times is None else f":{times}"
    return Fault(f"internal-server-error{count}" + ("" if after is None else f"@{_number(after)}"))


def throttled_describe(calls: int) -> Fault:
    """The next `calls` DescribeTrainingJob calls for the job are answered with ThrottlingException."""
    return Fault(f"throttling:{calls}")


def tags(*given: Fault, interrupt_after: Sequence[float] = ()) -> list[dict[str, str]]:
    """Returns `Tags` for CreateTrainingJob. Raises FaultError, ScheduleError for impossible numbers.

    `interrupt_after`: a managed spot job loses its instances after so many seconds of Training, one number an attempt.
    """
    made = {}
    if given:
        made[faults.TAG] = _words(given)
    if interrupt_after:
        made[interruptions.TAG] = " ".join(_number(seconds) for seconds in interrupt_after)
        interruptions.schedule(made[interruptions.TAG])
    return [{"Key": key, "Value": value} for key, value in made.items()]


class Faults:
    """Faults of one server, for existing jobs and for calls."""

    def __init__(self, endpoint: str, data: Path, *, account: str, region: str) -> None:
        """`data`: the server's data directory."""
        self._endpoint = endpoint
        self._data = data
        self._where = {"account": account, "region": region}

    def inject(self, job_name: str, *given: Fault) -> None:
        """Sets a job's faults, in place of the former ones. Raises FaultRefused."""
        self._ask("PUT", self._job(job_name, "faults"), {"faults": _words(given)})

    def clear(self, job_name: str) -> None:
        """Removes a job's faults. Raises FaultRefused."""
        self._ask("DELETE", self._job(job_name, "faults"))

    def interrupt(self, job_name: str) -> None:
        """Takes away the instances of a managed spot job, now. Raises FaultRefused if it has none."""
        self._ask("POST", self._job(job_name, "interrupt"))

    def throttle(self, operation: str = "*", calls: int = 1, *, service: str = "sagemaker") -> None:
        """Throttles the next `calls` of an operation (`DescribeTrainingJob`; `*` for any) with ThrottlingException.

        boto3 tries again by itself, so `calls` must be more than its attempts (5) for the caller to see one. Raises
        FaultRefused for an operation or service that cannot be throttled.
        """
        self._ask(
            "POST", "faults/throttling", {"operation": operation, "calls": calls, "service": service, **self._where}
        )

    def clear_throttling(self) -> None:
        """Ends all throttling, in every account."""
        self._ask("DELETE", "faults/throttling")

    def _job(self, name: str, what: str) -> str:
        return f"jobs/{quote(name, safe='')}/{what}?{urlencode(self._where)}"

    def _ask(self, method: str, path: str, body: Any = None) -> None:
        try:
            ask(self._endpoint, self._data, method, path, body)
        except HTTPError as error:
            raise FaultRefused(_explanation(error)) from error


def _explanation(error: HTTPError) -> str:
    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError):
        return f"The server answered {error.code} {error.reason}"


def _words(given: Sequence[Fault]) -> str:
    """Returns the words of the tag. Raises FaultError."""
    words = " ".join(fault.word for fault in given)
    faults.parse(words)
    return words


def _number(seconds: float) -> str:
    """Formats a number for the tag: three decimals at most, and no exponent."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
