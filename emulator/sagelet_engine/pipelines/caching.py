"""Step caching: which earlier run of a step has the result that a new one would have."""

import hashlib
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from sagelet_engine.base.wire import JsonObject

#: Arguments that decide, by the type of the step (developer guide, "Default cache key attributes by pipeline step
#: type"). For the other types the guide names all arguments.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "Processing": ("AppSpecification", "Environment", "ProcessingInputs"),
    "Training": (
        "AlgorithmSpecification",
        "CheckpointConfig",
        "DebugHookConfig",
        "DebugRuleConfigurations",
        "Environment",
        "HyperParameters",
        "InputDataConfig",
    ),
}
_TUNING = (
    "AlgorithmSpecification",
    "HyperParameterRanges",
    "InputDataConfig",
    "StaticHyperParameters",
    "TuningObjective",
)
_NUMBER = r"(\d{1,12}(?:[.,]\d{1,12})?)"
#: Years, months, weeks, days, then hours, minutes and seconds after T. AWS's own examples leave out the P.
_DURATION = re.compile(
    f"P?(?:{_NUMBER}Y)?(?:{_NUMBER}M)?(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?",
    re.IGNORECASE | re.ASCII,
)
_DAY = 86_400_000
_UNITS_MS = (365 * _DAY, 30 * _DAY, 7 * _DAY, _DAY, 3_600_000, 60_000, 1000)


def duration_ms(text: str) -> int | None:
    """Returns an ISO 8601 duration in ms: a month has 30 days, a year has 365. None for any other text."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    parts = zip(found.groups(), _UNITS_MS, strict=True)
    return round(sum(Decimal(number.replace(",", ".")) * unit for number, unit in parts if number))


def is_on(step: JsonObject) -> bool:
    return bool((step.get("CacheConfig") or {}).get("Enabled"))


def cache_key(pipeline: str, step: JsonObject, arguments: JsonObject) -> str:
    """Returns a digest of the pipeline's ARN, the step's name and the arguments that decide. Empty without a cache."""
    return _digest([pipeline, step["Name"], step["Type"], _deciding(step, arguments)]) if is_on(step) else ""


def is_fresh(step: JsonObject, ended_ms: int, now_ms: int) -> bool:
    """True if a run that ended at `ended_ms` has not expired. Without ExpireAfter it never does."""
    age = step["CacheConfig"].get("ExpireAfter")
    lasts = duration_ms(age) if age else None
    return lasts is None or now_ms < ended_ms + lasts


def _deciding(step: JsonObject, arguments: JsonObject) -> Any:
    kind = step["Type"]
    if kind in _KEYS:
        return {name: arguments.get(name) for name in _KEYS[kind]}
    if kind == "Tuning":
        definitions = [arguments.get("TrainingJobDefinition"), *arguments.get("TrainingJobDefinitions", [])]
        parts = [{name: one.get(name) for name in _TUNING} for one in definitions if one]
        return [arguments.get("HyperParameterTuningJobConfig"), parts]
    # A Lambda step's arguments have its FunctionArn.
    return [arguments, step.get("SqsQueueUrl"), step.get("OutputParameters")]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
