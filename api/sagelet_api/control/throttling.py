"""Throttles calls on purpose, so that people can test their retries.

It is set at the control endpoint and kept in memory: a restart of the server forgets it.
"""

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sagelet_api.protocol.aws_errors import RATE_EXCEEDED, ThrottlingException
from sagelet_api.protocol.calls import DEFAULT_ACCOUNT, DEFAULT_REGION, Call
from sagelet_api.protocol.validation import rule_book
from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.wire import JsonObject

#: Services of AWS JSON, where a header names the operation.
SERVICES = ("sagemaker", "logs")
#: Every operation of a service.
ANY = "*"
#: A larger number would be a typing error.
MOST_CALLS = 1_000_000
_ACCOUNT = re.compile(r"\d{12}", re.ASCII)


#: The members of a request, besides the number of calls.
_MEMBERS = ("service", "operation", "account", "region")


class ThrottlingRefused(SageletError):
    """A throttling that was requested in the wrong way."""


@dataclass(frozen=True)
class Throttled:
    """Which calls are throttled."""

    service: str
    #: `DescribeTrainingJob`, or ANY.
    operation: str
    account: str
    region: str

    @classmethod
    def read(cls, body: Any) -> "tuple[Throttled, int]":
        """Reads `{"operation": ..., "calls": N}`, optionally with service, account and region. Raises
        ThrottlingRefused.
        """
        if not isinstance(body, dict) or not body.keys() <= {*_MEMBERS, "calls"}:
            raise ThrottlingRefused(
                f"Give a JSON object with operation and calls, and any of {[*_MEMBERS]} that differs from the default"
            )
        calls = body.get("calls")
        if type(calls) is not int or not 1 <= calls <= MOST_CALLS:
            raise ThrottlingRefused(f"calls: {calls!r} is not a number of calls between 1 and {MOST_CALLS}")
        which = cls(
            body.get("service", "sagemaker"),
            body.get("operation", ""),
            body.get("account", DEFAULT_ACCOUNT),
            body.get("region", DEFAULT_REGION),
        )
        which._check()
        return which, calls

    def _check(self) -> None:
        if self.service not in SERVICES:
            raise ThrottlingRefused(f"service: {self.service!r} cannot be throttled; there are {', '.join(SERVICES)}")
        if self.operation not in (ANY, *rule_book(self.service).operations()):
            raise ThrottlingRefused(
                f"operation: {self.service} has no operation {self.operation!r}; "
                f"give its name as in AWS's API reference (DescribeTrainingJob), or {ANY!r} for every one"
            )
        if not isinstance(self.account, str) or not _ACCOUNT.fullmatch(self.account):
            raise ThrottlingRefused(f"account: {self.account!r} is not an account number of 12 digits")
        if not isinstance(self.region, str) or not self.region:
            raise ThrottlingRefused(f"region: {self.region!r} is not a region; give one such as {DEFAULT_REGION}")


class Throttling:
    """How many calls of which operation are still to be throttled."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._left: dict[Throttled, int] = {}

    def put(self, which: Throttled, calls: int) -> None:
        """Throttles the next `calls` of these calls. Replaces an earlier setting for them."""
        with self._guard:
            self._left[which] = calls

    def clear(self) -> None:
        with self._guard:
            self._left.clear()

    def left(self) -> list[JsonObject]:
        """Returns the calls that are still to be throttled, ready for JSON."""
        with self._guard:
            return [{**vars(which), "calls": calls} for which, calls in self._left.items()]

    def checks(self) -> Mapping[str, Callable[[Call], None]]:
        """Returns the check of each service that can be throttled, by its signing name."""
        return dict.fromkeys(SERVICES, self.check)

    def check(self, call: Call) -> None:
        """Raises ThrottlingException for a call that is to be throttled, and counts it."""
        self.check_operation(call.account, call.region, call.service, call.operation)

    def check_making(self, account: str, region: str, service: str, operation: str) -> None:
        """Checks a call of a pipeline's step. Only what creates something is throttled."""
        if operation.startswith("Create"):
            self.check_operation(account, region, service, operation)

    def check_operation(self, account: str, region: str, service: str, operation: str) -> None:
        if not self._left:
            return
        for which in (operation, ANY):
            if self._take(Throttled(service, which, account, region)):
                raise ThrottlingException(RATE_EXCEEDED)

    def _take(self, which: Throttled) -> bool:
        with self._guard:
            calls = self._left.pop(which, 0)
            if calls > 1:
                self._left[which] = calls - 1
            return calls > 0
