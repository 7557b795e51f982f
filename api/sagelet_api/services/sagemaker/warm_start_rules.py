"""What a tuning job with WarmStartConfig must have in common with its parents.

The rules are in the developer guide, "Run a Warm Start Hyperparameter Tuning Job". AWS's own texts come from
`sagelet_engine.model.aws_texts`. The others are sagelet's.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sagelet_api.protocol.aws_errors import ValidationException
from sagelet_api.protocol.members import Request
from sagelet_engine.base.errors import OrchestrationNotFound
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model import aws_texts
from sagelet_engine.model.tuning import IDENTICAL, OBJECTIVE_PARAMETER, Definition, TuningSpec, WarmStart
from sagelet_engine.tuning.warm_start import ParentJob, counterparts, take_over

#: Changes from tunable to static values, and of static values.
MAX_CHANGES = 10
#: Members of a definition that may differ from the parent's, in the order of AWS's text. It is from 2023, before
#: HyperParameterTuningResourceConfig, which stands for ResourceConfig.
_FREE = (
    "AlgorithmSpecification",
    "InputDataConfig",
    "OutputDataConfig",
    "StaticHyperParameters",
    "RoleArn",
    "ResourceConfig",
    "StoppingCondition",
    "VpcConfig",
    "EnableManagedSpotTraining",
    "CheckpointConfig",
)
#: These have rules of their own.
_APART = frozenset({"DefinitionName", "TuningObjective", "HyperParameterRanges", "HyperParameterTuningResourceConfig"})


def warm_start(request: Request, parent: Callable[[str], ParentJob]) -> WarmStart | None:
    """Returns what the job of a valid request takes over, or None if it has no WarmStartConfig.

    `parent` returns a tuning job by its name, or raises OrchestrationNotFound. Raises ValidationException.
    """
    config = request.get("WarmStartConfig")
    if config is None:
        return None
    names = [one.get("HyperParameterTuningJobName", "") for one in config["ParentHyperParameterTuningJobs"]]
    for problem in _name_problems(names, request):
        raise ValidationException(problem)
    parents = [_ended(name, parent) for name in names]
    spec = TuningSpec.of(request)
    for each in parents:
        for problem in _problems(spec, each, identical=config["WarmStartType"] == IDENTICAL):
            raise ValidationException(problem)
    return take_over(spec, parents)


def _name_problems(names: list[str], request: Request) -> Iterator[str]:
    if "" in names:
        yield "Each of ParentHyperParameterTuningJobs needs HyperParameterTuningJobName"
    if len({name.lower() for name in names}) < len(names):
        yield "ParentHyperParameterTuningJobs names a tuning job twice; name each parent once"
    if request["HyperParameterTuningJobConfig"]["Strategy"] == "Grid":
        yield "The strategy Grid tries every combination and learns from no parent; leave WarmStartConfig out"


def _ended(name: str, parent: Callable[[str], ParentJob]) -> ParentJob:
    """Returns a parent. Raises ValidationException if it is missing or has not ended."""
    try:
        found = parent(name)
    except OrchestrationNotFound as error:
        raise ValidationException(aws_texts.no_tuning_job(name)) from error
    if not found.job.terminal:
        raise ValidationException(
            f"The parent tuning job {name} is in status {found.job.status.value}; a parent must be Completed, Stopped "
            "or Failed. Wait for it, or stop it"
        )
    return found


def _problems(spec: TuningSpec, parent: ParentJob, *, identical: bool) -> Iterator[str]:
    where = parent.job.key.name
    for one, before in counterparts(spec, parent.job.spec):
        if before is None:
            yield f"The parent tuning job {where} has no TrainingJobDefinition {one.name}"
            return
        if one.objective != before.objective:
            yield (
                f"The objective metric must be that of the parent tuning job {where}: "
                f"{before.objective.type} {before.objective.metric}"
            )
        yield from _member_problems(one, before, identical=identical)
        yield from _hyperparameter_problems(one, before, where)


def _member_problems(one: Definition, before: Definition, *, identical: bool) -> Iterator[str]:
    new, old = one.request, before.request
    if identical:
        if _image(new) != _image(old):
            yield (
                "With IdenticalDataAndAlgorithm the training image must be that of the parent tuning job; use "
                "TransferLearning for another one"
            )
        if _data(new) != _data(old):
            yield (
                "With IdenticalDataAndAlgorithm the input data must be those of the parent tuning job; use "
                "TransferLearning for others"
            )
    # False and a missing member are the same.
    fixed = (new.keys() | old.keys()) - {*_FREE, *_APART}
    if any((new.get(name) or None) != (old.get(name) or None) for name in fixed):
        yield aws_texts.fixed_members(f"{name[0].lower()}{name[1:]}" for name in _FREE)


def _image(definition: Mapping[str, Any]) -> tuple[Any, Any]:
    algorithm = definition["AlgorithmSpecification"]
    return algorithm.get("TrainingImage"), algorithm.get("AlgorithmName")


def _data(definition: Mapping[str, Any]) -> JsonObject:
    return {channel["ChannelName"]: channel["DataSource"] for channel in definition.get("InputDataConfig", ())}


def _hyperparameter_problems(one: Definition, before: Definition, where: str) -> Iterator[str]:
    new, old = _tunable(one), _tunable(before)
    if new.keys() | _static(one).keys() != old.keys() | _static(before).keys():
        yield aws_texts.OTHER_HYPERPARAMETERS
    for name in sorted(new.keys() & old.keys()):
        if new[name][0] != old[name][0]:
            yield (
                f"The hyperparameter {name} is {new[name][0]}, and {old[name][0]} in the parent tuning job {where}; "
                "its type must not change"
            )
    changes = _changes(one, before)
    if changes > MAX_CHANGES:
        yield (
            f"The static hyperparameters differ from those of the parent tuning job {where} by {changes} changes; up "
            f"to {MAX_CHANGES} are allowed. Each value of a categorical hyperparameter that becomes static counts, and "
            "both values of a static one that changes"
        )


def _changes(one: Definition, before: Definition) -> int:
    """Counts as the guide does: each value of a categorical parameter that becomes static, 1 for another one, and the
    old and the new value of a static one.
    """
    static, tunable, was = _static(one), _tunable(before), _static(before)
    fixed = sum(tunable[name][1] for name in static.keys() & tunable.keys())
    return fixed + 2 * sum(static[name] != was[name] for name in static.keys() & was.keys())


def _static(one: Definition) -> dict[str, str]:
    given = one.request.get("StaticHyperParameters", {})
    return {name: value for name, value in given.items() if name != OBJECTIVE_PARAMETER}


def _tunable(one: Definition) -> dict[str, tuple[str, int]]:
    """Returns the type of each hyperparameter with a range, and the number of changes if it becomes static."""
    kinds = {
        "integer": one.ranges.get("IntegerParameterRanges", ()),
        "continuous": one.ranges.get("ContinuousParameterRanges", ()),
    }
    numbers = {each["Name"]: (kind, 1) for kind, ranges in kinds.items() for each in ranges}
    texts = {
        each["Name"]: ("categorical", len(each["Values"])) for each in one.ranges.get("CategoricalParameterRanges", ())
    }
    return {**numbers, **texts}
