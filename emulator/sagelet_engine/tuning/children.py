"""The CreateTrainingJob body of a trial."""

from typing import Any

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.tuning import OBJECTIVE_PARAMETER, Definition, Trial, TuningJob

#: Members of a training job definition that a training job has under the same name.
_SAME = (
    "RoleArn",
    "InputDataConfig",
    "VpcConfig",
    "OutputDataConfig",
    "StoppingCondition",
    "EnableNetworkIsolation",
    "EnableInterContainerTrafficEncryption",
    "EnableManagedSpotTraining",
    "RetryStrategy",
    "Environment",
)


def static_parameters(definition: Definition) -> dict[str, str]:
    """Returns StaticHyperParameters as AWS describes them: with the name of the objective metric."""
    return {**definition.static, OBJECTIVE_PARAMETER: definition.objective.metric}


def child_request(job: TuningJob, trial: Trial) -> JsonObject:
    """Returns the body of the trial's training job, as a client would send it."""
    definition = job.spec.definition(trial.definition)
    return request_of(definition, trial.name, trial.values)


def request_of(definition: Definition, name: str, values: dict[str, str] | Any) -> JsonObject:
    """Returns the body of a training job with this name and these hyperparameters."""
    given = definition.request
    body: JsonObject = {
        "TrainingJobName": name,
        "HyperParameters": {**static_parameters(definition), **values},
        "AlgorithmSpecification": dict(given["AlgorithmSpecification"]),
        **{member: given[member] for member in _SAME if member in given},
    }
    if (instances := resources(given)) is not None:
        body["ResourceConfig"] = instances
    if "CheckpointConfig" in given:
        # Trials must not restore each other's checkpoints.
        place = given["CheckpointConfig"]
        body["CheckpointConfig"] = {**place, "S3Uri": f"{place['S3Uri'].rstrip('/')}/{name}"}
    return body


def resources(given: Any) -> JsonObject | None:
    """Returns ResourceConfig. HyperParameterTuningResourceConfig lists instances by priority, and the first has room
    here as well as any other.
    """
    tuning = given.get("HyperParameterTuningResourceConfig")
    if tuning is None:
        plain: JsonObject | None = given.get("ResourceConfig")
        return plain
    config = {name: value for name, value in tuning.items() if name not in ("AllocationStrategy", "InstanceConfigs")}
    first = tuning.get("InstanceConfigs", [{}])[0]
    return {**config, **first}
