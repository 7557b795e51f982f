"""Which process of a job listens for a debugger, and on which port."""

from pathlib import Path

import pytest

from sagelet_engine.model.runtime import HostPlan, LaunchPlan
from sagelet_engine.runtimes.docker import spec as docker_spec
from sagelet_runtime.entry import attach

ASKED = {"SAGELET_DEBUGPY": "5678", "SM_USER_ENTRY_POINT": "train.py"}


@pytest.mark.parametrize(
    "command",
    [
        ["python", "train.py", "--epochs", "2"],
        ["/usr/bin/python3", "-u", "/opt/ml/code/train.py"],
        ["python", "-m", "sagelet_runtime.workers.script", "train.py"],
    ],
)
def test_the_script_listens(command: list[str]) -> None:
    assert attach.is_wanted(ASKED, command)
    assert attach.is_wanted({**ASKED, "LOCAL_RANK": "0"}, command)
    assert not attach.is_wanted({**ASKED, "LOCAL_RANK": "1"}, command)
    assert not attach.is_wanted({"SM_USER_ENTRY_POINT": "train.py"}, command)


@pytest.mark.parametrize(
    "command",
    [
        ["python", "-m", "sagelet_runtime.train"],
        ["python", "-m", "pip", "install", "-r", "requirements.txt"],
        ["python", "-m", "torch_xla.distributed.xla_spawn", "--num_gpus", "2", "train.py"],
        ["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()"],
        ["python", "other.py"],
        ["python"],
    ],
)
def test_others_do_not(command: list[str]) -> None:
    assert not attach.is_wanted(ASKED, command)


def test_the_script_of_sdk_v3_listens() -> None:
    asked = {"SAGELET_DEBUGPY": "5678", "SM_ENTRY_SCRIPT": "code/train.py"}
    assert attach.is_wanted(asked, ["python3", "train.py"])


@pytest.mark.parametrize(
    ("asked", "host", "port"),
    [
        ("5678", "algo-1", 5678),
        ("5678", "algo-2", 5679),
        ("0", "algo-2", 0),
        ("x", "algo-1", None),
        ("65536", "", None),
    ],
)
def test_each_host_has_a_port_of_its_own(asked: str, host: str, port: int | None) -> None:
    environ = {"SAGELET_DEBUGPY": asked, "SM_HOSTS": '["algo-1", "algo-2"]', "SM_CURRENT_HOST": host}
    assert attach.port_of(environ) == port


SHELL = docker_spec.Shell(user=None, read_only=True, log_bytes=2**20)


def plan(**changes: object) -> LaunchPlan:
    hosts = tuple(HostPlan(name, Path("/ml"), Path("/run")) for name in ("algo-1", "algo-2"))
    values = {"environment": {"SAGELET_DEBUGPY": "5678"}, **changes}
    return LaunchPlan("id", "name", "image", hosts, **values)  # type: ignore[arg-type]


def test_docker_publishes_it_on_loopback_alone() -> None:
    given = plan()
    for host, port in zip(given.hosts, (5678, 5679), strict=True):
        config = docker_spec.host_config(given, host, {}, "network", SHELL)
        assert config["port_bindings"] == {port: ("127.0.0.1", port)}
        assert docker_spec.environment(given, host, SHELL)["SAGELET_DEBUGPY_LISTEN"] == "0.0.0.0"


@pytest.mark.parametrize(
    "changes",
    [{"environment": {}}, {"environment": {"SAGELET_DEBUGPY": "0"}}, {"network_isolation": True}],
)
def test_docker_publishes_nothing_else(changes: dict[str, object]) -> None:
    given = plan(**changes)
    config = docker_spec.host_config(given, given.hosts[0], {}, "network", SHELL)
    assert "port_bindings" not in config
    assert "SAGELET_DEBUGPY_LISTEN" not in docker_spec.environment(given, given.hosts[0], SHELL)
