"""A pipeline's definition: AWS's JSON of version 2020-12-01, read and checked once.

The rules are those of the pages "Pipelines overview" and "Pipeline steps" of the SageMaker developer guide, and of what
SDK v2 writes (`sagemaker/workflow`). AWS publishes no texts of its errors; those here are sagelet's.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sagelet_engine.base.bounded_memory import BoundedMemory
from sagelet_engine.base.cached import cached
from sagelet_engine.base.concurrency import pause
from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model import aws_texts
from sagelet_engine.pipelines import conditions
from sagelet_engine.pipelines.expressions import Reference, Unresolved, references
from sagelet_engine.pipelines.malformed import MALFORMED

VERSION = "2020-12-01"
#: Names that an error lists.
_SHOWN = 20
_NAME = re.compile(r"[A-Za-z0-9\-_]{1,64}", re.ASCII)
#: Types of steps that run here.
TYPES = frozenset(
    {"Training", "Processing", "Tuning", "Condition", "Fail", "Callback", "Lambda", "Model", "RegisterModel"}
)
#: AWS's types that do not run here, and why.
REFUSED_TYPES: Mapping[str, str] = {
    "Transform": "sagelet runs no batch transform jobs",
    "QualityCheck": "it needs AWS's model monitor",
    "ClarifyCheck": "it needs AWS's Clarify container",
    "EMR": "it needs an EMR cluster",
    "EMRServerless": "it needs an EMR application",
    "AutoML": "sagelet runs no AutoML jobs",
    "NotebookJob": "sagelet runs no notebook jobs",
    "MonitorBatchTransform": "sagelet runs no batch transform jobs",
    "Endpoint": "sagelet serves no models",
    "EndpointConfig": "sagelet serves no models",
    "InferenceComponent": "sagelet serves no models",
    "Lineage": "sagelet keeps no lineage",
}
#: Members beside Arguments in which functions may stand: of Callback and of Lambda steps.
BESIDE_ARGUMENTS = ("SqsQueueUrl", "FunctionArn")
#: Members of each of PropertyFiles.
PROPERTY_FILE = ("PropertyFileName", "OutputName", "FilePath")
_PARAMETER_TYPES: Mapping[str, tuple[type, ...]] = {
    "String": (str,),
    "Integer": (int,),
    "Float": (int, float),
    "Boolean": (bool,),
}
#: How the value of each type is written in PipelineParameters, and how it is read. An Integer is one of 64 bits.
_VALUES: Mapping[str, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    "Integer": (re.compile(r"[+-]?0*\d{1,18}", re.ASCII), int),
    "Float": (re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE), float),
    "Boolean": (re.compile(r"true|false", re.ASCII | re.IGNORECASE), lambda text: text.lower() == "true"),
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
        if self.type == "String":
            return text
        pattern, value = _VALUES[self.type]
        if pattern.fullmatch(text) is None or (self.type == "Float" and not math.isfinite(float(text))):
            shown = text if len(text) <= 64 else f"{text[:64]}..."
            raise InvalidDefinition(f"Parameter {self.name} must be of type {self.type}, not {shown}")
        return value(text)


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

    @property
    def arguments(self) -> JsonObject:
        found: JsonObject = self.given.get("Arguments", {})
        return found

    @cached
    def property_files(self) -> Mapping[str, JsonObject]:
        return {one["PropertyFileName"]: one for one in objects(self.given, "PropertyFiles")}

    @cached
    def output_names(self) -> frozenset[str]:
        """OutputParameters of a Callback or Lambda step."""
        names = (one.get("OutputName") for one in objects(self.given, "OutputParameters"))
        return frozenset(name for name in names if isinstance(name, str))

    @property
    def cache(self) -> JsonObject:
        """CacheConfig. Empty if there is none."""
        found: JsonObject = self.given.get("CacheConfig") or {}
        return found

    def expressions(self) -> Mapping[str, Any]:
        """Returns the parts of the step in which functions may stand, by the places that users know.

        The steps inside a Condition step have their own.
        """
        if self.type == "Condition":
            return {"Conditions": self.arguments.get("Conditions", [])}
        parts = {"Arguments": self.arguments}
        return {**parts, **{name: self.given[name] for name in BESIDE_ARGUMENTS if name in self.given}}

    @cached
    def references(self) -> Sequence[Reference]:
        """What the step itself refers to. Raises Unresolved."""
        return [*references([*self.expressions().values()])]

    @cached
    def needs(self) -> frozenset[str]:
        """Names of the steps that must have succeeded: those it refers to, those of DependsOn, and its Condition step.

        Raises Unresolved.
        """
        around = () if self.branch is None else (self.branch[0],)
        return frozenset({*(self.given.get("DependsOn") or []), *around, *(one.step for one in self.references)} - {""})


@dataclass(frozen=True)
class Definition:
    parameters: Mapping[str, Parameter]
    #: By name, in the order of the definition.
    steps: Mapping[str, Step]
    #: PipelineExperimentConfig.
    experiment: JsonObject

    def values(self, given: Sequence[JsonObject]) -> JsonObject:
        """Returns all parameters for an execution. `given`: PipelineParameters. Raises InvalidDefinition."""
        texts = {one["Name"]: one["Value"] for one in given}
        if len(texts) < len(given):
            names = [one["Name"] for one in given]
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidDefinition(f"Parameter {twice} is given twice")
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

    @cached
    def needed_by(self) -> Mapping[str, Sequence[str]]:
        """Returns the steps that need each step, in the order of the definition."""
        needed_by: dict[str, list[str]] = {name: [] for name in self.steps}
        for step in self.steps.values():
            pause()
            for name in step.needs:
                needed_by[name].append(step.name)
        return needed_by

    @cached
    def levels(self) -> Mapping[str, int]:
        """Returns how many steps each step waits for, one after the other. Steps that wait for each other have none."""
        levels = {name: 0 for name, step in self.steps.items() if not step.needs}
        left = {name: len(step.needs) for name, step in self.steps.items()}
        ready = [*levels]
        for name in ready:
            pause()
            for other in self.needed_by[name]:
                left[other] -= 1
                if not left[other]:
                    levels[other] = 1 + levels[name]
                    ready.append(other)
        return levels

    def upstream(self, names: Sequence[str]) -> set[str]:
        """Returns the steps that these need, directly or through others."""
        found: set[str] = set()
        left = list(names)
        while left:
            for one in self.steps[left.pop()].needs - found:
                found.add(one)
                left.append(one)
        return found


def parse(text: str) -> Definition:
    """Reads a definition. Raises InvalidDefinition."""
    return _READ(text)


def parse_object(given: JsonObject) -> Definition:
    """Reads what `read_object` returns. Raises InvalidDefinition."""
    try:
        return _parse(given)
    except Unresolved as error:
        raise InvalidDefinition(str(error)) from error
    except MALFORMED as error:
        raise InvalidDefinition("PipelineDefinition has a member of the wrong type") from error


#: Each step of each execution asks for its definition. As objects a text takes some ten times its letters.
_READ = BoundedMemory(lambda text: parse_object(read_object(text)), most=16 * 1024**2, size=len)


def read_object(text: str, constant: Callable[[str], Any] | None = None) -> JsonObject:
    """Returns the JSON object of a definition. Raises InvalidDefinition. `constant`: reads NaN and Infinity."""
    try:
        # Python's reader lets other threads run only while it calls something.
        given = json.loads(text, parse_constant=constant, object_hook=_object)
    except json.JSONDecodeError as error:
        raise InvalidDefinition(f"PipelineDefinition is not JSON (line {error.lineno}, {error.msg.lower()})") from error
    except (ValueError, RecursionError) as error:
        raise InvalidDefinition("PipelineDefinition is nested too deep, or a number has too many digits") from error
    if not isinstance(given, dict):
        raise InvalidDefinition("PipelineDefinition must be a JSON object")
    return given


def _object(members: JsonObject) -> JsonObject:
    pause()
    return members


def _parse(given: JsonObject) -> Definition:
    # The schema does not ask for a Version.
    if given.get("Version", VERSION) != VERSION:
        raise InvalidDefinition(f"Version must be {VERSION}, not {json.dumps(given['Version'])[:200]}")
    parameters = {one.name: one for one in map(_parameter, objects(given, "Parameters"))}
    steps = [*_steps(objects(given, "Steps"))]
    if not steps:
        raise InvalidDefinition("Steps must have a step")
    experiment = given.get("PipelineExperimentConfig") or {}
    if not isinstance(experiment, dict):
        raise InvalidDefinition("PipelineExperimentConfig must be an object")
    found = Definition(parameters, {one.name: one for one in steps}, experiment)
    if len(found.steps) < len(steps):
        raise InvalidDefinition("Two steps have the same name")
    _check_references(found)
    _check_order(found)
    return found


def objects(given: JsonObject, member: str) -> list[JsonObject]:
    """Returns a list of objects, empty if there is none. Raises InvalidDefinition."""
    value = given.get(member) or []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise InvalidDefinition(f"{member} must be a list of objects")
    return value


def _parameter(given: JsonObject) -> Parameter:
    # The schema asks for the Type of every parameter but a String.
    name, kind = given.get("Name"), given.get("Type", "String")
    if not isinstance(name, str) or not isinstance(kind, str) or kind not in _PARAMETER_TYPES:
        raise InvalidDefinition(
            f"A parameter needs a Name and a Type of {', '.join(_PARAMETER_TYPES)}: {json.dumps(given)[:200]}"
        )
    values = given.get("EnumValues") or []
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise InvalidDefinition(f"EnumValues of parameter {name} must be a list of texts")
    default, allowed = given.get("DefaultValue"), tuple(values)
    if default is not None:
        of_type = isinstance(default, _PARAMETER_TYPES[kind]) and isinstance(default, bool) is (kind == "Boolean")
        if not of_type or (allowed and default not in allowed):
            raise InvalidDefinition(f"The DefaultValue of parameter {name} is not one that the parameter can have")
    return Parameter(name, kind, default, allowed)


def _steps(given: Sequence[JsonObject]) -> Iterator[Step]:
    """Yields the steps, each Condition step before those inside it."""
    waiting: list[tuple[JsonObject, tuple[str, bool] | None]] = [(one, None) for one in reversed(given)]
    ordinal = 0
    while waiting:
        ordinal += 1
        pause()
        step = _step(*waiting.pop(), ordinal)
        yield step
        if step.type == "Condition":
            for outcome, member in ((False, "ElseSteps"), (True, "IfSteps")):
                inner = reversed(objects(step.arguments, member))
                waiting += [(one, (step.name, outcome)) for one in inner]


def _step(given: JsonObject, branch: tuple[str, bool] | None, ordinal: int) -> Step:
    name, kind = given.get("Name"), given.get("Type")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidDefinition(f"A step's Name has 1 to 64 letters, digits, - and _, unlike {json.dumps(name)[:200]}")
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
    step = Step(ordinal, name, kind, given, branch)
    _check_members(step)
    return step


def _check_members(step: Step) -> None:
    if step.type == "Condition":
        found = objects(step.arguments, "Conditions")
        if not found:
            raise InvalidDefinition(f"Condition step {step.name} needs Conditions")
        for index, one in enumerate(found):
            for fault in conditions.faults(one, f"Conditions[{index}]"):
                raise InvalidDefinition(f"Step {step.name}: {fault}")
    if step.type == "Callback" and "SqsQueueUrl" not in step.given:
        raise InvalidDefinition(f"Callback step {step.name} needs SqsQueueUrl")
    if step.type == "Lambda" and "FunctionArn" not in step.given:
        raise InvalidDefinition(f"Lambda step {step.name} needs FunctionArn")
    for one in objects(step.given, "PropertyFiles"):
        if not {*PROPERTY_FILE} <= one.keys():
            raise InvalidDefinition(f"Each of PropertyFiles of step {step.name} needs {', '.join(PROPERTY_FILE)}")


def _check_references(definition: Definition) -> None:
    for step in definition.steps.values():
        pause()
        for one in step.references:
            if one.parameter and one.parameter not in definition.parameters:
                raise InvalidDefinition(f"Step {step.name} refers to {one.parameter}, which is not among Parameters")
        for name in sorted(step.needs):
            if name not in definition.steps:
                raise InvalidDefinition(f"Step {step.name} depends on the step {name}, which is not defined")
            if definition.steps[name].type == "Fail":
                # The developer guide, "Fail step": its execution ends the pipeline's.
                raise InvalidDefinition(aws_texts.depends_on_fail(step.name, name))
        for one in step.references:
            if one.property_file and one.property_file not in definition.steps[one.step].property_files:
                raise InvalidDefinition(
                    f"Step {step.name} refers to the property file {one.property_file}, which step {one.step} "
                    "does not have"
                )


def _check_order(definition: Definition) -> None:
    """Raises InvalidDefinition if steps wait for each other."""
    levels = definition.levels
    if len(levels) < len(definition.steps):
        left = sorted(definition.steps.keys() - levels.keys())
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        raise InvalidDefinition(f"These steps wait for each other: {', '.join(left[:_SHOWN])}{more}")
