"""Warm start and Autotune of SDK v2's HyperparameterTuner. `warm_start.py SOURCE_DIRECTORY`."""

import json
import sys
import time

import boto3
import sagemaker
from sagemaker.pytorch import PyTorch
from sagemaker.tuner import (
    ContinuousParameter,
    HyperparameterTuner,
    IntegerParameter,
    WarmStartConfig,
    WarmStartTypes,
)

session = sagemaker.Session(boto3.Session(), default_bucket="sdk-tests")
METRICS = [{"Name": "loss", "Regex": r"loss=(\S+)"}]
LIMITS = {"max_jobs": 2, "max_parallel_jobs": 1}


def estimator(**hyperparameters: object) -> PyTorch:
    return PyTorch(
        entry_point="train.py",
        source_dir=sys.argv[1],
        role="arn:aws:iam::123456789012:role/SageMakerRole",
        instance_type="ml.m5.large",
        instance_count=1,
        framework_version="1.13.1",
        py_version="py39",
        hyperparameters=hyperparameters,
        disable_profiler=True,
        debugger_hook_config=False,
        sagemaker_session=session,
    )


def tuner(trained: PyTorch, ranges: dict[str, object] | None, **more: object) -> HyperparameterTuner:
    return HyperparameterTuner(
        trained,
        objective_metric_name="loss",
        objective_type="Minimize",
        metric_definitions=METRICS,
        hyperparameter_ranges=ranges,
        strategy="Random",
        random_seed=7,
        **LIMITS,
        **more,
    )


def run(tuning: HyperparameterTuner, name: str) -> None:
    """Does what `fit(wait=True)` does. That sleeps for five seconds between two looks."""
    tuning.fit(wait=False, job_name=name)
    while tuning.describe()["HyperParameterTuningJobStatus"] == "InProgress":
        time.sleep(0.1)


ranges = {"lr": ContinuousParameter(1e-4, 1e-1), "bs": IntegerParameter(1, 64)}
parent = tuner(estimator(epochs=2), ranges, base_tuning_job_name="parent")
run(parent, "parent")
identical = parent.identical_dataset_and_algorithm_tuner()
# The SDK does not pass them on, and AWS refuses a tuning job without them.
identical.metric_definitions = METRICS
run(identical, "identical")
transfer = parent.transfer_learning_tuner(
    additional_parents={identical.latest_tuning_job.name}, estimator=estimator(epochs=2)
)
transfer.metric_definitions = METRICS
run(transfer, "transfer")
named = WarmStartConfig(WarmStartTypes.TRANSFER_LEARNING, parents={parent.latest_tuning_job.name})
# bs was tuned by the parent, and epochs was static.
other = tuner(
    estimator(bs=8),
    {"lr": ContinuousParameter(1e-4, 1e-1), "epochs": IntegerParameter(1, 4)},
    base_tuning_job_name="other",
    warm_start_config=named,
)
run(other, "other")
auto = tuner(
    estimator(epochs=2, lr=0.01, optimizer="sgd"),
    None,
    base_tuning_job_name="auto",
    autotune=True,
    hyperparameters_to_keep_static=["epochs"],
)
run(auto, "auto")
jobs = {"parent": parent, "identical": identical, "transfer": transfer, "other": other, "auto": auto}
print(
    "ANSWER",
    json.dumps({name: json.loads(json.dumps(one.describe(), default=str)) for name, one in jobs.items()}),
)
