"""Submits a pair of this directory as two compiled jobs and prints what the doctor says of each: `submit.py NAME`."""

import argparse
import logging
from contextlib import suppress
from pathlib import Path

logging.disable(logging.INFO)

import boto3
import sagemaker
from botocore.exceptions import WaiterError
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig

PAIRS = {path.name.removesuffix("_wrong.py") for path in Path(__file__).parent.glob("*_wrong.py")}
NAMES = sorted(PAIRS - {"stall"})  # Its wrong one never ends.
WORKERS = {"instance_type": "ml.p3.8xlarge", "distribution": {"pytorchxla": {"enabled": True}}}

parser = argparse.ArgumentParser()
parser.add_argument("name", choices=NAMES)
name = parser.parse_args().name

session = sagemaker.Session()
jobs = {}
for side in ("wrong", "right"):
    estimator = PyTorch(
        entry_point=f"{name}_{side}.py",
        instance_count=1,
        framework_version="1.13.1",
        py_version="py39",
        compiler_config=TrainingCompilerConfig(),
        disable_profiler=True,
        debugger_hook_config=False,
        role=sagemaker.get_execution_role(),
        sagemaker_session=session,
        base_job_name=f"{name}-{side}".replace("_", "-"),
        # What workers do wrong together takes several of them.
        **(WORKERS if name == "gradients" else {"instance_type": "ml.p3.2xlarge"}),
    )
    estimator.fit(wait=False)
    jobs[side] = estimator.latest_training_job.name

waiter = session.sagemaker_client.get_waiter("training_job_completed_or_stopped")
logs = boto3.client("logs")
for side, job in jobs.items():
    with suppress(WaiterError):  # Some of the wrong ones have to fail; the finding says why.
        waiter.wait(TrainingJobName=job, WaiterConfig={"Delay": 1, "MaxAttempts": 1800})
    print(f"\n{side}: {job} {session.describe_training_job(job)['TrainingJobStatus']}")
    found = logs.filter_log_events(
        logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=f"{job}/", filterPattern='"sagelet doctor:"'
    )
    for event in found["events"]:
        print(f"  {event['message'].removeprefix('sagelet doctor: ')}")
