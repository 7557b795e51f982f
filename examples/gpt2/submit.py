"""Submits one training three times with the SageMaker Python SDK v2: compiled, native, and compiled once more.

An ordinary client: it finds sagelet through AWS_ENDPOINT_URL, as it would find AWS without it. `make demo` starts a
server and runs this; to run it against a server of your own:

    AWS_ENDPOINT_URL=http://localhost:4599 python examples/gpt2/submit.py
"""

import argparse
import logging
import os
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

# Before the SDK is imported: a region and keys (any will do), no telemetry to AWS after each fit(), and less talk.
logging.disable(logging.INFO)
os.environ.setdefault("SAGEMAKER_SUPPRESS_V2_WARNING", "1")
os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
os.environ.setdefault("AWS_ACCESS_KEY_ID", "123456789012")
os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "sagelet")
os.environ.setdefault("SAGEMAKER_USER_CONFIG_OVERRIDE", str(Path(__file__).with_name("sagemaker-config.yaml")))

import boto3
import sagemaker
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig

HERE = Path(__file__).parent
ROLE = "arn:aws:iam::123456789012:role/SageMakerRole"
BUCKET = "sagelet-demo"
TEXT_BYTES = 2_000_000
NUMBER = "([0-9.e+-]+)"
METRICS = [
    {"Name": "train_loss", "Regex": f"'loss': {NUMBER}"},
    {"Name": "train_samples_per_second", "Regex": f"'train_samples_per_second': {NUMBER}"},
]
#: What a compiled job's Environment has, by compiler. XLA traces the model once, in place of at each step.
ENVIRONMENTS = {"xla": {"SAGELET_XLA_TRACING": "once"}, "inductor": {"SAGELET_COMPILER": "inductor"}}


def standard_library(directory: str) -> str:
    """Real text that every machine has: the sources of Python's standard library."""
    text = Path(directory, "stdlib.txt")
    with text.open("wb") as file:
        for source in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
            if file.tell() < TEXT_BYTES:
                file.write(source.read_bytes())
    return str(text)


def train(session: sagemaker.Session, inputs: str, name: str, steps: int, **options: Any) -> dict[str, Any]:
    """Runs one job to its end and returns what DescribeTrainingJob says of it."""
    estimator = PyTorch(
        entry_point="train.py",
        source_dir=str(HERE / "scripts"),
        role=ROLE,
        sagemaker_session=session,
        instance_count=1,
        instance_type="ml.p3.2xlarge",
        framework_version="1.13.1",
        py_version="py39",
        hyperparameters={"n_gpus": 1, "batch_size": 8, "max_steps": steps},
        metric_definitions=METRICS,
        disable_profiler=True,
        debugger_hook_config=False,
        base_job_name=f"gpt2-{name}",
        **options,
    )
    estimator.fit({"train": inputs}, wait=False)
    job = estimator.latest_training_job
    print(f"{name}: {job.name} trains in {estimator.training_image_uri()}", flush=True)
    waiter = session.sagemaker_client.get_waiter("training_job_completed_or_stopped")
    waiter.wait(TrainingJobName=job.name, WaiterConfig={"Delay": 1, "MaxAttempts": 1800})
    return job.describe()


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a GPT-2 compiled, natively, and compiled once more.")
    parser.add_argument("--compiler", choices=ENVIRONMENTS, default="xla")
    parser.add_argument("--steps", type=int, default=80)
    options = parser.parse_args()
    compiled = {"compiler_config": TrainingCompilerConfig(), "environment": ENVIRONMENTS[options.compiler]}
    session = sagemaker.Session(boto3.Session(), default_bucket=BUCKET)
    with tempfile.TemporaryDirectory() as directory:
        inputs = session.upload_data(standard_library(directory), key_prefix="gpt2/train")
    # The native job is between the two compiled ones, so that a machine that gets slower meanwhile favours neither.
    jobs = [
        train(session, inputs, name, options.steps, **more)
        for name, more in (("compiled", compiled), ("native", {}), ("again", compiled))
    ]
    for job in jobs:
        name, status, seconds = (job[key] for key in ("TrainingJobName", "TrainingJobStatus", "BillableTimeInSeconds"))
        print(f"{name}: {status}, billable {seconds} s, {job['ModelArtifacts']['S3ModelArtifacts']}")


if __name__ == "__main__":
    main()
