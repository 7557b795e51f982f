"""SDK v2's HyperparameterTuner, as its documents use it.

`tuner.py SOURCE_DIRECTORY INSTANCE_TYPE JOBS EARLY_STOPPING`, the last one Auto or Off.
"""

import json
import sys

import boto3
import sagemaker
from sagemaker.pytorch import PyTorch
from sagemaker.tuner import CategoricalParameter, ContinuousParameter, HyperparameterTuner, IntegerParameter

source, instance_type, jobs, early_stopping = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
session = sagemaker.Session(boto3.Session(), default_bucket="sdk-tests")
estimator = PyTorch(
    entry_point="train.py",
    source_dir=source,
    role="arn:aws:iam::123456789012:role/SageMakerRole",
    instance_type=instance_type,
    instance_count=1,
    framework_version="1.13.1",
    py_version="py39",
    hyperparameters={"epochs": 2},
    disable_profiler=True,
    debugger_hook_config=False,
    sagemaker_session=session,
)
tuner = HyperparameterTuner(
    estimator,
    objective_metric_name="loss",
    objective_type="Minimize",
    metric_definitions=[{"Name": "loss", "Regex": r"loss=(\S+)"}],
    hyperparameter_ranges={
        "lr": ContinuousParameter(1e-4, 1e-1, scaling_type="Logarithmic"),
        "bs": IntegerParameter(1, 64),
        "optimizer": CategoricalParameter(["sgd", "adam"]),
    },
    strategy="Random",
    random_seed=7,
    max_jobs=jobs,
    max_parallel_jobs=2,
    early_stopping_type=early_stopping,
    base_tuning_job_name="tune",
    tags=[{"Key": "team", "Value": "vision"}],
)
tuner.fit(wait=False)
tuner.wait()
name = tuner.latest_tuning_job.name
frame = tuner.analytics().dataframe()
attached = HyperparameterTuner.attach(name, sagemaker_session=session)
attached.wait()
best = attached.best_estimator()
print(
    "ANSWER",
    json.dumps(
        {
            "name": name,
            "best": tuner.best_training_job(),
            "attached_best": attached.best_training_job(),
            "attached": {
                "strategy": attached.strategy,
                "early_stopping_type": attached.early_stopping_type,
                "ranges": sorted(attached.hyperparameter_ranges()),
                "max_jobs": attached.max_jobs,
                "rows": len(attached.analytics().dataframe()),
            },
            "best_hyperparameters": {key: str(value) for key, value in best.hyperparameters().items()},
            "model_data": best.model_data,
            "status": tuner.describe()["HyperParameterTuningJobStatus"],
            "rows": json.loads(frame.to_json(orient="records")),
        }
    ),
)
