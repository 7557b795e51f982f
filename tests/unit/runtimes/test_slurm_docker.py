"""What a keeper asks of Docker for a host, word for word."""

import os
import sys
from pathlib import Path

import pytest

from sagelet_engine.runtimes import slurm_docker
from sagelet_engine.runtimes.port import HostPlan, LaunchPlan
from sagelet_engine.runtimes.slurm_task import ContainerTask, patience

STEP = {"SLURM_JOB_ID": "12"}


@pytest.fixture(autouse=True)
def root_on_two_of_four_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {2, 0})


def options(slurm: dict[str, str] | None = None, gpus: tuple[str, ...] = (), **changes: object) -> list[str]:
    host = HostPlan("algo-1", Path("/d/a,b"), Path("/d/run"), read_only=("input/data/train",), gpu_uuids=gpus)
    plan = LaunchPlan(**{"job_id": "j-1", "job_name": "bert", "image": "lab/bert:2", "hosts": (host,), **changes})
    content = ContainerTask("docker", "owner", sys.executable, 30).content(plan, host, 7777)
    return slurm_docker.options({**content, "hosts": {"algo-1": "10.0.0.1"}}, {**STEP, **(slurm or {})})


def test_the_command_line() -> None:
    found = options(environment={"A": "b", "LINES": "c\nd"}, shm_bytes=7)
    name = next(option for option in found if option.startswith("--name="))
    assert found == [
        "run", name, "--hostname=algo-1", "--network=host",
        "--cap-drop=ALL", "--security-opt=no-new-privileges", "--pids-limit=16384", "--shm-size=7",
        "--log-driver=none", "--pull=never", "--env-file=container.env", "--env=LINES",
        "--label=org.sagelet.slurm.owner=owner", "--label=org.sagelet.slurm.launch-id=j-1",
        "--label=org.sagelet.slurm.job-name=bert", "--label=org.sagelet.slurm.host=algo-1",
        "--label=org.sagelet.slurm.job=12",
        "--add-host=algo-1:10.0.0.1",
        '--mount=type=bind,"source=/d/a,b",destination=/opt/ml',
        '--mount=type=bind,"source=/d/a,b/input/data/train",destination=/opt/ml/input/data/train,ro',
        "--cpuset-cpus=0,2",
        "lab/bert:2", "train",
    ]  # fmt: skip


def test_an_entry_point_of_the_request() -> None:
    found = options(entrypoint=("python", "-c"), arguments=("x",))
    assert found[-4:] == ["--entrypoint=python", "lab/bert:2", "-c", "x"]


def test_an_isolated_host_has_no_network() -> None:
    assert "--network=none" in options(network_isolation=True)


@pytest.mark.parametrize(
    ("slurm", "limit", "memory"),
    [
        ({}, None, None),
        ({}, 5, 5),
        ({"SLURM_MEM_PER_NODE": "2"}, None, 2 * 1024**2),
        ({"SLURM_MEM_PER_NODE": "2"}, 5, 5),
        ({"SLURM_MEM_PER_CPU": "3", "SLURM_CPUS_ON_NODE": "2"}, None, 6 * 1024**2),
    ],
)
def test_the_memory_that_slurm_gave_is_the_containers_too(
    slurm: dict[str, str], limit: int | None, memory: int | None
) -> None:
    found = [option for option in options(slurm, memory_bytes=limit) if option.startswith("--memory")]
    assert found == ([] if memory is None else [f"--memory={memory}", f"--memory-swap={memory}"])


@pytest.mark.parametrize(
    ("slurm", "devices"),
    [
        # With ConstrainDevices the job's own count from 0.
        ({"SLURM_STEP_GPUS": "2,3", "CUDA_VISIBLE_DEVICES": "0,1"}, "2,3"),
        ({"CUDA_VISIBLE_DEVICES": "1"}, "1"),
    ],
)
def test_the_gpus_are_those_that_slurm_gave(slurm: dict[str, str], devices: str) -> None:
    assert f'--gpus="device={devices}"' in options(slurm, gpus=("any",))


def test_an_ordinary_users_files_stay_his(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "getgid", lambda: 100)
    monkeypatch.setattr(slurm_docker, "_is_rootless", lambda: False)
    assert "--user=1000:100" in options()
    monkeypatch.setattr(slurm_docker, "_is_rootless", lambda: True)
    assert "--user=1000:100" not in options()


@pytest.mark.parametrize(("kill_wait", "seconds"), [(30, 20), (3, 1.5), (0, 0), (120, 110)])
def test_a_container_ends_before_slurm_kills_its_keeper(kill_wait: int, seconds: float) -> None:
    assert patience(kill_wait) == seconds
