"""Jobs of a server with --runtime slurm. They are shell scripts, which start in less than a second."""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.jobs import Jobs
from support.server import ENDED, NATIVE, ROLE, SageletProcess, until

#: Prints what earlier attempts left, writes a checkpoint on SIGTERM, and ends when told to.
RESUMABLE = (
    "cd /opt/ml/checkpoints; [ ! -e step ] || cat step; trap 'echo 41 >step; echo saved; exit 0' TERM; echo ready; "
    "while [ ! -e {go} ]; do sleep 0.1; done; echo done"
)
WAITING = "echo ready; while [ ! -e {go} ]; do sleep 0.1; done; echo done"


class SlurmJobs(Jobs):
    def __init__(self, server: SageletProcess) -> None:
        super().__init__(server)
        self._submitted: list[str] = []
        self.s3.create_bucket(Bucket="tests")

    def run(self, script: str, go: Path | None = None, *, hosts: int = 1, tags: dict[str, str] | None = None,
            max_runtime: int = 600, image: str = NATIVE, shell: Sequence[str] = ("/bin/sh", "-c"),
            **options: Any) -> str:  # fmt: skip
        name = f"job-{uuid.uuid4().hex[:12]}"
        request: dict[str, Any] = {
            "AlgorithmSpecification": {
                "TrainingImage": image,
                "TrainingInputMode": "File",
                "ContainerEntrypoint": [*shell, script.format(go=go) if go else script],
            },
            "RoleArn": ROLE,
            "OutputDataConfig": {"S3OutputPath": "s3://tests/out"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": hosts, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": max_runtime},
            "Tags": [{"Key": key, "Value": value} for key, value in (tags or {}).items()],
        }
        self.sagemaker.create_training_job(TrainingJobName=name, **(request | options))
        self._submitted.append(name)
        return name

    def training(self, name: str, lines: int = 1) -> None:
        """Waits until the job's host has said that it is ready."""
        until(lambda: self.lines(name).count("ready") >= lines or self.failed(name), slowest=0.5)

    def lines(self, name: str) -> list[str]:
        """Returns the lines of all streams. Each attempt has its own streams."""
        found = []
        for stream in sorted(self.streams(name), key=lambda one: int(one["creationTime"])):
            events = self.logs.get_log_events(
                logGroupName="/aws/sagemaker/TrainingJobs", logStreamName=stream["logStreamName"], startFromHead=True
            )
            found += [event["message"] for event in events["events"]]
        return found

    def pending(self, name: str, text: str) -> str:
        """Waits until a pending job's message contains `text`. Returns the message."""
        until(lambda: text in self.message(name) or self.failed(name), slowest=0.5)
        assert self.describe(name)["SecondaryStatus"] == "Pending"
        return self.message(name)

    def message(self, name: str) -> str:
        transitions: list[dict[str, Any]] = self.describe(name)["SecondaryStatusTransitions"]
        return str(transitions[-1]["StatusMessage"])

    def statuses(self, name: str) -> list[str]:
        return [one["Status"] for one in self.describe(name)["SecondaryStatusTransitions"]]

    def stop_all(self) -> None:
        for name in self._submitted:
            if self.describe(name)["TrainingJobStatus"] not in ENDED:
                self.sagemaker.stop_training_job(TrainingJobName=name)
        for name in self._submitted:
            self.ended(name)

    def failed(self, name: str) -> bool:
        description = self.describe(name)
        assert description["TrainingJobStatus"] != "Failed", description["FailureReason"]
        return False
