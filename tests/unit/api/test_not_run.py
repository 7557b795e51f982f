"""What moto would answer with success though nothing ran."""

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld

ROLE = "arn:aws:iam::123456789012:role/r"
TRANSFORM: dict[str, Any] = {
    "TransformJobName": "t",
    "ModelName": "m",
    "TransformInput": {"DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://b/in"}}},
    "TransformOutput": {"S3OutputPath": "s3://b/out"},
    "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
}
CALLS = [
    ("sagemaker", "create_transform_job", TRANSFORM, "CreateTransformJob"),
    ("sagemaker", "create_endpoint", {"EndpointName": "e", "EndpointConfigName": "c"}, "CreateEndpoint"),
    ("sagemaker-runtime", "invoke_endpoint", {"EndpointName": "e", "Body": b"x"}, "InvokeEndpoint"),
]


@pytest.mark.parametrize(("service", "call", "parameters", "name"), CALLS)
def test_it_is_refused_and_named(
    tmp_path: Path, bridge: MotoBridge, service: str, call: str, parameters: dict[str, Any], name: str
) -> None:
    with (
        ApiWorld(tmp_path, bridge) as world,
        pytest.raises(ClientError, match=f"{name} would compute nothing") as caught,
    ):
        getattr(world.client(service), call)(**parameters)
    assert caught.value.response["Error"]["Code"] == "UnknownOperationException"
    assert "--stubs" in caught.value.response["Error"]["Message"]


def test_with_stubs_moto_answers_and_what_only_records_is_always_moto_s(tmp_path: Path, bridge: MotoBridge) -> None:
    with ApiWorld(tmp_path, bridge, stubs=True) as world:
        world.sagemaker.create_transform_job(**TRANSFORM)
        assert world.sagemaker.describe_transform_job(TransformJobName="t")["TransformJobStatus"] == "Completed"
    with ApiWorld(tmp_path / "other", bridge) as world:
        world.sagemaker.create_model(ModelName="not-run", ExecutionRoleArn=ROLE)
        world.sagemaker.delete_model(ModelName="not-run")
