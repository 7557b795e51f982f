"""An engine among fakes, for tests."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sagelet_engine.engine import Engine
from sagelet_engine.model.job import JobKey
from sagelet_engine.model.principal import allow_all
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.settings import Settings
from support.fakes import FakeClock, FakeHost, FakeMetrics, FakeObjects, FakeRuntime, FakeStatuses

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-trcomp-training:1.13.1-gpu-py39"


def request(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {"TrainingImage": IMAGE, "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::123456789012:role/SageMakerRole",
        "OutputDataConfig": {"S3OutputPath": "s3://out/models/"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 10},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        **changes,
    }


def until(condition: Callable[[], Any], seconds: float = 120) -> Any:
    """Polls a condition until it is true, with a deadline, and returns its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        threading.Event().wait(0.005)
    return value


class Fakes(ABC):
    """An engine among fakes. It can be replaced, as by a restart of the server."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.clock = FakeClock()
        self.runtime = FakeRuntime(self.clock)
        self.objects = FakeObjects(root / "s3")
        self.settings = Settings(data=root / "data", **{"max_jobs": 4, **settings})
        self.engine = self.boot()

    @abstractmethod
    def boot(self) -> Engine:
        """Starts the engine."""

    @abstractmethod
    def close(self) -> None:
        """Stops the engine."""

    def restart(self) -> None:
        self.close()
        self.engine = self.boot()

    def create(self, name: str, **changes: Any) -> TrainingJob:
        return self.engine.jobs.create(key(name), request(name, **changes), {})

    def job(self, name: str) -> TrainingJob:
        return self.engine.jobs.get(key(name))

    def host(self, name: str) -> FakeHost:
        """Waits for the job's host to run, and returns it."""
        ref = f"{self.job(name).id}/algo-1"
        found: FakeHost = until(lambda: self.runtime.hosts.get(ref))
        return found

    def all_hosts(self, name: str) -> list[FakeHost]:
        """Waits for all hosts of the job to run, and returns them."""
        job = self.job(name)
        until(lambda: len(self.runtime.find(job.launch_id)) == len(job.hosts))
        return [self.runtime.hosts[handle.ref] for handle in self.runtime.find(job.launch_id)]

    def ended(self, name: str) -> TrainingJob:
        until(lambda: self.job(name).terminal)
        return self.job(name)

    def log(self, name: str) -> list[str]:
        (stream,) = self.engine.logs.streams("123456789012", "us-east-1", f"{name}/")
        return [event.text for event in self.engine.logs.events(stream, limit=100_000)]


class World(Fakes):
    """An engine without a server."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.metrics = FakeMetrics()
        self.statuses = FakeStatuses()
        super().__init__(root, **settings)

    def boot(self) -> Engine:
        engine = self.unstarted()
        engine.start(4599)
        return engine

    def unstarted(self, **settings: Any) -> Engine:
        """`settings`: those that differ from the world's."""
        return Engine(
            replace(self.settings, **settings),
            runtime=self.runtime,
            objects=self.objects,
            metrics=self.metrics,
            statuses=self.statuses,
            clock=self.clock,
            authorize=allow_all,
        )

    def close(self) -> None:
        self.engine.close()


def key(name: str) -> JobKey:
    return JobKey("123456789012", "us-east-1", name)
