"""Processors of the SageMaker SDK v2. Prints one JSON object.

`processors.py DIRECTORY`: of `prepare.py`.
"""

import json
import sys
import time
from pathlib import Path

import boto3
import sagemaker
from sagemaker.processing import ProcessingInput, ProcessingOutput
from sagemaker.pytorch.processing import PyTorchProcessor
from sagemaker.sklearn.processing import SKLearnProcessor

COMMON = {"role": "SageMakerRole", "instance_count": 1, "instance_type": "ml.m5.xlarge"}


def main() -> None:
    directory = Path(sys.argv[1])
    session = sagemaker.Session(boto3.Session(), default_bucket="sdk-tests")
    raw = session.upload_string_as_file_body("1,2\n3,4\n", session.default_bucket(), "raw/rows.csv")
    inputs = [ProcessingInput(source=raw, destination="/opt/ml/processing/input/raw")]
    outputs = [ProcessingOutput(output_name="sum", source="/opt/ml/processing/output/sum")]
    framework = PyTorchProcessor(framework_version="1.13.1", py_version="py39", sagemaker_session=session, **COMMON)
    framework.run(
        code="prepare.py", source_dir=str(directory), inputs=inputs, outputs=outputs, arguments=["PyTorch"], wait=False
    )
    learner = SKLearnProcessor(framework_version="1.2-1", sagemaker_session=session, **COMMON)
    learner.run(
        code=str(directory / "prepare.py"), inputs=inputs, outputs=outputs, arguments=["scikit-learn"], logs=True
    )
    deadline = time.monotonic() + 120
    while framework.latest_job.describe()["ProcessingJobStatus"] == "InProgress":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    jobs = [framework.latest_job.describe(), learner.latest_job.describe()]
    print("ANSWER " + json.dumps(jobs, default=str))


if __name__ == "__main__":
    main()
