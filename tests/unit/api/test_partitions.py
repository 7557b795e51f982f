"""ARNs of regions in China and GovCloud have their own partition, and are read whole."""

import json
from collections.abc import Iterator
from pathlib import Path

import botocore
import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.model import arns
from support.api_world import ACCOUNT, ApiWorld
from support.pipelines import ROLE, definition, fail
from support.processing import processing_request
from support.tuning import tuning_request
from support.world import request

PARTITIONS = {"us-east-1": "aws", "cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov"}


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        running.objects.put("b", "k", b"1")
        yield running


def test_the_partition_of_every_region_is_that_of_botocore() -> None:
    partitions = json.loads((Path(botocore.__file__).parent / "data/partitions.json").read_text())["partitions"]
    wrong = [
        (region, one["id"])
        for one in partitions
        for region in one["regions"]
        if not region.endswith("-global") and arns.partition(region) != one["id"]
    ]
    assert wrong == []
    assert len(partitions) >= 7


@pytest.mark.parametrize(("region", "partition"), PARTITIONS.items())
def test_each_kind_has_the_partition_of_its_region(world: ApiWorld, region: str, partition: str) -> None:
    sagemaker, logs = world.client("sagemaker", region), world.client("logs", region)
    tags = {"Tags": [{"Key": "team", "Value": "ads"}]}
    start = f"arn:{partition}:sagemaker:{region}:{ACCOUNT}:"
    made = {
        "training-job/one": sagemaker.create_training_job(**request("one"), **tags)["TrainingJobArn"],
        "processing-job/two": sagemaker.create_processing_job(**processing_request("two"), **tags)["ProcessingJobArn"],
        "hyper-parameter-tuning-job/three": sagemaker.create_hyper_parameter_tuning_job(
            **tuning_request("three"), **tags
        )["HyperParameterTuningJobArn"],
        "pipeline/four": sagemaker.create_pipeline(
            PipelineName="four", RoleArn=ROLE, ClientRequestToken="t" * 32,
            PipelineDefinition=definition(fail("Ends", "over")), **tags,
        )["PipelineArn"],
    }  # fmt: skip
    assert made == {name: f"{start}{name}" for name in made}
    for arn in made.values():
        assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == tags["Tags"]
    execution = sagemaker.start_pipeline_execution(PipelineName="four", ClientRequestToken="s" * 32)
    assert execution["PipelineExecutionArn"].startswith(f"{start}pipeline/four/execution/")
    described = sagemaker.describe_pipeline_execution(PipelineExecutionArn=execution["PipelineExecutionArn"])
    assert described["PipelineArn"] == made["pipeline/four"]
    # Other tests share these log groups.
    logs.create_log_group(logGroupName="of-partitions")
    (group,) = logs.describe_log_groups(logGroupNamePrefix="of-partitions")["logGroups"]
    assert group["logGroupArn"] == f"arn:{partition}:logs:{region}:{ACCOUNT}:log-group:of-partitions"


@pytest.mark.parametrize("kind", ["training-job", "processing-job", "hyper-parameter-tuning-job", "pipeline"])
@pytest.mark.parametrize(
    "start", ["arn:aws-cn:sagemaker:us-east-1:123456789012", "arn:aws:sagemaker:eu-west-1:123456789012",
              "arn:aws:sagemaker:us-east-1:999999999999"],
    ids=["partition", "region", "account"],
)  # fmt: skip
def test_an_arn_of_elsewhere_is_not_found(world: ApiWorld, kind: str, start: str) -> None:
    world.sagemaker.create_training_job(**request("it"))
    world.sagemaker.create_processing_job(**processing_request("it"))
    world.sagemaker.create_hyper_parameter_tuning_job(**tuning_request("it"))
    world.sagemaker.create_pipeline(
        PipelineName="it", RoleArn=ROLE, ClientRequestToken="t" * 32,
        PipelineDefinition=definition(fail("Ends", "over")),
    )  # fmt: skip
    assert world.sagemaker.list_tags(ResourceArn=f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:{kind}/it")["Tags"] == []
    with pytest.raises(ClientError) as refused:
        world.sagemaker.list_tags(ResourceArn=f"{start}:{kind}/it")
    assert refused.value.response["Error"]["Code"] in ("ValidationException", "ResourceNotFound")
    if kind != "pipeline":
        return
    for ask in (world.sagemaker.describe_pipeline, world.sagemaker.list_pipeline_executions):
        with pytest.raises(ClientError, match="ResourceNotFound"):
            ask(PipelineName=f"{start}:pipeline/it")
