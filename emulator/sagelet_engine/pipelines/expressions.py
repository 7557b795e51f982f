"""The expressions of a definition: `Get`, `Std:Join` and `Std:JsonGet`, found and replaced by their values.

An expression is an object with one member of these names. Everything else is copied as it is.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sagelet_engine.base.concurrency import pause
from sagelet_engine.base.errors import SageletError

#: Members of objects by which AWS names the element of a list: `Outputs['train']`, `FinalMetricDataList['loss']`.
_NAMES = ("OutputName", "InputName", "ChannelName", "MetricName", "Name")
_SEGMENT = re.compile(r"\.?([^.\[\]]+)|\[(\d{1,9})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]", re.ASCII)
#: Letters of the values that a step refers to, all together.
MOST_LETTERS = 4 * 1024**2
_STEP = re.compile(r"Steps\.([A-Za-z0-9\-_]+)(.*)", re.DOTALL)


class Unresolved(SageletError):
    """A reference has no value. The step that has it fails with this text."""


@dataclass(frozen=True)
class Reference:
    """What one `Get` names. Members that do not apply are empty."""

    parameter: str = ""
    execution: str = ""
    #: A member of PipelineExperimentConfig.
    experiment: str = ""
    step: str = ""
    #: Below the step: `.ModelArtifacts.S3ModelArtifacts`.
    path: str = ""
    property_file: str = ""


class Budget:
    """What the values of a step's references may have in all: a few letters can name a large value many times."""

    def __init__(self) -> None:
        self._left = MOST_LETTERS

    def spend(self, value: Any) -> None:
        """Counts the letters of a JSON value, and one for each of its parts. Raises Unresolved beyond MOST_LETTERS."""
        waiting = [value]
        while waiting:
            part = waiting.pop()
            self._left -= 1 + (len(part) if isinstance(part, str) else 0)
            self.check_room(0)
            if isinstance(part, list):
                waiting += part
            elif isinstance(part, dict):
                self._left -= sum(map(len, part))
                waiting += part.values()

    def check_room(self, letters: int) -> None:
        """Raises Unresolved if so many letters more would be too many. Asked before a text of that length is made."""
        if letters > self._left:
            raise Unresolved(f"The values that the step refers to have more than {MOST_LETTERS} letters in all")


@dataclass(frozen=True)
class Scope:
    """Where the values of references come from. Made for one step."""

    parameters: Mapping[str, Any]
    #: `PipelineName`, `StartDateTime`, ...
    execution: Mapping[str, Any]
    #: PipelineExperimentConfig of the definition, not resolved.
    experiment: Mapping[str, Any]
    #: Properties of the steps that have succeeded.
    steps: Mapping[str, Any]
    #: Returns the JSON document of a step's property file, or of an S3 URI. Raises Unresolved.
    property_file: Callable[[str, str], Any]
    document: Callable[[str], Any]
    budget: Budget = field(default_factory=Budget)


