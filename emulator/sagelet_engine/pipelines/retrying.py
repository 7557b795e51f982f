"""RetryPolicies of a step: which failure is tried again, and when.

The rules are those of the developer guide, "Retry Policy for Pipeline Steps".
"""

from collections.abc import Sequence
from dataclasses import replace

from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.pipeline import StepRun, StepState, StepStatus

SERVICE_FAULT, THROTTLING = "Step.SERVICE_FAULT", "Step.THROTTLING"
INTERNAL_ERROR, CAPACITY_ERROR = "SageMaker.JOB_INTERNAL_ERROR", "SageMaker.CAPACITY_ERROR"
RESOURCE_LIMIT = "SageMaker.RESOURCE_LIMIT"
EVERY = frozenset({SERVICE_FAULT, THROTTLING, INTERNAL_ERROR, CAPACITY_ERROR, RESOURCE_LIMIT})
#: AWS retries faults and throttling of every step, and does not say how often.
DEFAULT: JsonObject = {"ExceptionType": [SERVICE_FAULT, THROTTLING], "MaxAttempts": 5}
_BACKOFF, _INTERVAL_SECONDS = 2.0, 1
#: The longest wait between two attempts, in seconds: a day. It bounds what BackoffRate makes of the interval.
LONGEST_SECONDS = 86_400
#: The largest values here. AWS documents none for most of them.
_LARGEST = {"IntervalSeconds": LONGEST_SECONDS, "BackoffRate": 100, "MaxAttempts": 1_000, "ExpireAfterMin": 14_400}
#: Characters of a FailureReason, at most (PipelineExecutionStep).
_LONGEST_REASON = 1024


class InvalidPolicy(SageletError):
    """One of RetryPolicies is not what the developer guide allows."""


def check(step: str, policies: Sequence[JsonObject]) -> None:
    """Raises InvalidPolicy for types that do not exist, and for numbers that are none or too large."""
    for policy in policies:
        kinds = policy.get("ExceptionType")
        if not isinstance(kinds, list) or not kinds or not all(isinstance(one, str) and one in EVERY for one in kinds):
            raise InvalidPolicy(
                f"Each of RetryPolicies of step {step} needs a list ExceptionType of {', '.join(sorted(EVERY))}"
            )
        for member, most in _LARGEST.items():
            value = policy.get(member, 1)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
                raise InvalidPolicy(f"{member} in RetryPolicies of step {step} must be a number up to {most}")


def after_failure(run: StepRun, policies: Sequence[JsonObject], kind: str, reason: str, now_ms: int) -> StepRun:
    """Returns the run after a failure of a `kind` (empty: of none that can be retried): it waits, or it has failed."""
    policy = next((one for one in (*policies, DEFAULT) if kind and kind in one["ExceptionType"]), None)
    if policy is None or not _goes_on(policy, run, now_ms):
        return ended(run, StepStatus.FAILED, now_ms, failure_reason=reason)
    interval, rate = policy.get("IntervalSeconds", _INTERVAL_SECONDS), policy.get("BackoffRate", _BACKOFF)
    # A power of a hundred attempts does not fit a float.
    seconds = min(interval * rate ** min(run.attempt - 1, 50), LONGEST_SECONDS)
    return replace(run, state=StepState.WAITING, retry_ms=now_ms + round(seconds * 1000), failure_reason=reason)


def _goes_on(policy: JsonObject, run: StepRun, now_ms: int) -> bool:
    if "MaxAttempts" in policy and run.attempt > policy["MaxAttempts"]:
        return False
    return "ExpireAfterMin" not in policy or now_ms < run.start_ms + policy["ExpireAfterMin"] * 60_000


def again(run: StepRun) -> StepRun:
    """Returns the next attempt of a run that waited."""
    return replace(
        run,
        state=StepState.PLANNED,
        status=StepStatus.STARTING,
        attempt=run.attempt + 1,
        retry_ms=None,
        failure_reason=None,
        made=None,
    )


def ended(run: StepRun, status: StepStatus, now_ms: int, *, failure_reason: str | None = None) -> StepRun:
    end_ms = max(now_ms, run.start_ms)
    failure_reason = failure_reason[:_LONGEST_REASON] if failure_reason else failure_reason
    return replace(
        run, state=StepState.ENDED, status=status, end_ms=end_ms, retry_ms=None, failure_reason=failure_reason
    )
