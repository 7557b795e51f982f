"""A whole server on fakes, for black-box tests through boto3."""

import json
import logging
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.services.s3.opening import S3
from support.api_world import ApiWorld
from support.fake_jobs import FakeJobs
from support.front import Front

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="session")
def bridge() -> MotoBridge:
    return MotoBridge()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, bridge: MotoBridge) -> Iterator[ApiWorld]:
    """The world of `server`. The tests of a file share it."""
    with ApiWorld(tmp_path_factory.mktemp("whole"), bridge) as running:
        yield running


@pytest.fixture
def jobs(whole: ApiWorld) -> FakeJobs:
    """Operations that stand in for those of `server`."""
    jobs = FakeJobs()
    jobs.stand_in(whole.sagelet.own)
    return jobs


@pytest.fixture
def s3(whole: ApiWorld) -> S3:
    """The object store of `server`."""
    return whole.sagelet.s3


@pytest.fixture
def server(whole: ApiWorld) -> Front:
    return whole.front


@pytest.fixture
def client(server: Front) -> Callable[..., Any]:
    """Makes boto3 clients that never repeat a call, so that a 500 is seen."""

    def make(service: str, region: str = "us-east-1", key: str = "test", **config: Any) -> Any:
        return server.client(service, region, key, **config)

    return make


@pytest.fixture
def s3c(client: Callable[..., Any]) -> Any:
    """An S3 client."""
    return client("s3")


@pytest.fixture
def bucket(s3c: Any) -> str:
    """A bucket of its own."""
    name = f"bucket-{uuid.uuid4()}"
    s3c.create_bucket(Bucket=name)
    return name


@pytest.fixture
def recorded() -> list[dict[str, Any]]:
    """CreateTrainingJob bodies that the SageMaker SDKs made: `{sdk, case, request}` each."""
    bodies: list[dict[str, Any]] = json.loads((DATA / "create_training_job_requests.json").read_text())
    return bodies


@pytest.fixture
def server_log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.ERROR, "sagelet_api")
    return caplog
