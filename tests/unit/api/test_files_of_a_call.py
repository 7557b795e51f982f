"""Which files a call passes through, printed for people: `pytest -s tests/unit/api/test_files_of_a_call.py`.

Their number is not limited. A reader of the code has to open them, so the list is worth a look when it grows.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import boto3
import pytest

import sagelet_api
import sagelet_engine
from sagelet_api.serve import Sagelet
from sagelet_engine.base.clock import SystemClock
from sagelet_engine.machine.runtimes import Choice
from sagelet_engine.settings import Settings
from support.fakes import FakeClock, FakeRuntime
from support.server import ROLE
from support.world import IMAGE

ROOTS = {str(Path(package.__file__ or "").parent): package.__name__ for package in (sagelet_api, sagelet_engine)}


class Passed:
    """What the threads that answer requests pass through while somebody looks."""

    def __init__(self) -> None:
        self.looking = False
        self.files: set[str] = set()

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or not self.looking or not threading.current_thread().name.startswith("CP Server"):
            return
        path = frame.f_code.co_filename
        for root, package in ROOTS.items():
            if path.startswith(root):
                self.files.add(f"{package}{path.removeprefix(root)}")

    def by(self, call: Callable[[], object]) -> list[str]:
        self.files.clear()
        self.looking = True
        try:
            call()
        finally:
            self.looking = False
        return sorted(self.files)


@contextmanager
def watched(data: Path) -> Iterator[tuple[str, Passed]]:
    """A server whose threads are all looked at."""
    passed = Passed()
    threading.setprofile(passed.profile)
    try:
        server = Sagelet(Settings(data=data, port=0), SystemClock(), Choice(FakeRuntime(FakeClock()), "a test"))
        server.start()
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]
    try:
        yield server.server.endpoint, passed
    finally:
        server.stop()


def test_the_files_of_a_call_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with watched(tmp_path) as (endpoint, passed):
        session = boto3.Session("123456789012", "any", region_name="us-east-1")
        s3, sagemaker = (session.client(name, endpoint_url=endpoint) for name in ("s3", "sagemaker"))
        s3.create_bucket(Bucket="files-of-a-call")

        def put() -> object:
            return s3.put_object(Bucket="files-of-a-call", Key="k", Body=b"small")

        def create() -> object:
            return sagemaker.create_training_job(
                TrainingJobName="files-of-a-call",
                RoleArn=ROLE,
                AlgorithmSpecification={"TrainingImage": IMAGE, "TrainingInputMode": "File"},
                OutputDataConfig={"S3OutputPath": "s3://files-of-a-call/"},
                ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
                StoppingCondition={"MaxRuntimeInSeconds": 60},
            )

        put()
        found = {"PutObject": passed.by(put), "CreateTrainingJob": passed.by(create)}
    with capsys.disabled():
        for operation, files in found.items():
            print(f"\n{operation}: {len(files)} files", *files, sep="\n  ", file=sys.stdout)
    assert "sagelet_api/app.py" in found["PutObject"]
    assert "sagelet_engine/store/jobs.py" in found["CreateTrainingJob"]
