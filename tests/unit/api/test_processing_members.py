"""docs/reference/processing-job-api.md: complete, made from its data, and true of the program."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import processing_job_api
import pytest
import training_job_api
from botocore.exceptions import ClientError
from processing_job_api import DESCRIBE, OPERATIONS
from training_job_api import Row

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld
from support.processing import cluster, given, processing_request, result

TESTS = Path(__file__).parents[2]
MODEL, DATA = training_job_api.service_model(), training_job_api.classification()
IN = "/opt/ml/processing/in"


def rows(operation: str) -> list[Row]:
    return training_job_api.request_rows(operation, MODEL.operation_model(operation).input_shape, DATA[operation])


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        yield running


def test_the_page_is_what_the_program_makes() -> None:
    assert processing_job_api.PAGE.read_text(encoding="utf-8") == processing_job_api.page(), "run `make docs`"


def test_every_operation_on_processing_jobs_has_its_table() -> None:
    about_jobs = {name for name in MODEL.operation_names if re.search(r"ProcessingJobs?$", name)}
    assert about_jobs == {*OPERATIONS, DESCRIBE}


@pytest.mark.parametrize("row", [row for name in OPERATIONS for row in rows(name) if row.verdict == "honoured"])
def test_the_test_of_an_honoured_member_is_there(row: Row) -> None:
    file, _, name = row.test.partition("::")
    assert f"def {name}(" in (TESTS / file).read_text(encoding="utf-8"), row.path


def inputs(**source: Any) -> dict[str, Any]:
    return {"ProcessingInputs": [given("i", "s3://b/in", IN, **source)]}


ATHENA = {"Catalog": "c", "Database": "d", "QueryString": "q", "OutputS3Uri": "s3://b/q", "OutputFormat": "JSON"}
#: For each refused entry of members.toml what makes a good body have it.
REFUSED: dict[str, dict[str, Any]] = {
    "ProcessingInputs[].DatasetDefinition.*": {
        "ProcessingInputs": [{"InputName": "i", "DatasetDefinition": {"AthenaDatasetDefinition": ATHENA}}]
    },
    "ProcessingInputs[].S3Input.S3InputMode=Pipe": inputs(S3InputMode="Pipe"),
    "ProcessingInputs[].S3Input.S3CompressionType=Gzip": inputs(S3CompressionType="Gzip"),
    "ProcessingOutputConfig.Outputs[].FeatureStoreOutput.*": {
        "ProcessingOutputConfig": {
            "Outputs": [{"OutputName": "o", "AppManaged": True, "FeatureStoreOutput": {"FeatureGroupName": "g"}}]
        }
    },
    "ProcessingResources.ClusterConfig.InstanceCount=9": cluster(InstanceCount=9),
    "ProcessingResources.ClusterConfig.InstancePreferences.*": {
        "ProcessingResources": {
            "ClusterConfig": {"VolumeSizeInGB": 1, "InstancePreferences": [{"InstanceType": "ml.m5.large"}]}
        }
    },
    "ProcessingResources.ClusterConfig.SelectedInstanceType": cluster(SelectedInstanceType="ml.m5.large"),
    "ProcessingResources.ClusterConfig.SelectedInstanceCount": cluster(SelectedInstanceCount=1),
}


def test_every_refused_entry_is_tried() -> None:
    assert REFUSED.keys() == DATA["CreateProcessingJob"]["refused"].keys()


@pytest.mark.parametrize("path", REFUSED)
def test_a_refused_member_gets_the_error_of_the_table(world: ApiWorld, path: str) -> None:
    error, text, _ = DATA["CreateProcessingJob"]["refused"][path]
    with pytest.raises(ClientError) as caught:
        world.sagemaker.create_processing_job(**processing_request("one", **REFUSED[path]))
    answer = caught.value.response
    assert (answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]) == (error, 400)
    assert text in answer["Error"]["Message"]
    assert world.sagemaker.list_processing_jobs()["ProcessingJobSummaries"] == []


def test_describe_has_only_members_of_its_table(world: ApiWorld) -> None:
    world.objects.put("b", "k", b"")
    outputs = {"ProcessingOutputConfig": {"Outputs": [result("o", "s3://b/o", "/opt/ml/processing/out")]}}
    world.sagemaker.create_processing_job(**processing_request("one", **outputs))
    _, answer = world.call("DescribeProcessingJob", {"ProcessingJobName": "one"})
    verdicts = {row.path: row.verdict for row in training_job_api.describe_rows(MODEL, DATA, "ProcessingJob")}
    assert {verdicts[name] for name in answer} <= {"set", "request"}
