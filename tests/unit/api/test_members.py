"""docs/reference/training-job-api.md: complete, made from its data, and true of the program."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import training_job_api
from botocore.exceptions import ClientError
from training_job_api import DESCRIBE, OPERATIONS, Row, Unclassified

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld
from support.tuning import tuning_request
from support.world import request, until

TESTS = Path(__file__).parents[2]
MODEL, DATA = training_job_api.service_model(), training_job_api.classification()


def rows(operation: str) -> list[Row]:
    return training_job_api.request_rows(operation, MODEL.operation_model(operation).input_shape, DATA[operation])


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        running.objects.put("b", "k", b"1")
        yield running


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_is_what_the_program_makes() -> None:
    assert training_job_api.PAGE.read_text(encoding="utf-8") == training_job_api.page(), "run `make docs`"


def test_every_operation_on_training_jobs_has_its_table() -> None:
    about_jobs = {name for name in MODEL.operation_names if re.search(r"TrainingJob(s|sFor\w+)?$", name)}
    assert about_jobs - {"DescribeHyperParameterTuningJob"} <= {*OPERATIONS, DESCRIBE}


def test_a_member_in_no_table_and_one_that_is_not_in_the_model_are_found() -> None:
    shape = MODEL.operation_model("CreateTrainingJob").input_shape
    data = DATA["CreateTrainingJob"]
    without = {**data, "honoured": {name: row for name, row in data["honoured"].items() if name != "RoleArn"}}
    with pytest.raises(Unclassified, match="RoleArn is in the model and not in"):
        training_job_api.request_rows("CreateTrainingJob", shape, without)
    beyond = {**data, "echoed": {**data["echoed"], "CoffeeConfig.*": "no coffee"}}
    with pytest.raises(Unclassified, match=r"CoffeeConfig\.\*: in members.toml and not in the model"):
        training_job_api.request_rows("CreateTrainingJob", shape, beyond)
    twice = {**data, "echoed": {**data["echoed"], "RoleArn": "again"}}
    with pytest.raises(Unclassified, match="RoleArn is classified twice"):
        training_job_api.request_rows("CreateTrainingJob", shape, twice)


@pytest.mark.parametrize("row", [row for name in OPERATIONS for row in rows(name) if row.verdict == "honoured"])
def test_the_test_of_an_honoured_member_is_there(row: Row) -> None:
    file, _, name = row.test.partition("::")
    assert f"def {name}(" in (TESTS / file).read_text(encoding="utf-8"), row.path


# --- refused members --------------------------------------------------------------------------------------------------

SOURCE = {"S3DataType": "S3Prefix", "S3Uri": "s3://b/k"}
DATASET = {"DatasetArn": "arn:aws:sagemaker:us-east-1:123456789012:hub-content/hub/DataSet/data/1.0.0"}
BASE_MODEL = "arn:aws:sagemaker:us-east-1:123456789012:hub-content/hub/Model/m/1.0.0"


def resources(**changes: Any) -> dict[str, Any]:
    return {"ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1, **changes}}


def channel(source: dict[str, Any]) -> dict[str, Any]:
    return {"InputDataConfig": [{"ChannelName": "c", "DataSource": source}]}


#: For each refused entry of members.toml what makes a good body have it.
REFUSED: dict[str, dict[str, Any]] = {
    "AlgorithmSpecification.AlgorithmName": {
        "AlgorithmSpecification": {"AlgorithmName": "xgboost", "TrainingInputMode": "File"}
    },
    "InputDataConfig[].DataSource.DatasetSource.*": channel({"DatasetSource": DATASET}),
    "InputDataConfig[].DataSource.S3DataSource.S3DataType=Converse": channel(
        {"S3DataSource": {**SOURCE, "S3DataType": "Converse"}}
    ),
    "ResourceConfig.InstanceCount=9": resources(InstanceCount=9),
    "ResourceConfig.InstancePreferences.*": {
        "ResourceConfig": {"InstancePreferences": [{"InstanceType": "ml.m5.large", "InstanceCount": 1}]}
    },
    "ResourceConfig.SelectedInstanceType": resources(SelectedInstanceType="ml.m5.large"),
    "ResourceConfig.SelectedInstanceCount": resources(SelectedInstanceCount=1),
    "ServerlessJobConfig.*": {"ServerlessJobConfig": {"BaseModelArn": BASE_MODEL, "JobType": "FineTuning"}},
}


def test_every_refused_entry_is_tried() -> None:
    assert REFUSED.keys() == DATA["CreateTrainingJob"]["refused"].keys()


@pytest.mark.parametrize("path", REFUSED)
def test_a_refused_member_gets_the_error_of_the_table(world: ApiWorld, path: str) -> None:
    error, text, _ = DATA["CreateTrainingJob"]["refused"][path]
    with pytest.raises(ClientError) as caught:
        world.sagemaker.create_training_job(**request("one", **REFUSED[path]))
    answer = caught.value.response
    assert (answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]) == (error, 400)
    assert text in answer["Error"]["Message"]
    assert world.sagemaker.list_training_jobs()["TrainingJobSummaries"] == []


# --- what DescribeTrainingJob answers ---------------------------------------------------------------------------------


def seen(value: Any, prefix: str = "") -> Iterator[str]:
    """The paths of an answer's members; the keys of maps are none."""
    for name, item in value.items():
        yield f"{prefix}{name}"
        inner, step = (item[0], "[]") if isinstance(item, list) and item else (item, "")
        if isinstance(inner, dict) and name not in ("HyperParameters", "Environment"):
            yield from seen(inner, f"{prefix}{name}{step}.")


