"""What a container is started with."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.keys import KeyPair
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.execution.launch import Endpoint
from sagelet_engine.execution.training_launch import launch_plan
from sagelet_engine.model.runtime import LaunchPlan
from sagelet_engine.model.training import create
from support.fakes import FakeClock, FakeRuntime
from support.world import IMAGE, key, request


def plan_of(gpus: tuple[str, ...] = (), algorithm: dict[str, Any] | None = None, **changes: Any) -> LaunchPlan:
    body = request("One", **changes)
    body["AlgorithmSpecification"] |= algorithm or {}
    job = create(key("One"), "job-id", body, {}, 1000)
    job = replace(job, image="local:1", gpus=gpus)
    return launch_plan(
        job, JobDirectories(Path("/data/job")), FakeRuntime(FakeClock()), Endpoint(1234, KeyPair("AKIA", "secret"))
    )


@pytest.mark.parametrize(
    ("algorithm", "entrypoint", "arguments"),
    [
        ({}, None, ("train",)),
        ({"ContainerEntrypoint": ["/bin/sh"]}, ("/bin/sh",), ()),
        ({"ContainerArguments": ["a", "b"]}, None, ("a", "b")),
        ({"ContainerEntrypoint": ["/bin/sh", "-c"], "ContainerArguments": ["x y"]}, ("/bin/sh", "-c"), ("x y",)),
    ],
)
def test_entry_point_and_arguments(
    algorithm: dict[str, Any], entrypoint: tuple[str, ...] | None, arguments: tuple[str, ...]
) -> None:
    """The four cases of AWS's developer guide, "Run your training image"."""
    plan = plan_of(algorithm=algorithm)
    assert (plan.entrypoint, plan.arguments) == (entrypoint, arguments)


def test_the_environment_of_a_real_container() -> None:
    environment = dict(plan_of().environment)
    # A session of its own, which is derived from the key pair.
    assert environment.pop("AWS_ACCESS_KEY_ID").startswith("ASIA")
    assert len(environment.pop("AWS_SECRET_ACCESS_KEY")) == 40
    assert environment.pop("AWS_SESSION_TOKEN")
    # The way in shows which job it is, as the session does.
    assert re.fullmatch(r"http://endpoint:1234/_sagelet/hub/~job-id\.[\w-]{32}", environment.pop("HF_ENDPOINT"))
    assert environment == {
        "TRAINING_JOB_NAME": "One",
        "TRAINING_JOB_ARN": "arn:aws:sagemaker:us-east-1:123456789012:training-job/one",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": "http://endpoint:1234",
        "S3_ENDPOINT_URL": "http://endpoint:1234",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        "SAGEMAKER_METRICS_DIRECTORY": "/opt/ml/output/metrics/sagemaker",
        "DMLC_INTERFACE": "eth0",
        "SAGELET_JOB_GPUS": "0",
        "SAGELET_JOB_ID": "job-id",
        "SAGELET_INSTANCE_GPUS": '{"ml.m5.large": 0}',
        "SAGELET_TRAINING_IMAGE": IMAGE,
    }


def test_nothing_of_the_servers_environment_gets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HF_TOKEN", "AWS_PROFILE"):
        monkeypatch.setenv(name, "secret-of-the-host")
    assert "secret-of-the-host" not in plan_of().environment.values()


def test_a_job_without_a_network_has_no_hub() -> None:
    assert "HF_ENDPOINT" not in plan_of(EnableNetworkIsolation=True).environment


def test_a_server_without_a_hub_tells_of_none() -> None:
    job = replace(create(key("One"), "job-id", request("One"), {}, 1000), image="local:1")
    keys = KeyPair("AKIA", "secret")
    directories, runtime = JobDirectories(Path("/data/job")), FakeRuntime(FakeClock())
    without = launch_plan(job, directories, runtime, Endpoint(1234, keys, hub=False)).environment
    assert "HF_ENDPOINT" not in without
    told = launch_plan(job, directories, runtime, Endpoint(1234, keys, tls=True)).environment
    # Of both kinds of clients, requests' and httpx's.
    assert told["REQUESTS_CA_BUNDLE"] == told["SSL_CERT_FILE"] == "/opt/ml/input/config/sagelet-ca-bundle.pem"


@pytest.mark.parametrize("given", [{"HF_ENDPOINT": "https://huggingface.co"}, {"HF_HUB_OFFLINE": "1"}])
def test_what_the_request_says_of_the_hub_holds(given: dict[str, str]) -> None:
    environment = plan_of(Environment=given).environment
    assert given.items() <= environment.items()
    # Who asks the real one asks it as without us.
    assert ("HF_UPDATE_DOWNLOAD_COUNTS" in environment) == ("HF_ENDPOINT" not in given)


def test_the_requests_environment_comes_last() -> None:
    environment = plan_of(Environment={"MINE": "1", "AWS_REGION": "eu-west-1"}).environment
    assert environment["MINE"] == "1"
    assert environment["AWS_REGION"] == "eu-west-1"


def test_gpus_and_isolation_reach_the_runtime() -> None:
    plan = plan_of(
        ("GPU-1",),
        EnableNetworkIsolation=True,
        ResourceConfig={"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
    )
    assert plan.hosts[0].gpu_uuids == ("GPU-1",)
    assert plan.network_isolation


def test_each_host_has_directories_of_its_own() -> None:
    resources = {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1}
    hosts = plan_of(ResourceConfig=resources).hosts
    assert [host.name for host in hosts] == ["algo-1", "algo-2"]
    assert {host.opt_ml for host in hosts} == {Path("/data/job/algo-1/opt-ml"), Path("/data/job/algo-2/opt-ml")}
