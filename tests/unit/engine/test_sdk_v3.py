"""Jobs whose entry point is SDK v3's driver: the compiler's hyperparameters go around it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.keys import KeyPair
from sagelet_engine.data import inputconfig
from sagelet_engine.data.layout import HostDirectories, JobDirectories
from sagelet_engine.execution.launch import Endpoint
from sagelet_engine.execution.training_launch import launch_plan
from sagelet_engine.images.variants import training_image
from sagelet_engine.model.runtime import LaunchPlan
from sagelet_engine.model.training import TrainingJob, create
from support.fakes import FakeClock, FakeRuntime
from support.world import key, request

REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
NATIVE = f"{REGISTRY}/pytorch-training:1.13.1-gpu-py39"
COMPILER = f"{REGISTRY}/pytorch-trcomp-training:1.13.1-gpu-py39"
ENTRYPOINT = ["/bin/bash"]
ARGUMENTS = ["-c", "chmod +x /opt/ml/input/data/sm_drivers/sm_train.sh && /opt/ml/input/data/sm_drivers/sm_train.sh"]
ENABLED, DEBUG = "sagemaker_training_compiler_enabled", "sagemaker_training_compiler_debug_mode"
DRIVEN = ("python3", "-m", "sagelet_runtime.command", "/bin/bash")


def channel(name: str) -> dict[str, Any]:
    return {
        "ChannelName": name,
        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://bucket/job/input/{name}"}},
    }


def job(
    image: str = COMPILER, channels: tuple[str, ...] = ("train", "code", "sm_drivers"), **changes: Any
) -> TrainingJob:
    body = request("One", InputDataConfig=[channel(name) for name in channels], **changes)
    body["AlgorithmSpecification"] |= {
        "TrainingImage": image,
        "ContainerEntrypoint": ENTRYPOINT,
        "ContainerArguments": ARGUMENTS,
    }
    return replace(create(key("One"), "job-id", body, {}, 1000), image=training_image())


def plan_of(one: TrainingJob) -> LaunchPlan:
    return launch_plan(
        one, JobDirectories(Path("/data/job")), FakeRuntime(FakeClock()), Endpoint(1234, KeyPair("AKIA", "secret"))
    )


def parameters(one: TrainingJob) -> Any:
    return json.loads(plan_of(one).environment["SAGELET_COMPILER_PARAMETERS"])


def hyperparameters(one: TrainingJob, root: Path) -> Any:
    host = HostDirectories(root)
    host.create()
    inputconfig.write(one, "algo-1", host)
    return json.loads((host.config / "hyperparameters.json").read_text())


def test_the_driver_is_run_by_our_command() -> None:
    plan = plan_of(job())
    assert (plan.entrypoint, plan.arguments) == (DRIVEN, tuple(ARGUMENTS))


@pytest.mark.parametrize(
    ("image", "asked", "expected"),
    [
        (COMPILER, {}, {ENABLED: "true"}),
        (NATIVE, {}, {}),
        (COMPILER, {"HyperParameters": {ENABLED: "false"}}, {ENABLED: "false"}),
        (COMPILER, {"Environment": {ENABLED.upper(): "0"}}, {ENABLED: "0"}),
        (NATIVE, {"Environment": {ENABLED.upper(): "true", DEBUG.upper(): "true"}}, {ENABLED: "true", DEBUG: "true"}),
        (NATIVE, {"Environment": {ENABLED: "true"}}, {}),
        (
            NATIVE,
            {"Environment": {ENABLED.upper(): "true"}, "HyperParameters": {ENABLED: "false", "epochs": "3"}},
            {ENABLED: "false"},
        ),
        ("local/own:1", {"HyperParameters": {ENABLED: "true"}}, {ENABLED: "true"}),
    ],
)
def test_what_switches_compilation_on(image: str, asked: dict[str, Any], expected: dict[str, str]) -> None:
    assert parameters(job(image, **asked)) == expected


def test_the_script_does_not_see_the_compilers_hyperparameters(tmp_path: Path) -> None:
    asked = {ENABLED: "true", DEBUG: "false", "epochs": "3", "sagemaker_other": "kept"}
    one = job(HyperParameters=asked)
    assert hyperparameters(one, tmp_path) == {"epochs": "3", "sagemaker_other": "kept"}
    assert one.request["HyperParameters"] == asked


def test_other_entry_points_and_images_are_left_as_they_are(tmp_path: Path) -> None:
    asked = {ENABLED: "true"}
    own_entry_point = job(channels=("train",), HyperParameters=asked)
    own_image = replace(job(HyperParameters=asked), image="own:1")
    for number, one in enumerate((own_entry_point, own_image)):
        plan = plan_of(one)
        assert plan.entrypoint == tuple(ENTRYPOINT)
        assert "SAGELET_COMPILER_PARAMETERS" not in plan.environment
        assert hyperparameters(one, tmp_path / str(number)) == asked


def test_a_channel_of_that_name_alone_is_no_driver() -> None:
    one = job()
    algorithm = {"TrainingImage": COMPILER, "TrainingInputMode": "File"}
    plan = plan_of(replace(one, request={**one.request, "AlgorithmSpecification": algorithm}))
    assert (plan.entrypoint, plan.arguments) == (None, ("train",))


@pytest.mark.parametrize(("channels", "user"), [(("sagemaker_remote_function_bootstrap",), "root"), (("train",), None)])
def test_the_job_of_a_python_function_is_the_root_user_by_name(channels: tuple[str, ...], user: str | None) -> None:
    # Otherwise the SDK's bootstrap calls sudo.
    assert plan_of(job(channels=channels)).environment.get("LOGNAME") == user