def test_members_that_sagelet_sets_are_there_and_others_never(world: ApiWorld) -> None:
    metrics = [{"Name": "loss", "Regex": r"loss=(\S+)"}]
    algorithm = {**request("x")["AlgorithmSpecification"], "MetricDefinitions": metrics}
    shown: set[str] = set()
    warm = resources(KeepAlivePeriodInSeconds=60)
    rule = {"RuleConfigurationName": "r", "RuleEvaluatorImage": "rules"}
    rules = {"DebugRuleConfigurations": [rule], "ProfilerRuleConfigurations": [rule]}
    for name, code in (("good", 0), ("bad", 1)):
        world.sagemaker.create_training_job(**request(name, AlgorithmSpecification=algorithm, **warm, **rules))
        shown |= {*seen(world.call("DescribeTrainingJob", {"TrainingJobName": name})[1])}
        host = world.host(name)
        until(lambda name=name: world.job(name).launched)
        host.say("loss=1.5")
        host.end(code)
        world.ended(name)
        shown |= {*seen(world.call("DescribeTrainingJob", {"TrainingJobName": name})[1])}
    world.sagemaker.create_hyper_parameter_tuning_job(**tuning_request("tune"))
    tuned = "list_training_jobs_for_hyper_parameter_tuning_job"
    ask = partial(getattr(world.sagemaker, tuned), HyperParameterTuningJobName="tune")
    until(lambda: ask()["TrainingJobSummaries"])
    trial = ask()["TrainingJobSummaries"][0]["TrainingJobName"]
    shown |= {*seen(world.call("DescribeTrainingJob", {"TrainingJobName": trial})[1])}
    # The second job took the first one's warm pool.
    shown |= {*seen(world.call("DescribeTrainingJob", {"TrainingJobName": "good"})[1])}
    members = {row.path: row for row in training_job_api.describe_rows(MODEL, DATA)}
    assert shown <= members.keys()
    assert {path for path, row in members.items() if row.verdict == "set"} <= shown
    assert not {path for path, row in members.items() if row.verdict == "never"} & shown


@pytest.mark.parametrize(
    ("config", "status"),
    [({"DisableProfiler": True}, "Disabled"), ({"S3OutputPath": "s3://b/p"}, "Enabled"), (None, "Disabled")],
)
def test_profiling_status(world: ApiWorld, config: dict[str, Any] | None, status: str) -> None:
    world.sagemaker.create_training_job(**request("one", **({} if config is None else {"ProfilerConfig": config})))
    assert world.sagemaker.describe_training_job(TrainingJobName="one")["ProfilingStatus"] == status
