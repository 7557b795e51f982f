"""The HyperparameterTuner of SDK v3, as its documents use it. `tuner_v3.py SOURCE_DIRECTORY INSTANCE_TYPE JOBS`.

Prints one line `ANSWER {json}`.
"""

import json
import sys

from sagemaker.core.helper.session_helper import Session
from sagemaker.core.parameter import CategoricalParameter, ContinuousParameter, IntegerParameter
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, SourceCode
from sagemaker.train.tuner import HyperparameterTuner

source, instance_type, jobs = sys.argv[1], sys.argv[2], int(sys.argv[3])
session = Session(default_bucket="sdk-tests")
trainer = ModelTrainer(
    training_image="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.13.1-gpu-py39",
    source_code=SourceCode(source_dir=source, entry_script="train.py"),
    compute=Compute(instance_type=instance_type, instance_count=1),
    hyperparameters={"epochs": 2},
    role="arn:aws:iam::123456789012:role/SageMakerRole",
    base_job_name="tune-v3",
    sagemaker_session=session,
)
tuner = HyperparameterTuner(
    trainer,
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
    early_stopping_type="Off",
    base_tuning_job_name="tune-v3",
    tags=[{"Key": "team", "Value": "vision"}],
)
tuner.tune(wait=True)
job = tuner.describe()
frame = tuner.analytics().dataframe()
best = job.best_training_job
print(
    "ANSWER",
    json.dumps(
        {
            "name": job.hyper_parameter_tuning_job_name,
            "best": tuner.best_training_job(),
            "best_hyperparameters": best.tuned_hyper_parameters,
            "status": job.hyper_parameter_tuning_job_status,
            "rows": json.loads(frame.to_json(orient="records")),
        }
    ),
)
