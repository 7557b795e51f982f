"""CreateTrainingJob refuses a job whose results would have no place."""

from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld
from support.world import request


@pytest.mark.parametrize(
    ("missing", "member"), [("out", "OutputDataConfig.S3OutputPath"), ("ck", "CheckpointConfig.S3Uri")]
)
def test_buckets_that_results_go_to_must_exist(tmp_path: Path, bridge: MotoBridge, missing: str, member: str) -> None:
    body = request("one", CheckpointConfig={"S3Uri": "s3://ck/run"})
    with ApiWorld(tmp_path, bridge) as world:
        world.objects.missing.add(missing)
        with pytest.raises(ClientError) as caught:
            world.sagemaker.create_training_job(**body)
        error = caught.value.response["Error"]
        assert error["Code"] == "ValidationException"
        assert error["Message"].startswith(f"{member}: the S3 bucket {missing} does not exist")
        world.objects.missing.clear()
        assert world.sagemaker.create_training_job(**body)["TrainingJobArn"]
