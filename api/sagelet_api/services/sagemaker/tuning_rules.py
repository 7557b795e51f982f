"""What CreateHyperParameterTuningJob requires beyond the service model.

AWS's own texts come from `sagelet_engine.model.aws_texts`. The others are sagelet's.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from sagelet_api.protocol.aws_errors import ValidationException
from sagelet_api.protocol.members import Request
from sagelet_engine.model import aws_texts
from sagelet_engine.model.tuning import OBJECTIVE_PARAMETER, Definition, TuningSpec
from sagelet_engine.tuning import autotune
from sagelet_engine.tuning.children import request_of
from sagelet_engine.tuning.strategies import HYPERBAND, StrategyUnavailable, grid, hyperband, strategy
from sagelet_engine.tuning.strategies.space import InvalidRange, Space, space_of

#: Limits of AWS's page "Parallel limits and quotas" that do not depend on an account.
MAX_DEFINITIONS, MAX_TUNED = 10, 30
#: Of botocore's shape HyperParameters, which a training job has.
MAX_HYPERPARAMETERS = 100
#: Members of the configuration, and what each definition has instead if there are several.
_PER_DEFINITION = {"HyperParameterTuningJobObjective": "TuningObjective", "ParameterRanges": "HyperParameterRanges"}
#: Length of a training job's name that the longest tuning job's name makes.
_LONGEST_NAME = "x" * 45


def check(request: Request, check_child: Callable[[Request], None]) -> None:
    """Refuses a body that passed the service model but cannot become a tuning job.

    `check_child` refuses a CreateTrainingJob body. Raises ValidationException, and what `check_child` raises.
    """
    for problem in _unsupported(request):
        raise ValidationException(problem)
    for problem in _shape_problems(request):
        raise ValidationException(problem)
    spec = TuningSpec.of(request)
    if spec.strategy != "Grid" and not _has_an_end(spec):
        raise ValidationException(
            "Without ResourceLimits.MaxNumberOfTrainingJobs the tuning job would not end; give it, "
            "MaxRuntimeInSeconds or TuningJobCompletionCriteria"
        )
    for one in spec.definitions:
        for problem in _definition_problems(one):
            raise ValidationException(problem)
        space = _space(one)
        for problem in _limit_problems(spec, one, space):
            raise ValidationException(problem)
        check_child(request_of(one, _LONGEST_NAME, space.values([0.5] * len(space.parameters))))


def _has_an_end(spec: TuningSpec) -> bool:
    """True if something ends the search, other than a space without further points."""
    limits = (spec.max_trials, spec.max_runtime_seconds, spec.target, spec.patience)
    return spec.until_convergence or any(one is not None for one in limits)


def settled(request: Request) -> Request:
    """Returns the request with the settings that Autotune chooses, among those that sagelet has."""

    def accepted(chosen: Request) -> bool:
        problems = (*_unsupported(chosen), *_hyperband_problems(chosen["HyperParameterTuningJobConfig"]))
        return not problems

    return autotune.settled(request, accepted)


def _unsupported(request: Request) -> Iterator[str]:
    """Yields problems of members that sagelet does not have as yet. If they were ignored, it would be another job."""
    config = request["HyperParameterTuningJobConfig"]
    try:
        strategy(config["Strategy"])
    except StrategyUnavailable as error:
        yield str(error)


def _shape_problems(request: Request) -> Iterator[str]:
    config = request["HyperParameterTuningJobConfig"]
    several = request.get("TrainingJobDefinitions")
    if (several is None) == ("TrainingJobDefinition" not in request):
        yield "The request must have exactly one of TrainingJobDefinition and TrainingJobDefinitions"
    yield from _hyperband_problems(config)
    if several is None:
        yield from _single_problems(request["TrainingJobDefinition"], config)
    else:
        yield from _several_problems(several, config)


def _hyperband_problems(config: Request) -> Iterator[str]:
    """The rules of botocore's shape HyperParameterTuningJobConfig for the strategy Hyperband."""
    if config["Strategy"] != HYPERBAND:
        if "HyperbandStrategyConfig" in config.get("StrategyConfig", {}):
            yield f"HyperbandStrategyConfig is for the strategy Hyperband, not {config['Strategy']}"
    elif config.get("TrainingJobEarlyStoppingType", "Off") != "Off":
        yield "TrainingJobEarlyStoppingType must be Off to use Hyperband, which stops training jobs early by itself"


def _single_problems(definition: Request, config: Request) -> Iterator[str]:
    if "HyperParameterTuningJobObjective" not in config and "TuningObjective" not in definition:
        yield aws_texts.NO_OBJECTIVE_METRIC
    if "ParameterRanges" not in config and "HyperParameterRanges" not in definition:
        yield "HyperParameterTuningJobConfig.ParameterRanges is required: it has the hyperparameters to tune"


