"""A pipeline's definition: AWS's JSON of version 2020-12-01, read and checked once.

The rules are those of the pages "Pipelines overview" and "Pipeline steps" of the SageMaker developer guide, and of what
SDK v2 writes (`sagemaker/workflow`). AWS publishes no texts of its errors; those here are sagelet's.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.pipelines import conditions, retrying
from sagelet_engine.pipelines.expressions import Reference, Unresolved, references
from sagelet_engine.pipelines.malformed import DEEPEST, MALFORMED, depth_is_allowed

VERSION = "2020-12-01"
_NAME = re.compile(r"[A-Za-z0-9\-_]{1,64}", re.ASCII)
#: Types of steps that run here.
TYPES = frozenset({"Training", "Processing", "Tuning", "Condition", "Fail", "Callback", "Model", "RegisterModel"})
#: AWS's types that do not run here, and why.
REFUSED_TYPES: Mapping[str, str] = {
    "Transform": "sagelet runs no batch transform jobs",
    "QualityCheck": "it needs AWS's model monitor",
    "ClarifyCheck": "it needs AWS's Clarify container",
    "EMR": "it needs an EMR cluster",
    "EMRServerless": "it needs an EMR application",
    "AutoML": "sagelet runs no AutoML jobs",
    "NotebookJob": "sagelet runs no notebook jobs",
    "Lambda": "sagelet runs no Lambda functions; a Callback step can call your own program",
    "MonitorBatchTransform": "sagelet runs no batch transform jobs",
    "Endpoint": "sagelet serves no models",
    "EndpointConfig": "sagelet serves no models",
    "InferenceComponent": "sagelet serves no models",
    "Lineage": "sagelet keeps no lineage",
}
#: Members of each of PropertyFiles.
PROPERTY_FILE = ("PropertyFileName", "OutputName", "FilePath")
_PARAMETER_TYPES: Mapping[str, tuple[type, ...]] = {
    "String": (str,),
    "Integer": (int,),
    "Float": (int, float),
    "Boolean": (bool,),
}


class InvalidDefinition(SageletError):
    """The definition cannot run. The text says where and why."""


@dataclass(frozen=True)
class Parameter:
    name: str
    type: str
    #: None: a value must be given at the start.
    default: Any = None
    allowed: tuple[str, ...] = ()

    def read(self, text: str) -> Any:
        """Returns a value in the parameter's type. `text` is as in PipelineParameters. Raises InvalidDefinition."""
        if self.allowed and text not in self.allowed:
            raise InvalidDefinition(f"Parameter {self.name} must be one of {', '.join(self.allowed)}, not {text}")
        try:
            if self.type == "Integer":
                return int(text)
            if self.type == "Float":
                return float(text)
        except ValueError as error:
            raise InvalidDefinition(f"Parameter {self.name} must be of type {self.type}, not {text!r}") from error
        if self.type == "Boolean":
            if text.lower() not in ("true", "false"):
                raise InvalidDefinition(f"Parameter {self.name} must be true or false, not {text!r}")
            return text.lower() == "true"
        return text


@dataclass(frozen=True)
class Step:
    """One step. Those inside a Condition step are steps like all others, with the branch that they are in."""

    #: Its place in the definition, from 1.
    ordinal: int
    name: str
    type: str
    #: The whole object of the definition.
    given: JsonObject
    #: The Condition step around it, and the outcome that leads here.
    branch: tuple[str, bool] | None
    #: Names of the steps that must have succeeded: those it refers to, those of DependsOn, and its Condition step.
    needs: frozenset[str]

    @property
    def arguments(self) -> JsonObject:
        found: JsonObject = self.given.get("Arguments", {})
        return found

    @property
    def property_files(self) -> Mapping[str, JsonObject]:
        return {one["PropertyFileName"]: one for one in self.given.get("PropertyFiles", [])}


