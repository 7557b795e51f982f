"""CreateTrainingJob refuses an image that AWS could not pull, in AWS's words, if it is not here either."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.base.errors import ClientFault, RuntimeUnavailable
from sagelet_engine.scheduling import image_choice
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.world import request

MINE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/team/trainer:1"
PRIVATE = "TrainingImageConfig with TrainingRepositoryAccessMode set to VPC must be provided"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    bridge.process.forget()
    with ApiWorld(tmp_path, bridge) as world:
        yield world


def with_image(image: str, **more: Any) -> dict[str, Any]:
    return request("one", AlgorithmSpecification={"TrainingImage": image, "TrainingInputMode": "File", **more})


def refusal(world: ApiWorld, image: str) -> str:
    with pytest.raises(ClientError) as caught:
        world.sagemaker.create_training_job(**with_image(image))
    error = caught.value.response["Error"]
    assert error["Code"] == "ValidationException"
    assert f"`sagelet image map {image} LOCAL_IMAGE`" in error["Message"]
    return error["Message"]


def test_a_repository_that_ecr_does_not_have(world: ApiWorld) -> None:
    role = request("one")["RoleArn"]
    assert refusal(world, MINE).startswith(
        f"Cannot find repository: team/trainer in registry ID: {ACCOUNT} Please check if your ECR repository exists "
        f"and role {role} has proper pull permissions for SageMaker: ecr:BatchCheckLayerAvailability, "
        "ecr:BatchGetImage, ecr:GetDownloadUrlForLayer"
    )


@pytest.mark.parametrize("region", ["mars-north-1", "us-west-2"])
def test_a_repository_of_another_region(world: ApiWorld, region: str) -> None:
    world.client("ecr").create_repository(repositoryName="team/trainer")
    assert "Cannot find repository: team/trainer" in refusal(world, MINE.replace(REGION, region))


def test_a_repository_without_the_image_is_the_jobs_failure(world: ApiWorld) -> None:
    world.client("ecr").create_repository(repositoryName="team/trainer")
    world.sagemaker.create_training_job(**with_image(MINE))
    job = world.ended("one")
    assert job.failure_reason is not None
    assert f"No image stands in for {MINE}" in job.failure_reason


@pytest.mark.parametrize("image", ["docker.io/team/trainer:1", "localhost:5000/trainer", "public.ecr.aws/x/y:1"])
def test_a_registry_that_is_not_ecr(world: ApiWorld, image: str) -> None:
    assert refusal(world, image).startswith(PRIVATE)


def test_a_registry_in_the_vpc_is_left_to_the_job(world: ApiWorld) -> None:
    body = with_image("registry.corp:5000/trainer", TrainingImageConfig={"TrainingRepositoryAccessMode": "Vpc"})
    world.sagemaker.create_training_job(**body)
    assert "No image stands in for" in (world.ended("one").failure_reason or "")


@pytest.mark.parametrize("image", [MINE, "docker.io/team/trainer:1", "trainer"])
def test_an_image_that_is_here_is_taken_whatever_its_name(world: ApiWorld, image: str) -> None:
    world.runtime.images.add(image)
    world.sagemaker.create_training_job(**with_image(image))
    assert world.host("one").plan.image == image


def test_a_name_without_a_registry_is_left_to_the_job(world: ApiWorld) -> None:
    world.sagemaker.create_training_job(**with_image("team/trainer"))
    assert "No image stands in for team/trainer" in (world.ended("one").failure_reason or "")


def test_a_runtime_that_can_run_no_such_image(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def has_image(image: str) -> bool:
        raise ClientFault("this runtime runs one image only")

    monkeypatch.setattr(world.runtime, "has_image", has_image)
    assert refusal(world, "docker.io/team/trainer:1").startswith(PRIVATE)


def test_nothing_is_refused_while_the_runtime_does_not_answer(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([RuntimeUnavailable("no engine")])

    def has_image(image: str) -> bool:
        for error in answers:
            raise error
        return False

    monkeypatch.setattr(world.runtime, "has_image", has_image)
    world.sagemaker.create_training_job(**with_image(MINE))
    assert "No image stands in for" in (world.ended("one").failure_reason or "")


def test_nobody_waits_long_for_a_runtime_that_hangs(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def has_image(image: str) -> bool:
        return not released.wait(60)

    monkeypatch.setattr(image_choice, "TIMEOUT_S", 0.01)
    monkeypatch.setattr(world.runtime, "has_image", has_image)
    world.sagemaker.create_training_job(**with_image(MINE))
    assert world.engine.inputs.knows_image(MINE)
    assert not world.job("one").terminal
    released.set()
    assert "No image stands in for" in (world.ended("one").failure_reason or "")