def _several_problems(definitions: list[Request], config: Request) -> Iterator[str]:
    """The rules of botocore's shape HyperParameterTrainingJobDefinition: with several definitions, each has a name, an
    objective and ranges of its own.
    """
    if len(definitions) > MAX_DEFINITIONS:
        yield f"TrainingJobDefinitions can have up to {MAX_DEFINITIONS} definitions"
    names = [one.get("DefinitionName", "") for one in definitions]
    if "" in names or max(Counter(names).values()) > 1:
        yield "Each of TrainingJobDefinitions needs a DefinitionName of its own"
    for member, own in _PER_DEFINITION.items():
        if member in config:
            yield f"With TrainingJobDefinitions, {member} must not be given: each definition has {own}"
        if any(own not in one for one in definitions):
            yield f"Each of TrainingJobDefinitions needs {own}"
    if len({one["TuningObjective"]["Type"] for one in definitions if "TuningObjective" in one}) > 1:
        yield "The Type of TuningObjective must be the same in all TrainingJobDefinitions"


def _definition_problems(one: Definition) -> Iterator[str]:
    given = one.request
    metrics = given["AlgorithmSpecification"].get("MetricDefinitions", [])
    if "AlgorithmName" not in given["AlgorithmSpecification"] and one.objective.metric not in [
        metric["Name"] for metric in metrics
    ]:
        yield aws_texts.NO_OBJECTIVE_METRIC
    if one.ranges.get("AutoParameters"):
        yield "AutoParameters is for Autotune; set Autotune.Mode to Enabled, or give each hyperparameter a range"
    if ("ResourceConfig" in given) == ("HyperParameterTuningResourceConfig" in given):
        yield "A training job definition needs exactly one of ResourceConfig and HyperParameterTuningResourceConfig"
    tuning = given.get("HyperParameterTuningResourceConfig", {})
    if "InstanceConfigs" in tuning and {"InstanceType", "InstanceCount", "VolumeSizeInGB"} & tuning.keys():
        yield (
            "HyperParameterTuningResourceConfig must have either InstanceConfigs or InstanceType, InstanceCount and "
            "VolumeSizeInGB, not both"
        )


def _space(one: Definition) -> Space:
    try:
        space = space_of(one.ranges)
    except InvalidRange as error:
        raise ValidationException(str(error)) from error
    names = {parameter.name for parameter in space.parameters}
    if not names:
        raise ValidationException(
            "At least one hyperparameter must have a range. Autotune gives one to those of AutoParameters whose "
            "ValueHint is a number greater than 0"
        )
    if len(names) > MAX_TUNED:
        raise ValidationException(f"A training job definition can tune up to {MAX_TUNED} hyperparameters")
    if OBJECTIVE_PARAMETER in names:
        raise ValidationException(
            f"The hyperparameter {OBJECTIVE_PARAMETER} has the name of the objective metric; name it otherwise"
        )
    static = one.request.get("StaticHyperParameters", {}).keys() - {OBJECTIVE_PARAMETER}
    if len(names) + len(static) > MAX_HYPERPARAMETERS:
        raise ValidationException(
            f"Each training job would have {len(names) + len(static)} hyperparameters; CreateTrainingJob takes up to "
            f"{MAX_HYPERPARAMETERS}"
        )
    if both := sorted(names & static):
        raise ValidationException(f"The hyperparameter {both[0]} is static and has a range; remove one of them")
    return space


def _limit_problems(spec: TuningSpec, definition: Definition, space: Space) -> Iterator[str]:
    if spec.strategy == HYPERBAND:
        try:
            hyperband.resources(spec.strategy_config, definition.request.get("StaticHyperParameters", {}))
        except hyperband.InvalidResources as error:
            yield str(error)
    if spec.max_trials is not None and spec.max_parallel > spec.max_trials:
        yield (
            f"MaxParallelTrainingJobs {spec.max_parallel} must not be greater than MaxNumberOfTrainingJobs "
            f"{spec.max_trials}"
        )
    # Grid has a rule of its own. Whether AWS adds up the ranges of several definitions is not known.
    if spec.strategy != "Grid" and len(spec.definitions) == 1 and spec.max_trials is not None:
        combinations = space.combinations
        if combinations is not None and spec.max_trials > combinations:
            yield aws_texts.few_combinations(combinations, spec.max_trials)
    if spec.strategy == "Grid":
        try:
            size = grid.size(space)
        except InvalidRange as error:
            yield str(error)
            return
        if len(spec.definitions) == 1 and spec.max_trials not in (None, size):
            # The developer guide, "How hyperparameter tuning works".
            yield (
                f"MaxNumberOfTrainingJobs {spec.max_trials} must be the number of combinations of the grid, {size}; "
                "leave it out"
            )