@dataclass(frozen=True)
class Definition:
    parameters: Mapping[str, Parameter]
    #: By name, in the order of the definition.
    steps: Mapping[str, Step]

    def values(self, given: Sequence[JsonObject]) -> JsonObject:
        """Returns all parameters for an execution. `given`: PipelineParameters. Raises InvalidDefinition."""
        texts = {one["Name"]: one["Value"] for one in given}
        if unknown := sorted(texts.keys() - self.parameters.keys()):
            raise InvalidDefinition(f"The pipeline has no parameter {', '.join(unknown)}")
        values = {}
        for name, one in self.parameters.items():
            if name in texts:
                values[name] = one.read(texts[name])
            elif one.default is None:
                raise InvalidDefinition(f"Parameter {name} has no default value: give one in PipelineParameters")
            else:
                values[name] = one.default
        return values

    def upstream(self, names: Sequence[str]) -> set[str]:
        """Returns the steps that these need, directly or through others."""
        found: set[str] = set()
        left = list(names)
        while left:
            for one in self.steps[left.pop()].needs - found:
                found.add(one)
                left.append(one)
        return found


def check(text: str) -> None:
    """Raises InvalidDefinition for what a new definition must not have.

    `parse` takes some of it, because an earlier sagelet may have stored it: then the step fails when it begins.
    """
    definition, given = parse(text), json.loads(text)
    if not depth_is_allowed(given):
        raise InvalidDefinition(f"PipelineDefinition is nested more than {DEEPEST} levels deep")
    if len(definition.parameters) < len(_objects(given, "Parameters")):
        raise InvalidDefinition("Two parameters have the same name")
    for step in definition.steps.values():
        if not isinstance(step.given.get("CacheConfig", {}), dict):
            raise InvalidDefinition(f"CacheConfig of step {step.name} must be an object")
        try:
            retrying.check(step.name, _objects(step.given, "RetryPolicies"))
        except retrying.InvalidPolicy as error:
            raise InvalidDefinition(str(error)) from error
        texts = [one[member] for one in _objects(step.given, "PropertyFiles") for member in PROPERTY_FILE]
        if not all(isinstance(one, str) for one in texts):
            raise InvalidDefinition(f"{', '.join(PROPERTY_FILE)} of step {step.name} must be texts")


@lru_cache(maxsize=64)
def parse(text: str) -> Definition:
    """Reads a definition. Raises InvalidDefinition."""
    try:
        return _parse(text)
    except Unresolved as error:
        raise InvalidDefinition(str(error)) from error
    except MALFORMED as error:
        raise InvalidDefinition(f"PipelineDefinition has a member of the wrong type: {error}") from error


