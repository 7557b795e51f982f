"""Containers of a data directory that an older sagelet knew by its path, and of other directories."""

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
def names() -> tuple[str, str]:
    return uuid.uuid4().hex[:12], uuid.uuid4().hex[:24]


@pytest.fixture
def older(
    tmp_path: Path, docker_client: docker.DockerClient, tiny_image: str, names: tuple[str, str]
) -> Iterator[Harness]:
    harness = Harness("docker", lambda: DockerRuntime(docker_client, names[0], SystemClock()), tmp_path, tiny_image)
    yield harness
    harness.clean_up()


def test_hosts_of_an_older_sagelet_are_adopted_and_never_doubled(
    older: Harness, docker_client: docker.DockerClient, names: tuple[str, str]
) -> None:
    plan = older.plan("sleep 600", hosts=2)
    (first, second) = older.launch_all(plan)
    former, today = names
    now = DockerRuntime(docker_client, today, SystemClock(), former=[former])
    assert now.find(plan.job_id) == [first, second]
    # As after a kill in the middle of the launch: one is there, and the other gets that one's network.
    docker_client.api.remove_container(second.ref, force=True)
    again = now.launch(plan)
    assert again[0].ref == first.ref
    assert len(now.find(plan.job_id)) == 2
    # It is not among what this directory's id may clear away.
    assert plan.job_id not in now.jobs()
    now.reap(plan.job_id)
    assert now.find(plan.job_id) == []
    assert docker_client.networks.list(filters={"label": f"org.sagelet.job-id={plan.job_id}"}) == []


def test_a_runtime_lists_its_own_jobs_only(older: Harness, docker_client: docker.DockerClient) -> None:
    plan = older.plan("sleep 600", hosts=2)
    older.launch_all(plan)
    assert older.runtime.jobs() == {plan.job_id}
    assert DockerRuntime(docker_client, uuid.uuid4().hex, SystemClock()).jobs() == set()
