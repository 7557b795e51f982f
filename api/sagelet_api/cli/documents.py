"""A CreateTrainingJob request from a YAML or JSON file, checked member by member before anything is sent.

Scalars are read as the text that stands in the file and become what the service model has at their place. So a
hyperparameter `1e-3` or `0.10` keeps its digits, and `InstanceCount: 1` is a number, in YAML and in JSON.
"""

import json
import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from sagelet_api.protocol.aws_errors import AwsError
from sagelet_api.protocol.members import Parameters
from sagelet_api.protocol.validation import checked, rule_book
from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.number_text import number_in, whole_number_in
from sagelet_engine.base.wire import JsonObject

OPERATION = "CreateTrainingJob"
#: In bytes. A request has 100 hyperparameters of 2,500 characters at most.
LONGEST = 5 * 1024 * 1024
#: Values in a file, each place of a YAML anchor counted. A few lines of anchors can stand for billions.
MOST_VALUES = 100_000
#: AWS's words for a value that is not in an enum.
_ENUM = re.compile(
    r"(?P<words>Value '(?P<value>.*)' at '(?P<member>[^']+)' failed to satisfy constraint: Member must satisfy enum "
    r"value set): \[(?P<values>.*)\]",
    re.DOTALL,
)
#: In characters: no value of an enum is longer.
_LONGEST_NAME = 100
#: Instance types are 250.
_MOST_LISTED = 12
_NULLS = ("", "~", "null")
_TRUTH = {"true": True, "false": False}


class BadDocument(SageletError):
    """The file is not a CreateTrainingJob request."""


def read_document(path: Path) -> JsonObject:
    """Returns the mapping at the top of the file, with texts, lists and mappings in it. Raises BadDocument."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadDocument(f"{path}: {error.strerror}") from error
    if len(content) > LONGEST:
        raise BadDocument(f"{path} has {len(content)} bytes: a request has {LONGEST} at most")
    try:
        text = content.decode("utf-8-sig")
        found = _json(text) if path.suffix.lower() == ".json" else _yaml(text)
    except (ValueError, RecursionError) as error:
        raise BadDocument(f"{path} cannot be read: {error}") from error
    if _has_more_values(found, MOST_VALUES):
        raise BadDocument(f"{path} has more than {MOST_VALUES} values (YAML anchors count wherever they are named)")
    if not isinstance(found, dict):
        raise BadDocument(f"{path} must have the members of {OPERATION} at its top: TrainingJobName, RoleArn, ...")
    return found


def _has_more_values(found: Any, most: int) -> bool:
    left = [found]
    while left and most >= 0:
        value = left.pop()
        inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        most -= len(inner)
        left += inner
    return most < 0


def request_from(document: JsonObject, what: str) -> Parameters:
    """Returns the request in the types of the service model. Raises BadDocument, which lists all problems by member."""
    problems: list[str] = []
    try:
        typed = _fitted(document, rule_book("sagemaker").input_shape(OPERATION), "", problems)
        typed, broken = checked("sagemaker", OPERATION, typed)
        problems += [_with_remedy(problem) for problem in broken]
    except AwsError as error:
        # A value of a wrong type ends AWS's check. `_fitted` has named it in most cases.
        problems = problems or [error.message]
    except RecursionError as error:
        raise BadDocument(f"{what} contains itself (a YAML anchor)") from error
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        raise BadDocument(f"{what} is not a valid {OPERATION} request:\n{lines}")
    found: Parameters = typed
    return found


def _with_remedy(problem: str) -> str:
    """Returns a broken constraint in AWS's words. If it lists the values of an enum, the nearest one is named, and a
    long list is left out.
    """
    broken = _ENUM.fullmatch(problem)
    if broken is None:
        return problem
    values = broken["values"].split(", ")
    near = get_close_matches(broken["value"][:_LONGEST_NAME], values, 1)
    hints = [f"did you mean {near[0]}?"] if near else []
    if broken["member"].lower().endswith("instancetype"):
        hints.append("`sagelet instances` lists them")
    listed = len(values) <= _MOST_LISTED or not hints
    return "; ".join(filter(None, (problem if listed else broken["words"], " ".join(hints))))


def _json(text: str) -> Any:
    return json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant, object_pairs_hook=_once)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _once(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Makes a mapping. Raises an error for a second member of the same name, which would silently replace the first."""
    found: dict[Any, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name} is there twice")
        found[name] = value
    return found


def _yaml(text: str) -> Any:
    import yaml  # type: ignore[import-untyped]

    class Loader(yaml.BaseLoader):  # type: ignore[misc]
        """Makes texts, lists and mappings, and nothing else, whatever tags the file has."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            names = [self.construct_object(name, deep=True) for name, _ in node.value]
            if unnamed := [name for name in names if not isinstance(name, str)]:
                raise ValueError(f"{unnamed[0]} is not the name of a member")
            _once([(name, None) for name in names])
            made: dict[Any, Any] = super().construct_mapping(node, deep)
            return made

    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _fitted(value: Any, shape: Any, path: str, problems: list[str]) -> Any:
    """Returns the value in the type of its shape. A value that does not fit is reported in `problems` and kept."""
    kind = shape.type_name
    if kind in ("structure", "map"):
        if not isinstance(value, dict):
            return _wrong(value, path, "members below it", problems)
        return _members(value, shape, path, problems)
    if kind == "list":
        if not isinstance(value, list):
            return _wrong(value, path, "a list", problems)
        return [_fitted(one, shape.member, f"{path}[{index}]", problems) for index, one in enumerate(value)]
    if isinstance(value, (dict, list)):
        return _wrong(value, path, "one value", problems)
    return _scalar(value, kind, path, problems)


def _members(value: JsonObject, shape: Any, path: str, problems: list[str]) -> JsonObject:
    found = {}
    for name, inner in value.items():
        place = f"{path}.{name}" if path else name
        member = shape.value if shape.type_name == "map" else shape.members.get(name)
        if member is None:
            like = get_close_matches(name, shape.members, 1)
            hint = f"did you mean {like[0]}?" if like else f"it has {', '.join(shape.members)}"
            problems.append(f"{place}: no member of {shape.name}; {hint}")
        elif inner is None or (member.type_name != "string" and inner in _NULLS):
            continue
        else:
            found[name] = _fitted(inner, member, place, problems)
    return found


def _scalar(value: Any, kind: str, path: str, problems: list[str]) -> Any:
    text = json.dumps(value) if isinstance(value, bool) else str(value)
    if kind == "boolean":
        return _TRUTH[text.lower()] if text.lower() in _TRUTH else _wrong(text, path, "true or false", problems)
    if kind not in ("integer", "long", "float", "double"):
        return text
    is_whole = kind in ("integer", "long")
    number = whole_number_in(text) if is_whole else number_in(text)
    return _wrong(text, path, "a whole number" if is_whole else "a number", problems) if number is None else number


def _wrong(value: Any, path: str, wanted: str, problems: list[str]) -> Any:
    shown = "a list" if isinstance(value, list) else "members" if isinstance(value, dict) else repr(str(value)[:80])
    problems.append(f"{path}: must be {wanted}, and is {shown}")
    return value