def _parse(text: str) -> Definition:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidDefinition(f"PipelineDefinition is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise InvalidDefinition("PipelineDefinition must be a JSON object")
    if given.get("Version") != VERSION:
        raise InvalidDefinition(f"Version must be {VERSION}, not {given.get('Version')!r}")
    parameters = {one.name: one for one in map(_parameter, _objects(given, "Parameters"))}
    steps = [*_steps(_objects(given, "Steps"))]
    if not steps:
        raise InvalidDefinition("Steps must have a step")
    found = Definition(parameters, {one.name: one for one in steps})
    if len(found.steps) < len(steps):
        raise InvalidDefinition("Two steps have the same name")
    _check_references(found)
    _check_order(found)
    return found


def _objects(given: JsonObject, member: str) -> list[JsonObject]:
    value = given.get(member) or []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise InvalidDefinition(f"{member} must be a list of objects")
    return value


def _parameter(given: JsonObject) -> Parameter:
    name, kind = given.get("Name"), given.get("Type")
    if not isinstance(name, str) or not isinstance(kind, str) or kind not in _PARAMETER_TYPES:
        raise InvalidDefinition(
            f"A parameter needs a Name and a Type of {', '.join(_PARAMETER_TYPES)}: {json.dumps(given)[:200]}"
        )
    default, allowed = given.get("DefaultValue"), tuple(given.get("EnumValues") or ())
    if default is not None:
        of_type = isinstance(default, _PARAMETER_TYPES[kind]) and isinstance(default, bool) is (kind == "Boolean")
        if not of_type or (allowed and default not in allowed):
            raise InvalidDefinition(f"The DefaultValue of parameter {name} is not one that the parameter can have")
    return Parameter(name, kind, default, allowed)


def _steps(given: Sequence[JsonObject], branch: tuple[str, bool] | None = None, first: int = 1) -> Iterator[Step]:
    """Yields the steps, each Condition step before those inside it."""
    ordinal = first
    for one in given:
        step = _step(one, branch, ordinal)
        yield step
        ordinal += 1
        if step.type != "Condition":
            continue
        for outcome, member in ((True, "IfSteps"), (False, "ElseSteps")):
            inner = [*_steps(_objects(step.arguments, member), (step.name, outcome), ordinal)]
            yield from inner
            ordinal += len(inner)


def _step(given: JsonObject, branch: tuple[str, bool] | None, ordinal: int) -> Step:
    name, kind = given.get("Name"), given.get("Type")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidDefinition(f"A step's Name has 1 to 64 letters, digits, - and _, unlike {name!r}")
    if not isinstance(kind, str):
        raise InvalidDefinition(f"Step {name} has no Type")
    if kind in REFUSED_TYPES:
        raise InvalidDefinition(f"Step {name} has the type {kind}, which does not run here: {REFUSED_TYPES[kind]}")
    if kind not in TYPES:
        raise InvalidDefinition(f"Step {name} has an unknown type {kind}")
    if not isinstance(given.get("Arguments", {}), dict):
        raise InvalidDefinition(f"Arguments of step {name} must be an object")
    depends = given.get("DependsOn") or []
    if not isinstance(depends, list) or not all(isinstance(one, str) for one in depends):
        raise InvalidDefinition(f"DependsOn of step {name} must be a list of names")
    _check_members(name, kind, given)
    needs = {*depends, *(one.step for one in _own_references(given, kind) if one.step)}
    if branch is not None:
        needs.add(branch[0])
    return Step(ordinal, name, kind, given, branch, frozenset(needs))


def _check_members(name: str, kind: str, given: JsonObject) -> None:
    if kind == "Condition":
        found = _objects(given.get("Arguments", {}), "Conditions")
        if not found or not all(map(conditions.is_whole, found)):
            raise InvalidDefinition(f"Condition step {name} needs Conditions, each with its Type and its operands")
    if kind == "Callback" and "SqsQueueUrl" not in given:
        raise InvalidDefinition(f"Callback step {name} needs SqsQueueUrl")
    for one in _objects(given, "PropertyFiles"):
        if not {*PROPERTY_FILE} <= one.keys():
            raise InvalidDefinition(f"Each of PropertyFiles of step {name} needs {', '.join(PROPERTY_FILE)}")


def _own_references(given: JsonObject, kind: str) -> Iterator[Reference]:
    """Yields what a step itself refers to. The steps inside a Condition step refer for themselves."""
    arguments = given.get("Arguments", {})
    if kind == "Condition":
        arguments = {"Conditions": arguments.get("Conditions", [])}
    yield from references(arguments)
    for member in ("SqsQueueUrl", "FunctionArn"):
        yield from references(given.get(member))


def _check_references(definition: Definition) -> None:
    for step in definition.steps.values():
        for one in _own_references(step.given, step.type):
            if one.parameter and one.parameter not in definition.parameters:
                raise InvalidDefinition(f"Step {step.name} refers to {one.parameter}, which is not among Parameters")
        for name in sorted(step.needs):
            if name not in definition.steps:
                raise InvalidDefinition(f"Step {step.name} depends on the step {name}, which is not defined")
        for one in _own_references(step.given, step.type):
            if one.property_file and one.property_file not in definition.steps[one.step].property_files:
                raise InvalidDefinition(
                    f"Step {step.name} refers to the property file {one.property_file}, which step {one.step} "
                    "does not have"
                )


def _check_order(definition: Definition) -> None:
    """Raises InvalidDefinition if steps wait for each other."""
    done: set[str] = set()
    left = dict(definition.steps)
    while left:
        ready = [name for name, step in left.items() if step.needs <= done]
        if not ready:
            raise InvalidDefinition(f"These steps wait for each other: {', '.join(sorted(left))}")
        done.update(ready)
        for name in ready:
            del left[name]
