"""Autotune: the settings of a tuning job that a request leaves to SageMaker.

The developer guide ("Define Hyperparameter Ranges", Autotune) says that each hyperparameter in AutoParameters that is
eligible gets a range, which Describe shows, and has one example: an integer whose ValueHint is 4 is searched from 2 to
8. It does not say which are eligible, nor how other ranges are chosen. Here a range is from half to twice the hint.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from sagelet_engine.base.number_text import number_in
from sagelet_engine.base.wire import JsonObject

#: Hyperparameters of the SDK itself. They say how the script is started.
_OWN = "sagemaker_"
#: Settings that a request may leave out, in the order in which they are chosen. The guide: early stopping "defaults to
#: enabled". What AWS chooses for RetryStrategy and ResourceLimits is not known.
_CHOSEN: tuple[JsonObject, ...] = (
    {"TrainingJobEarlyStoppingType": "Auto"},
    {"TuningJobCompletionCriteria": {"ConvergenceDetected": {"CompleteOnConvergence": "Enabled"}}},
)


def settled(request: Mapping[str, Any], accepted: Callable[[JsonObject], bool]) -> JsonObject:
    """Returns a request with Autotune as if its sender had made the choices.

    `accepted`: whether a request with a choice can be carried out. A choice that cannot is not made. A request without
    Autotune comes back unchanged.
    """
    if "Autotune" not in request:
        return dict(request)
    found = _with_ranges(request)
    for choice in _CHOSEN:
        config = found["HyperParameterTuningJobConfig"]
        chosen = {**found, "HyperParameterTuningJobConfig": {**choice, **config}}
        if chosen != found and accepted(chosen):
            found = chosen
    return found


def _with_ranges(request: Mapping[str, Any]) -> JsonObject:
    """Returns the request with ranges and static values in place of AutoParameters."""
    found = dict(request)
    if "TrainingJobDefinitions" in found:
        found["TrainingJobDefinitions"] = [_definition(one) for one in found["TrainingJobDefinitions"]]
        return found
    definition = _definition(found["TrainingJobDefinition"]) if "TrainingJobDefinition" in found else None
    config = found["HyperParameterTuningJobConfig"]
    if "ParameterRanges" in config and definition is not None:
        ranges, static = ranges_of(config["ParameterRanges"])
        found["HyperParameterTuningJobConfig"] = {**config, "ParameterRanges": ranges}
        definition = _with_static(definition, static)
    return found if definition is None else {**found, "TrainingJobDefinition": definition}


def _definition(given: Mapping[str, Any]) -> JsonObject:
    if "HyperParameterRanges" not in given:
        return dict(given)
    ranges, static = ranges_of(given["HyperParameterRanges"])
    return _with_static({**given, "HyperParameterRanges": ranges}, static)


def _with_static(definition: JsonObject, static: Mapping[str, str]) -> JsonObject:
    if not static:
        return definition
    return {**definition, "StaticHyperParameters": {**static, **definition.get("StaticHyperParameters", {})}}


def ranges_of(given: Mapping[str, Any]) -> tuple[JsonObject, dict[str, str]]:
    """Returns ParameterRanges without AutoParameters, and the values of those that are not eligible."""
    ranges = {name: value for name, value in given.items() if name != "AutoParameters"}
    static: dict[str, str] = {}
    for one in given.get("AutoParameters", ()):
        name, hint = one["Name"], one["ValueHint"]
        found = None if name.startswith(_OWN) else _range(hint)
        if found is None:
            static[name] = hint
            continue
        member, low, high = found
        ranges[member] = [*ranges.get(member, ()), {"Name": name, "MinValue": low, "MaxValue": high}]
    return ranges, static


def _range(hint: str) -> tuple[str, str, str] | None:
    """Returns the member of ParameterRanges and both ends, or None if the hint is not a number greater than 0."""
    if re.fullmatch(r"[0-9]{1,18}", hint) and int(hint) > 0:
        number = int(hint)
        return "IntegerParameterRanges", str(max(1, number // 2)), str(2 * number)
    value = number_in(hint)
    if value is None or not math.isfinite(value) or value <= 0 or not math.isfinite(2 * value):
        return None
    # A share, such as a dropout rate, stays below 1.
    high = min(2 * value, (value + 1) / 2) if value < 1 else 2 * value
    return "ContinuousParameterRanges", repr(value / 2), repr(high)
