"""What a shim asks of Docker for a host, word for word."""

import os
import sys
from pathlib import Path

import pytest

from sagelet_engine.model.runtime import HostPlan, LaunchPlan
from sagelet_engine.runtimes.node.confinement import NO_EXCEPTIONS, Exceptions, User
from sagelet_engine.runtimes.slurm import docker as slurm_docker
from sagelet_engine.runtimes.slurm.task import ContainerTask, patience

#: Memory that a container on this machine gets at most.
_MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MOST = _MEMORY - min(2 * 1024**3, _MEMORY // 8)
STEP = {"SLURM_JOB_ID": "12"}


@pytest.fixture(autouse=True)
def root_on_two_of_four_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {2, 0})


def options(
    slurm: dict[str, str] | None = None,
    gpus: tuple[str, ...] = (),
    user: User | None = None,
    exceptions: Exceptions = NO_EXCEPTIONS,
    of_host: dict[str, int] | None = None,
    directory: str = "/opt/program",
    **changes: object,
) -> list[str]:
    opt_ml, run = Path("/d/a,b"), Path("/d/run")
    host = HostPlan("algo-1", opt_ml, run, read_only=("input/data/train",), gpu_uuids=gpus, **(of_host or {}))
    plan = LaunchPlan(**{"job_id": "j-1", "job_name": "bert", "image": "lab/bert:2", "hosts": (host,), **changes})
    content = ContainerTask("docker", "owner", sys.executable, 30, exceptions=exceptions).content(plan, host, 7777)
    image = {"Env": ["PATH=/opt/conda/bin:/usr/bin"], "WorkingDir": directory}
    plan_file = {**content, "hosts": {"algo-1": "10.0.0.1"}}
    return slurm_docker.options(plan_file, {**STEP, **(slurm or {})}, user, image)


def test_the_command_line() -> None:
    found = options(environment={"A": "b", "LINES": "c\nd"}, shm_bytes=7)
    name = next(option for option in found if option.startswith("--name="))
    assert found == [
        "run", name, "--hostname=algo-1", "--network=host",
        "--cap-drop=ALL", "--security-opt=no-new-privileges", "--pids-limit=16384", "--shm-size=7",
        "--cgroupns=private", "--ipc=private", "--oom-score-adj=500", "--read-only",
        "--log-driver=none", "--pull=never", "--env-file=container.env", "--env=LINES",
        "--label=org.sagelet.slurm.owner=owner", "--label=org.sagelet.slurm.launch-id=j-1",
        "--label=org.sagelet.slurm.job-name=bert", "--label=org.sagelet.slurm.host=algo-1",
        "--label=org.sagelet.slurm.job=12",
        "--add-host=algo-1:10.0.0.1",
        '--mount=type=bind,"source=/d/a,b",destination=/opt/ml',
        '--mount=type=bind,"source=/d/a,b/input/data/train",destination=/opt/ml/input/data/train,ro',
        *(
            f"--mount=type=bind,source={Path.cwd()}/scratch/{part},destination={target}"
            for part, target in (("tmp", "/tmp"), ("var-tmp", "/var/tmp"), ("home", "/root"))
        ),
        f"--memory={MOST}", f"--memory-swap={MOST}",
        "--cpuset-cpus=0,2",
        "--env=HOME=/root", "--env=PATH=/opt/conda/bin:/root/.local/bin:/usr/bin",
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
        ({}, None, MOST),
        ({}, 2**60, MOST),
        ({}, 5, 5),
        ({"SLURM_MEM_PER_NODE": "2"}, None, 2 * 1024**2),
        ({"SLURM_MEM_PER_NODE": "2"}, 5, 5),
        ({"SLURM_MEM_PER_CPU": "3", "SLURM_CPUS_ON_NODE": "2"}, None, 6 * 1024**2),
    ],
)
def test_the_memory_that_slurm_gave_is_the_containers_too(
    slurm: dict[str, str], limit: int | None, memory: int
) -> None:
    of_host = {} if limit is None else {"memory_bytes": limit}
    found = [option for option in options(slurm, of_host=of_host) if option.startswith("--memory")]
    assert found == [f"--memory={memory}", f"--memory-swap={memory}"]


def test_a_host_has_its_types_cpus() -> None:
    assert "--cpus=1" in options(of_host={"vcpus": 1})
    assert not any(option.startswith("--cpus=") for option in options(of_host={"vcpus": 2}))


def test_an_image_may_be_excepted() -> None:
    found = options(user=User(1000, 100), exceptions=Exceptions(writable=("lab/*",)))
    assert "--read-only" not in found
    assert "--env=HOME=/tmp" in found
    assert not any("scratch" in option for option in found)


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
    user = slurm_docker._user({"as_root": False})
    assert user == (1000, 100)
    assert "--user=1000:100" in options(user=user)
    monkeypatch.setattr(slurm_docker, "_is_rootless", lambda: True)
    assert slurm_docker._user({"as_root": False}) is None


@pytest.mark.parametrize(("kill_wait", "seconds"), [(30, 20), (3, 1.5), (0, 0), (120, 110)])
def test_a_container_ends_before_slurm_kills_its_shim(kill_wait: int, seconds: float) -> None:
    assert patience(kill_wait) == seconds


@pytest.mark.parametrize(
    ("directory", "exceptions", "asked"),
    [
        ("", NO_EXCEPTIONS, True),
        ("/", NO_EXCEPTIONS, True),
        ("/opt/program", NO_EXCEPTIONS, False),
        ("", Exceptions(writable=("lab/*",)), False),
    ],
)
def test_a_program_starts_where_it_can_write(directory: str, exceptions: Exceptions, asked: bool) -> None:
    assert ("--workdir=/root" in options(directory=directory, exceptions=exceptions)) is asked
