"""Refuses a new definition for what would fail when it runs.

`parse` reads what is stored already, so these rules are apart from it. Their sources are what SDK v2 writes
(`sagemaker/workflow`) and the JSON schema of definitions that the page "Pipelines overview" of the developer guide
links. What neither of them forbids is not refused.
"""

from collections.abc import Iterator
from typing import Any

from sagelet_engine.base.concurrency import pause
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.pipelines import caching, outputs, retrying
from sagelet_engine.pipelines.definition import (
    PROPERTY_FILE,
    Definition,
    InvalidDefinition,
    Step,
    objects,
    parse_object,
    read_object,
)
from sagelet_engine.pipelines.execution_variables import JOB_NAMES, VARIABLES
from sagelet_engine.pipelines.expression_rules import faults, operand_faults
from sagelet_engine.pipelines.expressions import references
from sagelet_engine.pipelines.malformed import DEEPEST, depth_is_allowed

#: Steps of a definition, with those inside Condition steps. AWS's own limit is a quota, which can be raised.
MOST_STEPS = 1_000
#: Pairs of steps of which one waits for the other.
MOST_NEEDS = 20_000
_EXPERIMENT = ("ExperimentName", "TrialName")
#: One of these is what a model is (CreateModel).
_MODEL = ("PrimaryContainer", "Containers", "InferenceExecutionConfig")


def check(text: str) -> Definition:
    """Returns a new definition. Raises InvalidDefinition for what it must not have."""
    given = read_object(text, _no_number)
    if not depth_is_allowed(given):
        raise InvalidDefinition(f"PipelineDefinition is nested more than {DEEPEST} levels deep")
    _check_number(given)
    definition = parse_object(given)
    _check_needs(definition)
    if len(definition.parameters) < len(objects(given, "Parameters")):
        raise InvalidDefinition("Two parameters have the same name")
    for fault in _experiment(definition.experiment):
        raise InvalidDefinition(fault)
    for step in definition.steps.values():
        pause()
        for fault in _step(step, definition):
            raise InvalidDefinition(f"Step {step.name}: {fault}")
        try:
            retrying.check(step.name, objects(step.given, "RetryPolicies"))
        except retrying.InvalidPolicy as error:
            raise InvalidDefinition(str(error)) from error
    return definition


def _check_number(given: JsonObject) -> None:
    """Raises InvalidDefinition for too many steps. Counts them before they are read, which takes longer."""
    number, waiting = 0, [objects(given, "Steps")]
    while waiting:
        steps = waiting.pop()
        number += len(steps)
        for one in steps:
            arguments = one.get("Arguments")
            if one.get("Type") == "Condition" and isinstance(arguments, dict):
                waiting += [objects(arguments, member) for member in ("IfSteps", "ElseSteps")]
    if number > MOST_STEPS:
        raise InvalidDefinition(
            f"Steps has {number} steps, and sagelet runs at most {MOST_STEPS} of a pipeline: "
            "divide them among several pipelines"
        )


def _check_needs(definition: Definition) -> None:
    needs = sum(len(step.needs) for step in definition.steps.values())
    if needs > MOST_NEEDS:
        raise InvalidDefinition(
            f"The steps wait for {needs} others in all, and may for at most {MOST_NEEDS}: a step that waits for "
            "another need not name what that one waits for"
        )


def function_faults(step: Step) -> Iterator[str]:
    """Yields what is wrong with the functions of a step. Its conditions were checked when the step was read."""
    for place, part in step.expressions().items():
        if place != "Conditions":
            yield from faults(part, place)


def _no_number(name: str) -> Any:
    raise InvalidDefinition(f"PipelineDefinition is not JSON: it has {name}, which is not a number of JSON")


def _experiment(config: JsonObject) -> Iterator[str]:
    for name in config.keys() - {*_EXPERIMENT}:
        yield f"PipelineExperimentConfig has no member {name}: it has {', '.join(_EXPERIMENT)}"
    for name, value in config.items():
        yield from operand_faults(value, f"PipelineExperimentConfig.{name}")
        for one in references(value):
            if one.experiment:
                yield f"PipelineExperimentConfig.{name} refers to PipelineExperimentConfig itself"


def _step(step: Step, definition: Definition) -> Iterator[str]:
    yield from function_faults(step)
    yield from _reference_faults(step, definition)
    yield from _cache_faults(step.given.get("CacheConfig"))
    if step.type == "Model" and not step.arguments.keys() & {*_MODEL}:
        yield f"Arguments needs one of {', '.join(_MODEL)}"
    if step.type in ("Callback", "Lambda"):
        yield from _output_faults(step)
    for member in ("DisplayName", "Description"):
        if not isinstance(step.given.get(member) or "", str):
            yield f"{member} must be a text"
    for one in objects(step.given, "PropertyFiles"):
        for member in PROPERTY_FILE:
            if not isinstance(one[member], str):
                yield f"{member} in PropertyFiles must be a text"


def _reference_faults(step: Step, definition: Definition) -> Iterator[str]:
    for one in step.references:
        if one.execution and one.execution not in (*VARIABLES, *JOB_NAMES):
            known = ", ".join((*VARIABLES, *JOB_NAMES))
            yield f"Execution.{one.execution} is not an execution variable. There are {known}"
        if one.experiment and definition.experiment.get(one.experiment) is None:
            yield f"it refers to {one.experiment}, which PipelineExperimentConfig does not have"


def _cache_faults(config: Any) -> Iterator[str]:
    if config is None:
        return
    if not isinstance(config, dict):
        yield "CacheConfig must be an object with Enabled and ExpireAfter"
        return
    if not isinstance(config.get("Enabled", False), bool):
        yield "CacheConfig.Enabled must be true or false"
    after = config.get("ExpireAfter")
    if after is not None and (not isinstance(after, str) or caching.duration_ms(after) is None):
        yield "CacheConfig.ExpireAfter must be an ISO 8601 duration, such as P30D or PT12H"


def _output_faults(step: Step) -> Iterator[str]:
    member = "SqsQueueUrl" if step.type == "Callback" else "FunctionArn"
    yield from operand_faults(step.given[member], member)
    for one in objects(step.given, "OutputParameters"):
        if not isinstance(one.get("OutputName"), str):
            yield "each of OutputParameters needs OutputName, a text"
        if one.get("OutputType", "String") not in outputs.TYPES:
            yield f"OutputType of each of OutputParameters is one of {', '.join(outputs.TYPES)}"
