"""Thousands of jobs that have ended, in a data directory that no server has yet, and as requests that make them."""

import sqlite3
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sagelet_engine.model import lifecycle, training
from sagelet_engine.model.job import JobKey, SecondaryStatus
from sagelet_engine.model.log_events import LogEvent
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.store.jobs import Store
from support.server import ACCOUNT, COMPILED, ROLE

REGION = "us-east-1"
#: Milliseconds: jobs are an hour apart.
BEGIN_MS, HOUR_MS = 1_760_000_000_000, 3_600_000
LIFE = (SecondaryStatus.DOWNLOADING, SecondaryStatus.TRAINING, SecondaryStatus.UPLOADING, SecondaryStatus.COMPLETED)
TAGS = {"project": "bench", "owner": "somebody"}


def name(number: int) -> str:
    return f"job-{number:06}"


def body(job_name: str, **resources: Any) -> dict[str, Any]:
    """A CreateTrainingJob body, of a compiled GPT-2 as the SDK sends it."""
    return {
        "TrainingJobName": job_name,
        "AlgorithmSpecification": {
            "TrainingImage": COMPILED,
            "TrainingInputMode": "File",
            "MetricDefinitions": [{"Name": "loss", "Regex": "'loss': ([0-9.]+)"}],
        },
        "RoleArn": ROLE,
        "OutputDataConfig": {"S3OutputPath": "s3://models/out"},
        "ResourceConfig": {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30, **resources},
        "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
        "HyperParameters": {
            "sagemaker_program": '"train.py"',
            "sagemaker_submit_directory": '"s3://models/source/sourcedir.tar.gz"',
            "sagemaker_training_compiler_enabled": "true",
            "epochs": "3",
            "train_batch_size": "32",
            "learning_rate": "5e-05",
        },
        "Environment": {"TOKENIZERS_PARALLELISM": "false"},
    }


class _Unflushed(Store):
    """Commits without a flush: no client waits for these writes."""

    def _write(self, durable: bool = False) -> AbstractContextManager[sqlite3.Connection]:
        return super()._write(durable=False)


def fill(data: Path, count: int) -> None:
    """Inserts completed jobs, each with two tags, a log and a metric."""
    data.mkdir(parents=True, exist_ok=True)
    store = _Unflushed(data / "sagelet.db")
    for number in range(count):
        job = _completed(name(number), BEGIN_MS + number * HOUR_MS, number % 5)
        store.insert(job)
        stream = store.open_stream(job, "algo-1", f"{job.key.name}/algo-1-{job.created_ms // 1000}", job.created_ms)
        event, point = LogEvent(job.created_ms, "{'loss': 2.5}"), MetricPoint("loss", 2.5, job.created_ms)
        store.append_output(stream, [event], "end", [point], job.created_ms)
    # These statuses must not be sent as events.
    store.drop_noted_statuses(2**62)
    store.close()


def take_the_place(data: Path, now_ms: int) -> None:
    """Makes a warm pool of an hour, of another instance type. It takes the one place of `--max-jobs 1`: jobs queue."""
    store = _Unflushed(data / "sagelet.db")
    store.insert(_completed("pool", now_ms, 1, InstanceType="ml.m5.large", KeepAlivePeriodInSeconds=3600))
    store.drop_noted_statuses(2**62)
    store.close()


def _completed(job_name: str, created_ms: int, seconds: int, **resources: Any) -> TrainingJob:
    key = JobKey(ACCOUNT, REGION, job_name)
    job = training.create(key, f"id-{job_name}", body(job_name, **resources), TAGS, created_ms)
    for step, status in enumerate(LIFE, start=1):
        job = lifecycle.advance(job, status, created_ms + 1000 * step * seconds, placed_ms=created_ms)
    return job
