"""The outputs of a Lambda step: members of what the function returned, of the types that OutputParameters names.

The developer guide, "Lambda step", has the types. AWS publishes no texts of its errors; those here are sagelet's.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from sagelet_engine.base.wire import JsonObject

#: How a JSON value of each OutputType looks in Python. SDK v2 calls them LambdaOutputTypeEnum.
TYPES: Mapping[str, tuple[type, ...]] = {
    "String": (str,),
    "Integer": (int,),
    "Boolean": (bool,),
    "Float": (int, float),
}
#: Characters of a value (botocore shape String1024).
LONGEST = 1024


class BadOutput(Exception):
    """The function returned something else than the step asks for. The text says what."""


def read(payload: str, wanted: Sequence[JsonObject]) -> JsonObject:
    """Returns the outputs by name. `payload`: JSON. `wanted`: OutputParameters of the step. Raises BadOutput."""
    if not wanted:
        return {}
    try:
        returned = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise BadOutput("it returned no JSON") from error
    if not isinstance(returned, dict):
        raise BadOutput(f"it returned no object, and OutputParameters names {wanted[0]['OutputName']}")
    return {one["OutputName"]: _value(returned, one["OutputName"], one.get("OutputType", "String")) for one in wanted}


def _value(returned: JsonObject, name: str, kind: str) -> Any:
    if name not in returned:
        raise BadOutput(f"it returned no {name}, which OutputParameters names")
    value = returned[name]
    of_type = isinstance(value, TYPES[kind]) and isinstance(value, bool) is (kind == "Boolean")
    if not of_type or (isinstance(value, float) and not math.isfinite(value)):
        shown = json.dumps(value)
        shown = shown if len(shown) <= 64 else f"{shown[:64]}..."
        raise BadOutput(f"{name} must be of type {kind}, and it returned {shown}")
    if len(str(value)) > LONGEST:
        raise BadOutput(f"{name} has more than {LONGEST} characters")
    return value
