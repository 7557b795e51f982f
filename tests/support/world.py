"""An engine among fakes, for tests."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sagelet_engine.engine import Engine
from sagelet_engine.model.functions import NO_FUNCTIONS, Functions
from sagelet_engine.model.job import JobKey
from sagelet_engine.model.principal import Authorize, allow_all
from sagelet_engine.model.service_calls import NO_CALLS, ServiceCalls
from sagelet_engine.model.sinks import StatusSink
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


class World:
    """An engine and its surroundings. The engine can be replaced, as by a restart of the server."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.clock = FakeClock()
        self.runtime = FakeRuntime(self.clock)
        self.objects = FakeObjects(root / "s3", self.make_authorize())
        self.metrics = FakeMetrics()
        self.statuses: StatusSink = self.make_statuses()
        self.settings = Settings(data=root / "data", **{"max_jobs": 4, **settings})
        self.engine = self.boot()

    def make_statuses(self) -> StatusSink:
        """Returns the sink for changes of status."""
        return FakeStatuses()

    def make_calls(self) -> ServiceCalls:
        """Returns the operations that steps of pipelines call."""
        return NO_CALLS

    def make_authorize(self) -> Authorize:
        """Returns the decision about what each principal may do."""
        return allow_all

    def make_functions(self) -> Functions:
        """Returns the functions that steps of pipelines invoke."""
        return NO_FUNCTIONS

    def boot(self) -> Engine:
        engine = self.unstarted()
        engine.start(4599)
        return engine

    def unstarted(self) -> Engine:
        return Engine(
            self.settings,
            runtime=self.runtime,
            objects=self.objects,
            metrics=self.metrics,
            statuses=self.statuses,
            clock=self.clock,
            authorize=self.make_authorize(),
            calls=self.make_calls(),
            functions=self.make_functions(),
        )

    def restart(self) -> None:
        self.engine.close()
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


def key(name: str) -> JobKey:
    return JobKey("123456789012", "us-east-1", name)
