"""The calls of Terraform's resources aws_sagemaker_training_job and aws_sagemaker_hyper_parameter_tuning_job, and what
its provider reads in the answers (hashicorp/terraform-provider-aws, internal/service/sagemaker).

Create, read, a change of tags, destroy while the job runs, and a read of what is gone. The provider compares what it
reads with the configuration: a member that comes back otherwise is "an unexpected new value".
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld
from support.tuning import tuning_request
from support.tuning_world import end, running, status
from support.world import request, until

TAGS = [{"Key": "team", "Value": "ads"}]


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        running.objects.put("b", "k", b"1")
        yield running


def refusal(call: Any, **parameters: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    return caught.value.response["Error"]["Code"], caught.value.response["Error"]["Message"]


def unexpected(configured: Any, shown: Any, path: str = "") -> Iterator[str]:
    """Yields the paths of members that do not come back as they were configured. Further members are computed."""
    if isinstance(configured, Mapping):
        for name, value in configured.items():
            if name not in shown:
                yield f"{path}.{name} is missing"
            else:
                yield from unexpected(value, shown[name], f"{path}.{name}")
    elif isinstance(configured, list) and len(configured) == len(shown):
        for place, value in enumerate(configured):
            yield from unexpected(value, shown[place], f"{path}[{place}]")
    elif configured != shown:
        yield f"{path}: {configured!r} became {shown!r}"


def test_a_training_job_is_created_read_tagged_and_destroyed(world: ApiWorld) -> None:
    sagemaker, name = world.sagemaker, {"TrainingJobName": "tf"}
    configured = request(
        "tf",
        Environment={"A": "b"}, CheckpointConfig={"S3Uri": "s3://ck/run/", "LocalPath": "/opt/ml/checkpoints"},
        EnableNetworkIsolation=False, EnableInterContainerTrafficEncryption=False, EnableManagedSpotTraining=False,
        RetryStrategy={"MaximumRetryAttempts": 2},
    )  # fmt: skip
    arn = sagemaker.create_training_job(**configured, Tags=TAGS)["TrainingJobArn"]
    # The provider waits for a status beside InProgress, or reads on.
    shown = sagemaker.describe_training_job(**name)
    assert shown["TrainingJobArn"] == arn
    assert [*unexpected(configured, shown)] == []
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == TAGS
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "stage", "Value": "dev"}])
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["team"])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "stage", "Value": "dev"}]
    # Destroy: a job that is InProgress is stopped, waited for, and deleted.
    host = world.host("tf")
    sagemaker.stop_training_job(**name)
    until(lambda: world.job("tf").stop_ms is not None)
    host.end(0)
    until(lambda: sagemaker.describe_training_job(**name)["TrainingJobStatus"] == "Stopped")
    sagemaker.delete_training_job(**name)
    for call in (sagemaker.describe_training_job, sagemaker.delete_training_job):
        code, text = refusal(call, **name)
        assert (code, "Requested resource not found" in text) == ("ValidationException", True)


def test_a_tuning_job_is_created_read_and_destroyed_while_it_runs(world: ApiWorld) -> None:
    sagemaker, name = world.sagemaker, {"HyperParameterTuningJobName": "tf"}
    configured = tuning_request("tf")
    arn = sagemaker.create_hyper_parameter_tuning_job(**configured, Tags=TAGS)["HyperParameterTuningJobArn"]
    shown = sagemaker.describe_hyper_parameter_tuning_job(**name)
    assert shown["HyperParameterTuningJobArn"] == arn
    assert [*unexpected(configured, shown)] == []
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == TAGS
    # Destroy: by these words the provider knows that it has to stop it first, and tries again until it has ended.
    code, text = refusal(sagemaker.delete_hyper_parameter_tuning_job, **name)
    assert (code, "not in a terminal state" in text) == ("ValidationException", True)
    jobs = running(world, 2, "tf")
    sagemaker.stop_hyper_parameter_tuning_job(**name)
    for job in jobs:
        end(world, job, 0.5)
    until(lambda: status(world, "tf") == "Stopped")
    sagemaker.delete_hyper_parameter_tuning_job(**name)
    assert refusal(sagemaker.describe_hyper_parameter_tuning_job, **name)[0] == "ResourceNotFound"
