"""Makes the input of a target of an EventBridge rule (EventBridge user guide: "Amazon EventBridge input
transformation"): the whole event, or the result of the target's Input, InputPath or InputTransformer.

moto does not know the first two, and refuses strings that the template leaves unquoted, as AWS's examples do.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from sagelet_engine.base.wire import JsonObject

#: A quote that opens or ends a JSON string, an escaped character, or a variable.
_TOKEN = re.compile(r'\\.|"|<([A-Za-z0-9._-]+)>', re.DOTALL)


def target_input(target: Mapping[str, Any], event: Mapping[str, Any], rule: Mapping[str, str]) -> str:
    """Returns the text for a target of PutTargets. `rule`: its `name` and `arn`. Raises ValueError for a wrong path."""
    if target.get("Input"):
        return str(target["Input"])
    if target.get("InputPath"):
        return as_json(look_up(target["InputPath"], event))
    transformer = target.get("InputTransformer")
    if not transformer:
        return as_json(event)
    values = {name: look_up(path, event) for name, path in (transformer.get("InputPathsMap") or {}).items()}
    return fill_in(transformer["InputTemplate"], {**_predefined(event, rule), **values})


def _predefined(event: Mapping[str, Any], rule: Mapping[str, str]) -> JsonObject:
    return {
        "aws.events.rule-arn": rule["arn"],
        "aws.events.rule-name": rule["name"],
        "aws.events.event.ingestion-time": event["time"],
        "aws.events.event": {name: value for name, value in event.items() if name != "detail"},
        "aws.events.event.json": event,
    }


def fill_in(template: str, values: Mapping[str, Any]) -> str:
    """Returns the template with the values of its variables: as JSON, and within a JSON string as a part of that
    string.

    A variable without a path stays as it is.
    """
    inside = False

    def put(match: re.Match[str]) -> str:
        nonlocal inside
        name = match[1]
        if name is None:
            inside ^= match[0] == '"'
            return match[0]
        if name not in values:
            return match[0]
        value = values[name]
        if not inside:
            return as_json(value)
        return as_json(value if isinstance(value, str) else as_json(value))[1:-1]

    return _TOKEN.sub(put, template)


def look_up(path: str, event: Mapping[str, Any]) -> Any:
    """Returns what a JSON path finds: an empty string for nothing, a list for several. Raises ValueError."""
    from jsonpath_ng import parse
    from jsonpath_ng.exceptions import JSONPathError

    try:
        found = [match.value for match in parse(path).find(event)]
    except JSONPathError as error:
        raise ValueError(f"{path} is not a JSON path: {error}") from error
    return found[0] if len(found) == 1 else found or ""


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
