"""Requests of tuning jobs."""

from typing import Any

from support.server import ROLE
from support.world import IMAGE

RANGES = {
    "ContinuousParameterRanges": [
        {"Name": "lr", "MinValue": "0.0001", "MaxValue": "0.1", "ScalingType": "Logarithmic"}
    ],
    "IntegerParameterRanges": [{"Name": "bs", "MinValue": "1", "MaxValue": "64"}],
}
METRICS = [{"Name": "loss", "Regex": r"loss=(\S+)"}]


def definition(**changes: Any) -> dict[str, Any]:
    """Returns a training job definition. `changes` replace members of it."""
    return {
        "AlgorithmSpecification": {
            "TrainingImage": IMAGE,
            "TrainingInputMode": "File",
            "MetricDefinitions": METRICS,
        },
        "RoleArn": ROLE,
        "OutputDataConfig": {"S3OutputPath": "s3://b/out"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 7200},
        "StaticHyperParameters": {"epochs": "2"},
        **changes,
    }


def tuning_request(name: str, *, job: dict[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    """Returns a CreateHyperParameterTuningJob body: 6 trials, 2 at a time, that minimize `loss`.

    `config` replaces members of HyperParameterTuningJobConfig, `job` the definition.
    """
    return {
        "HyperParameterTuningJobName": name,
        "HyperParameterTuningJobConfig": {
            "Strategy": "Random",
            "HyperParameterTuningJobObjective": {"Type": "Minimize", "MetricName": "loss"},
            "ResourceLimits": {"MaxNumberOfTrainingJobs": 6, "MaxParallelTrainingJobs": 2},
            "ParameterRanges": RANGES,
            "RandomSeed": 3,
            **config,
        },
        "TrainingJobDefinition": job or definition(),
    }
