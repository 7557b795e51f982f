"""Tuning jobs of a running server: what the tests of their API do with them."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.api_world import ApiWorld
from support.tuning import tuning_request
from support.world import until


def create(world: ApiWorld, name: str = "Tune", *, tags: dict[str, str] | None = None, **given: Any) -> dict[str, Any]:
    body = tuning_request(name, **given)
    if tags:
        body["Tags"] = [{"Key": tag, "Value": value} for tag, value in tags.items()]
    answer: dict[str, Any] = world.sagemaker.create_hyper_parameter_tuning_job(**body)
    return answer


def described(world: ApiWorld, name: str = "Tune") -> dict[str, Any]:
    answer: dict[str, Any] = world.sagemaker.describe_hyper_parameter_tuning_job(HyperParameterTuningJobName=name)
    return answer


def listed(world: ApiWorld, name: str = "Tune", **asked: Any) -> list[dict[str, Any]]:
    pages = world.sagemaker.get_paginator("list_training_jobs_for_hyper_parameter_tuning_job")
    found = pages.paginate(HyperParameterTuningJobName=name, **asked)
    return [one for page in found for one in page["TrainingJobSummaries"]]


def running(world: ApiWorld, count: int, name: str = "Tune") -> list[str]:
    """Waits until so many training jobs run. Returns their names."""

    def names() -> list[str]:
        return [one["TrainingJobName"] for one in listed(world, name, StatusEquals="InProgress")]

    until(lambda: len(names()) == count)
    return names()


def end(world: ApiWorld, job: str, loss: float | None, code: int = 0) -> None:
    """Ends a training job, and waits until its tuning job knows."""
    host = world.host(job)
    until(lambda: world.job(job).launched)
    if loss is not None:
        host.say("loss=9", f"loss={loss}")
    host.end(code)
    tuning = job.rpartition("-")[0].rpartition("-")[0]
    until(
        lambda: any(
            one["TrainingJobName"] == job and one["ObjectiveStatus"] != "Pending" for one in listed(world, tuning)
        )
    )


def status(world: ApiWorld, name: str = "Tune") -> str:
    found: str = described(world, name)["HyperParameterTuningJobStatus"]
    return found


def refused(call: Any, **parameters: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    return caught.value.response["Error"]["Code"], caught.value.response["Error"]["Message"]
