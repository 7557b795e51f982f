"""docs/reference/pipeline-api.md: complete, made from its data, and true of the program."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pipeline_api
import pytest
import training_job_api
from botocore.exceptions import ClientError
from pipeline_api import OPERATIONS
from training_job_api import Row

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld
from support.pipelines import ROLE, definition, fail

TESTS = Path(__file__).parents[2]
MODEL, DATA = training_job_api.service_model(), training_job_api.classification()
CREATE = {"PipelineName": "Pipe", "RoleArn": ROLE, "ClientRequestToken": "t" * 32}
FROM_S3 = {"PipelineDefinitionS3Location": {"Bucket": "texts", "ObjectKey": "d.json", "VersionId": "1"}}
#: For each refused entry of members.toml a request that has it.
REFUSED: dict[tuple[str, str], dict[str, Any]] = {
    ("CreatePipeline", "PipelineDefinitionS3Location.VersionId"): {**CREATE, **FROM_S3},
    ("UpdatePipeline", "PipelineDefinitionS3Location.VersionId"): {"PipelineName": "Old", **FROM_S3},
    ("StartPipelineExecution", "RoleArn"): {"PipelineName": "Old", "RoleArn": ROLE, "ClientRequestToken": "s" * 32},
}


def rows(operation: str) -> list[Row]:
    return training_job_api.request_rows(operation, MODEL.operation_model(operation).input_shape, DATA[operation])


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        text = definition(fail("end", "x"))
        running.sagemaker.create_pipeline(**{**CREATE, "PipelineName": "Old"}, PipelineDefinition=text)
        running.objects.put("texts", "d.json", text.encode())
        yield running


def test_the_page_is_what_the_program_makes() -> None:
    assert pipeline_api.PAGE.read_text(encoding="utf-8") == pipeline_api.page(), "run `make docs`"


def test_every_operation_on_pipelines_has_its_table_and_is_sagelet_s(world: ApiWorld) -> None:
    about_pipelines = {name for name in MODEL.operation_names if "Pipeline" in name}
    assert about_pipelines == {*OPERATIONS}
    assert about_pipelines <= world.sagelet.own.tables["sagemaker"].keys()


@pytest.mark.parametrize("row", [row for name in OPERATIONS for row in rows(name) if row.verdict == "honoured"])
def test_the_test_of_an_honoured_member_is_there(row: Row) -> None:
    file, _, name = row.test.partition("::")
    assert f"def {name}(" in (TESTS / file).read_text(encoding="utf-8"), row.path


def test_every_refused_entry_is_tried() -> None:
    assert REFUSED.keys() == {(name, row.path) for name in OPERATIONS for row in rows(name) if row.verdict == "refused"}


@pytest.mark.parametrize(("operation", "path"), REFUSED)
def test_a_refused_member_gets_the_error_of_the_table(world: ApiWorld, operation: str, path: str) -> None:
    error, text, _ = DATA[operation]["refused"][path]
    call = {
        "CreatePipeline": world.sagemaker.create_pipeline,
        "UpdatePipeline": world.sagemaker.update_pipeline,
        "StartPipelineExecution": world.sagemaker.start_pipeline_execution,
    }[operation]
    with pytest.raises(ClientError) as caught:
        call(**REFUSED[operation, path])
    answer = caught.value.response
    assert (answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]) == (error, 400)
    assert text in answer["Error"]["Message"]
