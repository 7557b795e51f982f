from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from sagelet_engine.model.runtime import HostPlan, LaunchPlan
from sagelet_engine.runtimes.node.host_environment import OptMlPaths, addresses_of, command_of, environment_of

HOST = HostPlan("algo-1", Path("/ml"), Path("/run"))
TRAIN = ("/venv/bin/python", "-m", "runtime.train")


@pytest.mark.parametrize(
    ("entrypoint", "arguments", "command"),
    [
        (None, ("train",), [*TRAIN]),
        (None, (), [*TRAIN]),
        (None, ("train", "x"), [*TRAIN, "x"]),
        (None, ("python", "x.py"), ["python", "x.py"]),
        (("bash", "run.sh"), (), ["bash", "run.sh"]),
        (("bash",), ("-c", "true"), ["bash", "-c", "true"]),
    ],
)
def test_command(entrypoint: tuple[str, ...] | None, arguments: tuple[str, ...], command: list[str]) -> None:
    plan = LaunchPlan("id", "name", "image", (), entrypoint=entrypoint, arguments=arguments)
    assert command_of(plan, TRAIN) == command


def test_only_what_is_listed_passes_from_the_server() -> None:
    server = {
        "AWS_ACCESS_KEY_ID": "secret",
        "AWS_PROFILE": "work",
        "HOME": "/home/me",
        "HTTPS_PROXY": "http://proxy",
        "PIP_CERT": "/ca",
        "SSL_CERT_FILE": "/ca",
        "VIRTUAL_ENV": "/x",
        "PATH": "/bin",
    }
    plan = LaunchPlan("id", "name", "image", (), environment={"HTTPS_PROXY": "mine"})
    assert environment_of(plan, HOST, TRAIN, "/runtime", server, 20_002) == {
        "HOME": "/home/me",
        "HTTPS_PROXY": "mine",
        "PIP_CERT": "/ca",
        "SSL_CERT_FILE": "/ca",
        "PATH": "/venv/bin:/bin",
        "PYTHONPATH": "/runtime",
        "PYTHONUNBUFFERED": "1",
        "SM_STUDIO_LOCAL_MODE": "true",
        "SAGELET_MASTER_PORT": "20002",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "CUDA_VISIBLE_DEVICES": "",
    }


@pytest.mark.parametrize(
    ("server", "no_proxy"),
    [
        ({"HTTP_PROXY": "http://proxy"}, "10.0.0.1"),
        ({"https_proxy": "http://proxy", "NO_PROXY": "a.example,10.0.0.1"}, "10.0.0.1,a.example"),
        ({"no_proxy": "*"}, "*"),
        ({}, None),
    ],
)
def test_a_proxy_is_not_asked_for_the_server(server: dict[str, str], no_proxy: str | None) -> None:
    """Neither for S3 nor for the hub."""
    plan = LaunchPlan("id", "name", "image", (), environment={"AWS_ENDPOINT_URL": "http://10.0.0.1:4599"})
    assert environment_of(plan, HOST, TRAIN, "", server, 20_002).get("no_proxy") == no_proxy


def test_hosts_with_gpus_see_theirs() -> None:
    plan = LaunchPlan("id", "name", "image", (), environment={"CUDA_VISIBLE_DEVICES": "9"})
    environment = environment_of(plan, replace(HOST, gpu_uuids=("GPU-a", "GPU-b")), TRAIN, "", {}, 20_002)
    assert environment["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert "NVIDIA_VISIBLE_DEVICES" not in environment


def test_hosts_have_loopback_addresses_of_their_own() -> None:
    names = [f"algo-{number}" for number in range(1, 4)]
    plans = [
        LaunchPlan(job, "name", "image", tuple(replace(HOST, name=name) for name in names)) for job in ("a", "b", "c")
    ]
    addresses = [address for plan in plans for address in addresses_of(plan).values()]
    assert len(set(addresses)) == 9
    assert all(ip_address(address).is_loopback and not address.startswith("127.0.") for address in addresses)
    assert addresses_of(plans[0]) == addresses_of(plans[0])


@pytest.mark.parametrize(
    ("value", "rewritten"),
    [
        ("/opt/ml", "/job/ml"),
        ("/opt/ml/model", "/job/ml/model"),
        ('"/opt/ml/model"', '"/job/ml/model"'),
        ('["/opt/ml/a", "/opt/ml/b"]', '["/job/ml/a", "/job/ml/b"]'),
        ("--out=/opt/ml/x:/opt/ml/y", "--out=/job/ml/x:/job/ml/y"),
        ("file:///opt/ml/x", "file:///job/ml/x"),
        ("s3://bucket/opt/ml/x", "s3://bucket/opt/ml/x"),
        ("/opt/mlx", "/opt/mlx"),
        ("/opt/ml-data", "/opt/ml-data"),
        ("/x/opt/ml", "/x/opt/ml"),
        ("../opt/ml", "../opt/ml"),
    ],
)
def test_paths(value: str, rewritten: str) -> None:
    assert OptMlPaths(Path("/job/ml")).rewritten(value) == rewritten


@pytest.mark.parametrize("opt_ml", ["/opt/ml", "/opt/ml/jobs/1"])
def test_rewriting_twice_is_rewriting_once(opt_ml: str) -> None:
    paths = OptMlPaths(Path(opt_ml))
    once = paths.rewritten("/opt/ml/model")
    assert once == f"{opt_ml}/model"
    assert paths.rewritten(once) == once
