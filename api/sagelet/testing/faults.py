"""Faults on purpose, typed: what a job is to meet, as tags of CreateTrainingJob, or told to the server of the test.

The engine's own words for them are in `sagelet_engine.model.faults` and `interruptions`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sagelet.connection import opener
from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.keys import ca_file, read_key_pair
from sagelet_engine.model import faults, interruptions

TIMEOUT_S = 60


class FaultRefused(SageletError):
    """The server did not take a fault: there is no such job, or it has ended."""


@dataclass(frozen=True)
class Fault:
    """Something that a job is to meet. Made by the functions below."""

    #: As in the tag `sagelet:fault`.
    word: str


def slow_start(seconds: float) -> Fault:
    """The instances take so long to come; so does every further start of the job."""
    return Fault(f"starting:{_number(seconds)}")


def insufficient_capacity(seconds: float) -> Fault:
    """For so long EC2 has no capacity: the status message says so, and that it is tried again."""
    return Fault(f"insufficient-capacity:{_number(seconds)}")


def unhealthy_instance(seconds: float) -> Fault:
    """An instance is unhealthy, and to replace it takes so long."""
    return Fault(f"unhealthy-instance:{_number(seconds)}")


def capacity_error() -> Fault:
    """There are no instances: the job fails with CapacityError."""
    return Fault("capacity-error")


def internal_server_error(*, times: int | None = None, after: float | None = None) -> Fault:
    """InternalServerError in the first `times` attempts, or in all if None, after so many seconds of Training.

    `after` None: as the attempt starts. Whether there is another attempt is up to the job's RetryStrategy.
    """
    count = "" if times is None else f":{times}"
    return Fault(f"internal-server-error{count}" + ("" if after is None else f"@{_number(after)}"))


def throttled_describe(calls: int) -> Fault:
    """The next so many DescribeTrainingJob calls for the job are answered with ThrottlingException."""
    return Fault(f"throttling:{calls}")


def tags(*given: Fault, interrupt_after: Sequence[float] = ()) -> list[dict[str, str]]:
    """For `Tags` of CreateTrainingJob. Raises FaultError, ScheduleError for numbers that make no sense.

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
    """Faults of one server, for jobs that are there and for calls."""

    def __init__(self, endpoint: str, data: Path, *, account: str, region: str) -> None:
        """`data`: the server's data directory."""
        self._endpoint = endpoint
        self._data = data
        self._where = {"account": account, "region": region}

    def inject(self, job_name: str, *given: Fault) -> None:
        """Takes the place of what the job was to meet before. Raises FaultRefused."""
        self._ask("PUT", self._job(job_name, "faults"), {"faults": _words(given)})

    def clear(self, job_name: str) -> None:
        """The job meets nothing more. Raises FaultRefused."""
        self._ask("DELETE", self._job(job_name, "faults"))

    def interrupt(self, job_name: str) -> None:
        """Takes the instances of a managed spot job away, now. Raises FaultRefused when it has none."""
        self._ask("POST", self._job(job_name, "interrupt"))

    def throttle(self, operation: str = "*", calls: int = 1, *, service: str = "sagemaker") -> None:
        """The next so many calls of an operation (`DescribeTrainingJob`, `*`: any) get ThrottlingException.

        boto3 tries again by itself: `calls` has to be more than its attempts (5) for the caller to see one.
        Raises FaultRefused for an operation or service that cannot be throttled.
        """
        self._ask(
            "POST", "faults/throttling", {"operation": operation, "calls": calls, "service": service, **self._where}
        )

    def clear_throttling(self) -> None:
        """No call is throttled any more, in any account."""
        self._ask("DELETE", "faults/throttling")

    def _job(self, name: str, what: str) -> str:
        return f"jobs/{quote(name, safe='')}/{what}?{urlencode(self._where)}"

    def _ask(self, method: str, path: str, body: Any = None) -> None:
        url = f"{self._endpoint}/_sagelet/{path}"
        data = None if body is None else json.dumps(body).encode()
        request = AWSRequest(method, url, {"Content-Type": "application/json"}, data or b"")
        keys, authority = read_key_pair(self._data), ca_file(self._data)
        if keys is not None:
            SigV4Auth(Credentials(keys.access_key, keys.secret), "sagelet", self._where["region"]).add_auth(request)
        try:
            sent = Request(url, data, dict(request.headers.items()), method=method)
            opener(str(authority) if authority.is_file() else None).open(sent, timeout=TIMEOUT_S).close()
        except HTTPError as error:
            raise FaultRefused(_explanation(error)) from error


def _explanation(error: HTTPError) -> str:
    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError):
        return f"The server answered {error.code} {error.reason}"


def _words(given: Sequence[Fault]) -> str:
    """Raises FaultError."""
    words = " ".join(fault.word for fault in given)
    faults.parse(words)
    return words


def _number(seconds: float) -> str:
    """As the tag takes it: three decimals at most, and no exponent."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
