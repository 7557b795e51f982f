"""A server with a fake engine and a few operations of its own, on a free port, for black-box tests through boto3."""

import json
import logging
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.app import Application
from sagelet_api.auth.request_guard import RequestGuard
from sagelet_api.control.endpoints import control_app
from sagelet_api.control.throttling import Throttling
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.services.s3.opening import S3, open_s3
from sagelet_engine.base.clock import SystemClock
from sagelet_engine.model.principal import allow_all
from sagelet_engine.settings import Settings
from support.fake_jobs import FakeEngine, FakeJobs
from support.front import Front, front

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="session")
def bridge() -> MotoBridge:
    return MotoBridge()


@pytest.fixture
def jobs() -> FakeJobs:
    return FakeJobs()


@pytest.fixture
def s3(tmp_path: Path, bridge: MotoBridge) -> Iterator[S3]:
    """The object store of `server`."""
    opened = open_s3(Settings(data=tmp_path / "data"), SystemClock(), bridge.beside_s3, allow_all)
    yield opened
    opened.close()


@pytest.fixture
def server(jobs: FakeJobs, bridge: MotoBridge, s3: S3) -> Iterator[Front]:
    throttling = Throttling()
    control = control_app(FakeEngine(), throttling)
    app = Application(
        RequestGuard(),
        control,
        throttling.checks(),
        jobs.services(),
        bridge.requests.wsgi,
        {"s3": s3.service},
        routes=bridge.requests.route,
    )
    with front(app) as running:
        yield running


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
