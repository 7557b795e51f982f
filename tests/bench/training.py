"""Training jobs as the sections submit and read them, through boto3, and what the server takes meanwhile."""

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import psutil
from botocore.config import Config

GROUP = "/aws/sagemaker/TrainingJobs"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.13.1-gpu-py39"
ENDED = ("Completed", "Failed", "Stopped")
BUCKET = "bench"
DEADLINE_S = 600.0
#: Seconds between two looks of a client that waits.
EVERY_S = 0.02


class Account:
    """A user of one server."""

    def __init__(self, endpoint: str) -> None:
        self.sagemaker, self.s3, self.logs = (self._client(endpoint, name) for name in ("sagemaker", "s3", "logs"))
        self.s3.create_bucket(Bucket=BUCKET)

    def submit(self, command: list[str] | None = None, **options: Any) -> str:
        """Starts a job; `command` is its ContainerEntrypoint. Returns its name."""
        name = f"bench-{uuid.uuid4().hex[:12]}"
        algorithm: dict[str, Any] = {"TrainingImage": options.pop("image", IMAGE), "TrainingInputMode": "File"}
        if command:
            algorithm["ContainerEntrypoint"] = command
        if metrics := options.pop("metrics", None):
            algorithm["MetricDefinitions"] = metrics
        self.sagemaker.create_training_job(
            TrainingJobName=name,
            AlgorithmSpecification=algorithm,
            RoleArn="arn:aws:iam::123456789012:role/SageMakerRole",
            OutputDataConfig={"S3OutputPath": f"s3://{BUCKET}/out"},
            ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 10},
            StoppingCondition={"MaxRuntimeInSeconds": 3600},
            **options,
        )
        return name

    def describe(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.sagemaker.describe_training_job(TrainingJobName=name)
        return found

    def ended(self, name: str) -> dict[str, Any]:
        """The description of a job that has ended."""
        return until(f"the end of {name}", lambda: found if is_over(found := self.describe(name)) else None)

    def stream(self, name: str) -> str:
        """The log stream of a job's only host, once it is there."""
        return str(until(f"the log of {name}", lambda: self._stream(name)))

    def _stream(self, name: str) -> str | None:
        try:
            found = self.logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=f"{name}/")
        except self.logs.exceptions.ResourceNotFoundException:
            return None
        return next((one["logStreamName"] for one in found["logStreams"]), None)

    def page(self, stream: str, **options: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.logs.get_log_events(logGroupName=GROUP, logStreamName=stream, **options)
        return found

    def lines(self, name: str) -> list[str]:
        """All lines of a job that has ended; none when it never got to print."""
        stream = self._stream(name)
        return [event["message"] for page in self.pages(stream, forward=True) for event in page] if stream else []

    def pages(self, stream: str, *, forward: bool) -> Iterator[list[dict[str, Any]]]:
        """The pages of GetLogEvents from one end of a log to the other, until an empty one."""
        token: dict[str, str] = {}
        while (page := self.page(stream, startFromHead=forward, **token))["events"]:
            yield page["events"]
            token = {"nextToken": page["nextForwardToken" if forward else "nextBackwardToken"]}

    @staticmethod
    def _client(endpoint: str, service: str) -> Any:
        return boto3.client(
            service, endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="123456789012",
            aws_secret_access_key="bench",
            config=Config(retries={"total_max_attempts": 1}, read_timeout=600, max_pool_connections=128),
        )  # fmt: skip


def is_over(description: dict[str, Any]) -> bool:
    return description["TrainingJobStatus"] in ENDED


def until(what: str, condition: Any, every_s: float = EVERY_S) -> Any:
    """The first true value of a condition."""
    deadline = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {DEADLINE_S:.0f} s")
        time.sleep(every_s)
    return value


@dataclass
class Cost:
    """What a server took while something was done."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    rss_before: int = 0
    rss_most: int = 0
    threads_most: int = 0

    @property
    def growth_mib(self) -> float:
        return (self.rss_most - self.rss_before) / 2**20


@contextmanager
def watched(process: psutil.Process) -> Iterator[Cost]:
    """Looks at the server's memory and threads 20 times a second; its CPU seconds are its own, without its hosts'."""
    cost = Cost(rss_before=process.memory_info().rss)
    done = threading.Event()

    def look() -> None:
        while True:
            cost.rss_most = max(cost.rss_most, process.memory_info().rss)
            cost.threads_most = max(cost.threads_most, process.num_threads())
            if done.wait(0.05):
                return

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    begin, cpu = time.perf_counter(), _cpu_s(process)
    try:
        yield cost
    finally:
        cost.wall_s, cost.cpu_s = time.perf_counter() - begin, _cpu_s(process) - cpu
        done.set()
        looking.join()


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(values: list[float], digits: int = 2) -> str:
    """`least-most`."""
    return f"{min(values):.{digits}f}-{max(values):.{digits}f}"


def log_lines(path: Path, count: int, length: int = 100) -> None:
    """Lines that begin with their number; one in ten holds what two metric definitions look for."""
    with path.open("w") as file:
        for number in range(count):
            found = f" loss={1 / (number + 1):.6f} lr=5e-05" if number % 10 == 0 else ""
            file.write(f"{number:07d}{found} ".ljust(length - 1, "x") + "\n")
