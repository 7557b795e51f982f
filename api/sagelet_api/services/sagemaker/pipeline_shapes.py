"""What the service model knows of a definition: the members of Arguments, and the properties that a step has.

The types of steps and their properties are those of SDK v2's `sagemaker/workflow/steps.py`. AWS checks Arguments when a
pipeline is created: `Unknown Argument member 'ModelPackageName'.` is in sagemaker-python-sdk's pull request 3472, and
`Expecting start of Json Array.` in its issue 2345.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sagelet_api.protocol.validation import rule_book
from sagelet_engine.base.concurrency import pause
from sagelet_engine.pipelines.definition import Definition, InvalidDefinition, Step
from sagelet_engine.pipelines.expression_rules import is_function
from sagelet_engine.pipelines.expressions import Reference, segments

#: The operation whose request Arguments are.
_REQUESTS: Mapping[str, str] = {
    "Training": "CreateTrainingJob",
    "Processing": "CreateProcessingJob",
    "Tuning": "CreateHyperParameterTuningJob",
    "Model": "CreateModel",
    "RegisterModel": "CreateModelPackage",
}
#: The operations whose answers the properties are.
_ANSWERS: Mapping[str, Sequence[str]] = {
    "Training": ("DescribeTrainingJob",),
    "Processing": ("DescribeProcessingJob",),
    "Tuning": ("DescribeHyperParameterTuningJob", "ListTrainingJobsForHyperParameterTuningJob"),
    "Model": ("DescribeModel",),
    "RegisterModel": ("DescribeModelPackage",),
}


def check_shapes(definition: Definition) -> None:
    """Raises InvalidDefinition, with the step and the place, for what the service model does not have."""
    for step in definition.steps.values():
        pause()
        for fault in _faults(step, definition):
            raise InvalidDefinition(f"Step {step.name}: {fault}")


def _faults(step: Step, definition: Definition) -> Iterator[str]:
    if step.type in _REQUESTS:
        shape = rule_book("sagemaker").input_shape(_REQUESTS[step.type])
        yield from _argument_faults(shape, step.arguments, "Arguments")
    for one in step.references:
        if one.step and not one.property_file and not _has_property(definition.steps[one.step], one):
            yield f"step {one.step} of type {definition.steps[one.step].type} has no property {one.path.lstrip('.')}"


def _argument_faults(shape: Any, value: Any, place: str) -> Iterator[str]:
    if value is None or is_function(value):
        return
    kind = shape.type_name
    if kind in ("structure", "map") and not isinstance(value, dict):
        yield f"{place}: Expecting start of Json Object."
    elif kind == "list" and not isinstance(value, list):
        yield f"{place}: Expecting start of Json Array."
    elif kind == "list":
        for index, one in enumerate(value):
            pause()
            yield from _argument_faults(shape.member, one, f"{place}[{index}]")
    elif kind == "map":
        for name, one in value.items():
            yield from _argument_faults(shape.value, one, f"{place}.{name}")
    elif kind == "structure":
        for name, one in value.items():
            if name in shape.members:
                yield from _argument_faults(shape.members[name], one, f"{place}.{name}")
            else:
                yield f"{place}: Unknown Argument member '{name}'"
    elif isinstance(value, (dict, list)):
        yield f"{place} must be a {kind} or a function"


def _has_property(step: Step, one: Reference) -> bool:
    parts = segments(one.path, one.path)
    if not parts:
        return True
    if step.type == "Condition":
        return parts == ["Outcome"]
    if step.type in ("Callback", "Lambda"):
        return len(parts) == 2 and parts[0] == "OutputParameters" and parts[1] in step.output_names
    book = rule_book("sagemaker")
    return any(_reaches(book.output_shape(answer), parts) for answer in _ANSWERS[step.type])


def _reaches(shape: Any, parts: Sequence[str | int]) -> bool:
    """True if a value of this shape may have something at a path."""
    for part in parts:
        if shape.type_name == "structure" and part in shape.members:
            shape = shape.members[part]
        elif shape.type_name == "list":
            shape = shape.member
        elif shape.type_name == "map" and isinstance(part, str):
            shape = shape.value
        else:
            return False
    return True
