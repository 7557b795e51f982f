"""Faults on purpose, for people's own tests: the tag `sagelet:fault` of a job. Off without the tag.

A value consists of words with spaces between them, because a tag's value cannot have a comma:

| word | effect on the job |
| --- | --- |
| `starting:30` | every start takes 30 s longer |
| `insufficient-capacity:30` | the same; its status message says that EC2 has no capacity and that AWS retries |
| `unhealthy-instance:30` | the same, for an instance that is replaced |
| `capacity-error` | no instances: the job fails with CapacityError |
| `internal-server-error` | InternalServerError as each attempt starts |
| `internal-server-error:2` | the same, in the first two attempts only |
| `internal-server-error:2@45` | the same, after 45 s of training |
| `throttling:3` | the next 3 DescribeTrainingJob calls for it are answered with ThrottlingException |

Slow starts follow one another in the order of their words; the errors come after them. Faults depend on the job's
record and the clock only, so after a restart they continue where they were.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sagelet_engine.base.errors import FaultError, SageletError
from sagelet_engine.model import verdict
from sagelet_engine.model.job import Job, SecondaryStatus, Verdict

TAG = "sagelet:fault"

#: Shape SecondaryStatusTransition: AWS's documented texts for Starting.
DELAYS = {
    "starting": "Launching requested ML instances",
    "insufficient-capacity": "Insufficient capacity error from EC2 while launching instances, retrying!",
    "unhealthy-instance": "Launched instance was unhealthy, replacing it!",
}
#: Seven digits. A longer number would be a typing error.
_SECONDS, _COUNT = r"\d{1,7}(?:\.\d{1,3})?", r"[1-9]\d{0,6}"
_WORD = re.compile(
    rf"(?P<delay>{'|'.join(DELAYS)}):(?P<seconds>{_SECONDS})|(?P<capacity>capacity-error)"
    rf"|(?P<internal>internal-server-error)(?::(?P<times>{_COUNT}))?(?:@(?P<after>{_SECONDS}))?"
    rf"|throttling:(?P<calls>{_COUNT})",
    re.ASCII,
)
EXAMPLE = "'starting:30 internal-server-error:2'"


@dataclass(frozen=True)
class Delay:
    """A slow start, and the status message that is shown meanwhile."""

    message: str
    seconds: float


@dataclass(frozen=True)
class InternalFault:
    """InternalServerError in the first `times` attempts, after `after` seconds of Training. None: at the start."""

    times: float
    after: float | None


@dataclass(frozen=True)
class Faults:
    delays: tuple[Delay, ...] = ()
    internal: InternalFault | None = None
    capacity: bool = False
    #: DescribeTrainingJob calls that are throttled.
    throttled: int = 0


_NONE = Faults()


class InjectedFault(SageletError):
    """The fault that a job's tag causes now."""

    def __init__(self, outcome: Verdict) -> None:
        super().__init__(outcome.failure_reason)
        self.outcome = outcome


def parse(value: str) -> Faults:
    """Parses the tag. Raises FaultError, which lists the known words."""
    delays: list[Delay] = []
    others: dict[str, str | None] = {}
    for word in value.split():
        found = _WORD.fullmatch(word)
        if found is None:
            raise _wrong(value, f"{word!r} in it is not known")
        given = {name: text for name, text in found.groupdict().items() if text is not None}
        if "delay" in given:
            delays.append(Delay(DELAYS[given["delay"]], float(given["seconds"])))
        elif others.keys() & given.keys():
            raise _wrong(value, f"{word.partition(':')[0]} occurs in it twice")
        else:
            others.update(given)
    if not delays and not others:
        raise _wrong(value, "it has no word")
    return Faults(
        tuple(delays),
        internal=_internal(others) if "internal" in others else None,
        capacity="capacity" in others,
        throttled=int(others.get("calls") or 0),
    )


def _internal(given: Mapping[str, str | None]) -> InternalFault:
    times, after = given.get("times"), given.get("after")
    return InternalFault(math.inf if times is None else int(times), None if after is None else float(after))


def _wrong(value: str, what: str) -> FaultError:
    words = [f"{name}:SECONDS" for name in DELAYS]
    words += ["capacity-error", "internal-server-error[:TIMES][@SECONDS of training]", "throttling:CALLS"]
    return FaultError(
        f"The tag {TAG} has the value {value!r}: {what}. Give one or more of {', '.join(words)}, "
        f"with spaces between them, as in {EXAMPLE}"
    )


def of(job: Job) -> Faults:
    """The faults of a job. Empty without the tag."""
    value = job.tags.get(TAG)
    return _NONE if value is None else parse(value)


def starting(job: Job, now_ms: int) -> tuple[Delay, float] | None:
    """Returns the slow start that a placed job is in, and its remaining seconds. None if the job may go on.

    Raises InjectedFault if the start fails.
    """
    faults = of(job)
    since = job.placed_ms if job.attempt == 1 and job.placed_ms is not None else job.transitions[-1].start_ms
    passed = (now_ms - since) / 1000
    for delay in faults.delays:
        if passed < delay.seconds:
            return delay, delay.seconds - passed
        passed -= delay.seconds
    if faults.internal is not None and faults.internal.after is None:
        _strike(job, faults.internal)
    if faults.capacity:
        raise InjectedFault(verdict.CAPACITY)
    return None


def training(job: Job, now_ms: int) -> None:
    """Raises InjectedFault if the present attempt has trained as long as the tag allows."""
    at_ms = training_ms(job)
    if at_ms is not None and now_ms >= at_ms:
        raise InjectedFault(verdict.INTERNAL)


def training_ms(job: Job) -> float | None:
    """Returns the time of that fault in ms since the epoch, or None if the tag causes none."""
    internal = of(job).internal
    if internal is None or internal.after is None or job.secondary is not SecondaryStatus.TRAINING:
        return None
    return job.transitions[-1].start_ms + internal.after * 1000 if _met(job) < internal.times else None


def _strike(job: Job, fault: InternalFault) -> None:
    if _met(job) < fault.times:
        raise InjectedFault(verdict.INTERNAL)


def _met(job: Job) -> int:
    """Returns how many attempts an internal fault has ended."""
    return sum(attempt.ended_by is SecondaryStatus.RESTARTING for attempt in job.attempts)
