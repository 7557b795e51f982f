"""`.fit(wait=False)` and `.stop()` of the SageMaker SDK v2. Prints one JSON object."""

import json
import sys
import time

import boto3
import sagemaker
from sagemaker.pytorch import PyTorch


def main() -> None:
    session = sagemaker.Session(boto3.Session(), default_bucket="sdk-tests")
    estimator = PyTorch(
        entry_point="train.py",
        source_dir=sys.argv[1],
        instance_count=1,
        instance_type="ml.p3.2xlarge",
        framework_version="1.13.1",
        py_version="py39",
        disable_profiler=True,
        debugger_hook_config=False,
        role="SageMakerRole",
        sagemaker_session=session,
    )
    estimator.fit(wait=False)
    job = estimator.latest_training_job
    deadline = time.monotonic() + 120
    while job.describe()["SecondaryStatus"] != "Training":
        assert time.monotonic() < deadline, job.describe()
        time.sleep(0.2)
    job.stop()
    session.sagemaker_client.get_waiter("training_job_completed_or_stopped").wait(
        TrainingJobName=job.name, WaiterConfig={"Delay": 1, "MaxAttempts": 120}
    )
    print("ANSWER " + json.dumps(job.describe(), default=str))


if __name__ == "__main__":
    main()
