"""Containers of a data directory, and those of others."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.runtimes.docker.runtime import DockerRuntime
from support.harness import Harness

pytestmark = [pytest.mark.docker, pytest.mark.programs("busybox")]


@pytest.fixture
def harness(tmp_path: Path, docker_client: docker.DockerClient, tiny_image: str) -> Iterator[Harness]:
    owner = uuid.uuid4().hex[:24]
    harness = Harness("docker", lambda: DockerRuntime(docker_client, owner, SystemClock()), tmp_path, tiny_image)
    yield harness
    harness.clean_up()


def test_a_runtime_lists_its_own_jobs_only(harness: Harness, docker_client: docker.DockerClient) -> None:
    plan = harness.plan("sleep 600", hosts=2)
    harness.launch_all(plan)
    assert harness.runtime.jobs() == {plan.job_id}
    assert DockerRuntime(docker_client, uuid.uuid4().hex, SystemClock()).jobs() == set()
