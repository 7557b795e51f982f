"""Definitions with members of the wrong type: refused when they are created, or the step fails. No execution hangs."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld
from support.pipelines import ROLE, compare, condition, definition, fail, get, parameter, step, train
from support.world import until


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        running.objects.put("b", "k", b"1")
        yield running


def create(world: ApiWorld, text: str) -> None:
    world.sagemaker.create_pipeline(
        PipelineName="Pipe", PipelineDefinition=text, RoleArn=ROLE, ClientRequestToken=uuid.uuid4().hex
    )


def nested(levels: int) -> Any:
    found: Any = "x"
    for _ in range(levels):
        found = [found]
    return found


RETRIES = {"ExceptionType": ["Step.THROTTLING"]}
REFUSED = {
    "lists in lists": '{"Version": "2020-12-01", "Steps": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "too deep": definition(fail("F", nested(900))),
    "EnumValues is a number": definition(fail("F", "x"), parameters=[parameter("P", EnumValues=5)]),
    "two parameters of one name": definition(fail("F", "x"), parameters=[parameter("P"), parameter("P")]),
    "RetryPolicies is an object": definition(train("T", RetryPolicies={"a": 1})),
    "a policy without types": definition(train("T", RetryPolicies=[{"MaxAttempts": 3}])),
    "an unknown type in a policy": definition(train("T", RetryPolicies=[{"ExceptionType": ["Step.Nope"]}])),
    "an interval without end": definition(train("T", RetryPolicies=[{**RETRIES, "IntervalSeconds": 1e308}])),
    "a negative interval": definition(train("T", RetryPolicies=[{**RETRIES, "IntervalSeconds": -1}])),
    "an interval in words": definition(train("T", RetryPolicies=[{**RETRIES, "IntervalSeconds": "1"}])),
    "CacheConfig is a list": definition(train("T", CacheConfig=[])),
    "a property file's name is an object": definition(
        step("P", "Processing", {}, PropertyFiles=[{"PropertyFileName": {}, "OutputName": "o", "FilePath": "f"}])
    ),
    "a condition's type is a list": definition(condition("C", [compare(["Equals"], 1, 1)], [])),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_when_it_is_created(world: ApiWorld, name: str) -> None:
    with pytest.raises(ClientError) as refused:
        create(world, REFUSED[name])
    assert refused.value.response["Error"]["Code"] == "ValidationException"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def odd(**more: Any) -> dict[str, Any]:
    given = train("Odd")
    given["Arguments"] |= more
    return given


FAILING = {
    "a job's name is a number": odd(TrainingJobName=get("Parameters.Number")),
    "Join without values": fail("Odd", {"Std:Join": {"On": "-"}}),
    "Join of a number": fail("Odd", {"Std:Join": {"On": "-", "Values": 5}}),
    "Join on a list": fail("Odd", {"Std:Join": {"On": [], "Values": ["a", "b"]}}),
    "JsonGet of a number": fail("Odd", {"Std:JsonGet": {"S3Uri": 5, "Path": "a"}}),
    "In without a list": condition("Odd", [{"Type": "In", "QueryValue": 1, "Values": 5}], []),
}


@pytest.mark.parametrize("name", FAILING)
def test_or_its_step_fails(world: ApiWorld, name: str) -> None:
    text = definition(FAILING[name], parameters=[parameter("Number", "Integer", 3)])
    create(world, text)
    arn = world.sagemaker.start_pipeline_execution(PipelineName="Pipe", ClientRequestToken=uuid.uuid4().hex)[
        "PipelineExecutionArn"
    ]

    def ended() -> bool:
        found = world.sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)
        return bool(found["PipelineExecutionStatus"] == "Failed")

    assert until(ended)
    (only,) = world.sagemaker.list_pipeline_execution_steps(PipelineExecutionArn=arn)["PipelineExecutionSteps"]
    assert only["StepStatus"] == "Failed"
    assert only["FailureReason"]


def test_half_of_a_surrogate_pair_and_a_long_text_are_shown(world: ApiWorld) -> None:
    create(world, definition(fail("F", "\ud800" + "x" * 5000)))
    arn = world.sagemaker.start_pipeline_execution(PipelineName="Pipe", ClientRequestToken=uuid.uuid4().hex)[
        "PipelineExecutionArn"
    ]

    def reason() -> str:
        listed = world.sagemaker.list_pipeline_execution_steps(PipelineExecutionArn=arn)["PipelineExecutionSteps"]
        return str(listed[0].get("FailureReason", "")) if listed else ""

    assert until(lambda: len(reason()) == 1024)
    shown = world.sagemaker.describe_pipeline(PipelineName="Pipe")["PipelineDefinition"]
    assert json.loads(shown)["Steps"][0]["Name"] == "F"
