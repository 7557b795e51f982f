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
from sagelet_api.http.server import Server, _Gateway
from sagelet_api.serve import Sagelet, Surroundings
from sagelet_engine.machine.runtimes import Choice
from sagelet_engine.settings import Settings
from support.fakes import FakeClock, FakeRuntime
from support.server import ROLE, until
from support.world import IMAGE

ROOTS = {str(Path(package.__file__ or "").parent): package.__name__ for package in (sagelet_api, sagelet_engine)}


class Passed:
    """What the threads that answer requests pass through while somebody looks, until the answer is sent."""

    def __init__(self) -> None:
        self.looking = False
        self.files: set[str] = set()

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        if not self.looking or not threading.current_thread().name.startswith("sagelet-worker"):
            return
        if event == "return" and frame.f_code is _Gateway._send.__code__:
            self.looking = False
        if event != "call":
            return
        path = frame.f_code.co_filename
        for root, package in ROOTS.items():
            if path.startswith(root):
                self.files.add(f"{package}{path.removeprefix(root)}")

    def by(self, call: Callable[[], object], idle: Callable[[], bool]) -> list[str]:
        """Returns the files of a call. `idle`: no thread is busy with the end of an earlier one."""
        until(idle)
        self.files.clear()
        self.looking = True
        try:
            call()
        finally:
            self.looking = False
        return sorted(self.files)


@contextmanager
def watched(data: Path) -> Iterator[tuple[Server, Passed]]:
    """A server whose threads are all looked at."""
    passed = Passed()
    threading.setprofile(passed.profile)
    try:
        server = Sagelet(Settings(data=data, port=0), Surroundings(choice=Choice(FakeRuntime(FakeClock()), "a test")))
        server.start()
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]
    try:
        yield server.server, passed
    finally:
        server.stop()


def test_the_files_of_a_call_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with watched(tmp_path) as (server, passed):
        session = boto3.Session("123456789012", "any", region_name="us-east-1")
        s3, sagemaker = (session.client(name, endpoint_url=server.endpoint) for name in ("s3", "sagemaker"))
        s3.create_bucket(Bucket="files-of-a-call")

        def put() -> object:
            return s3.put_object(Bucket="files-of-a-call", Key="k", Body=b"small")

        def create(name: str = "files-of-a-call") -> object:
            return sagemaker.create_training_job(
                TrainingJobName=name,
                RoleArn=ROLE,
                AlgorithmSpecification={"TrainingImage": IMAGE, "TrainingInputMode": "File"},
                OutputDataConfig={"S3OutputPath": "s3://files-of-a-call/"},
                ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
                StoppingCondition={"MaxRuntimeInSeconds": 60},
            )

        # What is loaded or compiled once is not in the way of a call.
        put()
        create("first")
        workers = server._servers[0].requests
        found = {
            name: passed.by(call, lambda: workers.idle == len(workers._threads))
            for name, call in (("PutObject", put), ("CreateTrainingJob", create))
        }
    with capsys.disabled():
        for operation, files in found.items():
            print(f"\n{operation}: {len(files)} files", *files, sep="\n  ", file=sys.stdout)
    assert "sagelet_api/app.py" in found["PutObject"]
    assert "sagelet_engine/store/jobs.py" in found["CreateTrainingJob"]
