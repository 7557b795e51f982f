"""Definitions with members of the wrong type: refused when they are created, or the step fails. No execution hangs."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.pipelines.definition import parse
from sagelet_engine.pipelines.steps import KINDS
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


def start(world: ApiWorld) -> str:
    asked = {"PipelineName": "Pipe", "ClientRequestToken": uuid.uuid4().hex}
    return str(world.sagemaker.start_pipeline_execution(**asked)["PipelineExecutionArn"])


def failure(world: ApiWorld, arn: str) -> str:
    """Waits until an execution of one step has failed, and returns the step's reason."""

    def failed() -> bool:
        found = world.sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)
        return bool(found["PipelineExecutionStatus"] == "Failed")

    assert until(failed)
    (only,) = world.sagemaker.list_pipeline_execution_steps(PipelineExecutionArn=arn)["PipelineExecutionSteps"]
    assert only["StepStatus"] == "Failed"
    return str(only["FailureReason"])


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
    arn = start(world)
    assert failure(world, arn)


def test_half_of_a_surrogate_pair_and_a_long_text_are_shown(world: ApiWorld) -> None:
    create(world, definition(fail("F", "\ud800" + "x" * 5000)))
    arn = start(world)

    def reason() -> str:
        listed = world.sagemaker.list_pipeline_execution_steps(PipelineExecutionArn=arn)["PipelineExecutionSteps"]
        return str(listed[0].get("FailureReason", "")) if listed else ""

    assert until(lambda: len(reason()) == 1024)
    shown = world.sagemaker.describe_pipeline(PipelineName="Pipe")["PipelineDefinition"]
    assert json.loads(shown)["Steps"][0]["Name"] == "F"


@pytest.mark.parametrize("name", ["RetryPolicies is an object", "CacheConfig is a list", "an interval in words"])
def test_what_an_earlier_sagelet_stored_does_not_hang(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("sagelet_engine.pipelines.facet.check", parse)
    given = json.loads(REFUSED[name])
    given["Steps"][0]["Arguments"] = {"AlgorithmSpecification": "wrong"}
    create(world, json.dumps(given))
    assert failure(world, start(world))


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("RegisterModel", {"ModelPackageGroupName": "g", "InferenceSpecification": "x"}),
        ("RegisterModel", {"ModelPackageDescription": [1]}),
        ("Model", {"PrimaryContainer": "image"}),
    ],
)
def test_a_request_for_moto_is_validated(world: ApiWorld, kind: str, arguments: dict[str, Any]) -> None:
    create(world, definition(step("S", kind, arguments)))
    assert failure(world, start(world)).startswith("SerializationException: ")


def test_a_step_that_cannot_be_stopped_ends(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    create(world, definition(train("T")))
    arn = start(world)

    def state() -> str:
        listed = world.sagemaker.list_pipeline_execution_steps(PipelineExecutionArn=arn)["PipelineExecutionSteps"]
        return str(listed[0]["StepStatus"]) if listed else ""

    assert until(lambda: state() == "Executing")

    def wrong(*_arguments: Any) -> None:
        raise TypeError("not a name")

    monkeypatch.setattr(type(KINDS["Training"]), "stop", wrong)
    world.sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn, ClientRequestToken=uuid.uuid4().hex)
    assert until(lambda: state() == "Failed")
