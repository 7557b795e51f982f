"""`.fit(wait=True, logs="All")` of the SageMaker SDK v2, with what must not be shown. Prints one JSON object."""

import json
import sys

import boto3
import sagemaker
from sagemaker.pytorch import PyTorch


def main() -> None:
    source, marker = sys.argv[1:]
    session = sagemaker.Session(boto3.Session(), default_bucket="sdk-tests")
    estimator = PyTorch(
        entry_point="train.py",
        source_dir=source,
        instance_count=1,
        instance_type="ml.p3.2xlarge",
        framework_version="1.13.1",
        py_version="py39",
        disable_profiler=True,
        debugger_hook_config=False,
        role="arn:aws:iam::123456789012:role/SageMakerRole",
        environment={"MY_PASSWORD": marker},
        hyperparameters={"token": marker},
        sagemaker_session=session,
    )
    estimator.fit(wait=True, logs="All")
    print("ANSWER " + json.dumps(estimator.latest_training_job.describe(), default=str))


if __name__ == "__main__":
    main()