def references(value: Any) -> Iterator[Reference]:
    """Yields every reference in a value of a definition. Raises Unresolved for one that cannot be read."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            pause()
            waiting += reversed(part)
        elif isinstance(part, dict) and part.keys() == {"Get"}:
            yield reference(part["Get"])
        elif isinstance(part, dict):
            pause()
            waiting += reversed(part.values())


def reference(text: Any) -> Reference:
    """Reads the text of a `Get`. Raises Unresolved."""
    if isinstance(text, str):
        root, _, rest = text.partition(".")
        if root == "Parameters" and rest:
            return Reference(parameter=rest)
        if root == "Execution" and rest:
            return Reference(execution=rest)
        if root == "PipelineExperimentConfig" and rest:
            return Reference(experiment=rest)
        if (found := _STEP.fullmatch(text)) is not None:
            name, path = found.groups()
            file = path.removeprefix(".PropertyFiles.")
            return Reference(step=name, path=path, property_file=file if file != path else "")
    shown = json.dumps(text)[:200]
    raise Unresolved(
        f"{shown} is not a reference: it begins with Parameters., Execution., PipelineExperimentConfig. or Steps."
    )


def resolve(value: Any, scope: Scope) -> Any:
    """Returns a value with its expressions replaced. Raises Unresolved."""
    if isinstance(value, list):
        return [resolve(one, scope) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"Get"}:
        return _paid(_get(reference(value["Get"]), scope, value["Get"]), scope)
    if value.keys() == {"Std:Join"}:
        return _paid(_join(value["Std:Join"], scope), scope)
    if value.keys() == {"Std:JsonGet"}:
        return _paid(_json_get(value["Std:JsonGet"], scope), scope)
    return {name: resolve(one, scope) for name, one in value.items()}


def _paid(value: Any, scope: Scope) -> Any:
    scope.budget.spend(value)
    return value


def _get(one: Reference, scope: Scope, text: str) -> Any:
    if one.parameter:
        if one.parameter not in scope.parameters:
            raise Unresolved(f"There is no parameter {one.parameter}")
        return scope.parameters[one.parameter]
    if one.execution:
        if one.execution not in scope.execution:
            raise Unresolved(f"There is no execution variable {one.execution}")
        return scope.execution[one.execution]
    if one.experiment:
        if scope.experiment.get(one.experiment) is None:
            raise Unresolved(f"PipelineExperimentConfig has no {one.experiment}")
        # Its values do not refer to each other, or to themselves.
        return resolve(scope.experiment[one.experiment], replace(scope, experiment={}))
    if one.step not in scope.steps:
        raise Unresolved(f"{text} is undefined: step {one.step} has not succeeded")
    return at_path(scope.steps[one.step], one.path, text)


def _join(given: Any, scope: Scope) -> str:
    texts = [text_of(resolve(one, scope)) for one in given["Values"]]
    between = str(given.get("On", ""))
    scope.budget.check_room(len(between) * (len(texts) - 1) + sum(map(len, texts)))
    return between.join(texts)


def _json_get(given: Any, scope: Scope) -> Any:
    path = given["Path"]
    if "PropertyFile" in given:
        one = reference(given["PropertyFile"]["Get"])
        document = scope.property_file(one.step, one.property_file)
        where = f"property file {one.property_file} of step {one.step}"
    else:
        where = text_of(resolve(given["S3Uri"], scope))
        document = scope.document(where)
    return at_path(document, path, f"{path} in {where}")


def text_of(value: Any) -> str:
    """Returns a value as AWS writes it into text: `true`, not `True`. Lists and objects are JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def segments(path: str, shown: str) -> list[str | int]:
    """Returns the names and indexes of a path such as `a.b[0]['c']` or `$.a.b`. Raises Unresolved.

    SDK v2 calls the path of JsonGet a JSON path. `shown`: for the error's text.
    """
    rest = path[1:] if path[:2] in ("$", "$.", "$[") else path
    found: list[str | int] = []
    position = 0
    while position < len(rest):
        part = _SEGMENT.match(rest, position)
        if part is None:
            raise Unresolved(f"{shown} is not a path such as a.b[0]['c']")
        position = part.end()
        found.append(int(part[2]) if part[2] is not None else part[1] or part[3] or part[4] or "")
    return found


def at_path(value: Any, path: str, shown: str) -> Any:
    """Returns the part of a JSON value at a path such as `a.b[0]['c']`. Raises Unresolved. `shown`: for its text."""
    for part in segments(path, shown):
        value = _item(value, part) if isinstance(part, int) else _member(value, part)
        if value is None:
            raise Unresolved(f"{shown} is undefined")
    return value


def _item(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, list) and index < len(value) else None


def _member(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, list):
        named = (one for one in value if isinstance(one, dict))
        return next((one for one in named if any(one.get(member) == name for member in _NAMES)), None)
    return None
