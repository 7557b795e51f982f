"""Definitions with members of the wrong type: refused when they are created, or the step fails. No execution hangs."""

import json
import re
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


def odd(**more: Any) -> dict[str, Any]:
    given = train("Odd")
    given["Arguments"] |= more
    return given


def message(function: Any) -> str:
    return definition(fail("Odd", function))


def if_(**check: Any) -> str:
    return definition(condition("Odd", [check], []))


def of(kind: str, arguments: Any, **more: Any) -> str:
    return definition(step("Odd", kind, arguments, **more))


#: Each with what its error must say.
REFUSED = {
    "lists in lists": ('{"Version": "2020-12-01", "Steps": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deep"),
    "too deep": (definition(fail("F", nested(900))), "nested"),
    "not a number": (
        '{"Steps": [{"Name": "F", "Type": "Fail", "Arguments": {"ErrorMessage": NaN}}]}',
        "it has NaN",
    ),
    "EnumValues is a number": (
        definition(fail("F", "x"), parameters=[parameter("P", EnumValues=5)]),
        "EnumValues of parameter P",
    ),
    "EnumValues are numbers": (
        definition(fail("F", "x"), parameters=[parameter("P", EnumValues=[5])]),
        "EnumValues of parameter P",
    ),
    "two parameters of one name": (
        definition(fail("F", "x"), parameters=[parameter("P"), parameter("P")]),
        "the same name",
    ),
    "RetryPolicies is an object": (definition(train("T", RetryPolicies={"a": 1})), "RetryPolicies must be"),
    "a policy without types": (definition(train("T", RetryPolicies=[{"MaxAttempts": 3}])), "ExceptionType"),
    "an unknown type in a policy": (
        definition(train("T", RetryPolicies=[{"ExceptionType": ["Step.Nope"]}])),
        "ExceptionType",
    ),
    "an interval without end": (
        definition(train("T", RetryPolicies=[{**RETRIES, "IntervalSeconds": 1e308}])),
        "IntervalSeconds",
    ),
    "a negative interval": (
        definition(train("T", RetryPolicies=[{**RETRIES, "IntervalSeconds": -1}])),
        "IntervalSeconds",
    ),
    "an interval in words": (
        definition(train("T", RetryPolicies=[{**RETRIES, "IntervalSeconds": "1"}])),
        "IntervalSeconds",
    ),
    "a property file's name is an object": (
        of("Processing", {}, PropertyFiles=[{"PropertyFileName": {}, "OutputName": "o", "FilePath": "f"}]),
        "Odd: PropertyFileName in PropertyFiles must be a text",
    ),
    # --- functions
    "Join without Values": (
        message({"Std:Join": {"On": "-"}}),
        "Odd: Arguments.ErrorMessage.Std:Join.Values must be a list",
    ),
    "Join of a number": (
        message({"Std:Join": {"On": "-", "Values": 5}}),
        "Odd: Arguments.ErrorMessage.Std:Join.Values",
    ),
    "Join on a list": (message({"Std:Join": {"On": [], "Values": ["a"]}}), "Odd: Arguments.ErrorMessage.Std:Join.On"),
    "Join of objects": (message({"Std:Join": {"On": "", "Values": [{"a": 1}]}}), "Std:Join.Values[0] must be"),
    "Join is a list": (message({"Std:Join": []}), "Std:Join must be an object"),
    "Join with another member": (message({"Std:Join": {"On": "", "Values": [], "By": 1}}), "has no member By"),
    "Join beside another": (message({"Std:Join": {"On": "", "Values": []}, "x": 1}), "which must be alone"),
    "a Join inside a Join": (
        message({"Std:Join": {"On": "", "Values": [{"Std:Join": {}}]}}),
        "Values[0].Std:Join.Values",
    ),
    "another function": (message({"Std:Split": {}}), "Odd: Arguments.ErrorMessage.Std:Split is not a function"),
    "JsonGet without a file": (
        message({"Std:JsonGet": {"Path": "a"}}),
        "Odd: Arguments.ErrorMessage.Std:JsonGet needs one of",
    ),
    "JsonGet of both": (
        message({"Std:JsonGet": {"S3Uri": "s3://b/k", "PropertyFile": "x", "Path": "a"}}),
        "needs one of",
    ),
    "JsonGet of a number": (message({"Std:JsonGet": {"S3Uri": 5, "Path": "a"}}), "Std:JsonGet.S3Uri must be"),
    "JsonGet of a name": (
        message({"Std:JsonGet": {"PropertyFile": "F", "Path": "a"}}),
        "Std:JsonGet.PropertyFile must be",
    ),
    "JsonGet of a variable": (
        message({"Std:JsonGet": {"PropertyFile": get("Execution.PipelineName"), "Path": "a"}}),
        "PropertyFile must be",
    ),
    "JsonGet without Path": (message({"Std:JsonGet": {"S3Uri": "s3://b/k"}}), "Std:JsonGet.Path must be"),
    "JsonGet of no path": (
        message({"Std:JsonGet": {"S3Uri": "s3://b/k", "Path": "a["}}),
        "Std:JsonGet.Path: a[ is not a path",
    ),
    "Get of a number": (message({"Get": 5}), "5 is not a reference"),
    # --- conditions
    "a condition's type is a list": (
        if_(Type=["Equals"], LeftValue=1, RightValue=1),
        "Odd: Conditions[0].Type must be one of",
    ),
    "no RightValue": (if_(Type="Equals", LeftValue=1), "Odd: Conditions[0] has the type Equals and needs RightValue"),
    "no LeftValue": (
        if_(Type="LessThan", RightValue=1),
        "Odd: Conditions[0] has the type LessThan and needs LeftValue",
    ),
    "an operand is a list": (if_(Type="Equals", LeftValue=[1], RightValue=1), "Odd: Conditions[0].LeftValue must be"),
    "In without QueryValue": (if_(Type="In", Values=[1]), "Odd: Conditions[0] has the type In and needs QueryValue"),
    "In without Values": (if_(Type="In", QueryValue=1), "Odd: Conditions[0] has the type In and needs Values"),
    "In without a list": (
        if_(Type="In", QueryValue=1, Values=5),
        "Odd: Conditions[0] has the type In and needs Values",
    ),
    "Not without a condition": (if_(Type="Not"), "Odd: Conditions[0].Condition must be an object"),
    "Or of a number": (if_(Type="Or", Conditions=[5]), "Odd: Conditions[0].Conditions[0] must be an object"),
    "Or without Conditions": (if_(Type="Or"), "Odd: Conditions[0] has the type Or and needs Conditions"),
    "a function in a condition": (
        if_(Type="Equals", LeftValue={"Std:Join": {}}, RightValue=1),
        "LeftValue.Std:Join.Values",
    ),
    # --- references
    "an unknown variable": (message(get("Execution.Nope")), "Odd: Execution.Nope is not an execution variable"),
    "no experiment": (message(get("PipelineExperimentConfig.TrialName")), "Odd: it refers to TrialName"),
    "an unknown root": (message(get("Pipeline.Name")), "is not a reference"),
    "no property of a training job": (
        definition(train("T"), fail("Odd", get("Steps.T.ModelArtifact.S3ModelArtifacts"))),
        "Odd: step T of type Training has no property ModelArtifact.S3ModelArtifacts",
    ),
    "below a text": (
        definition(train("T"), fail("Odd", get("Steps.T.TrainingJobName.x"))),
        "no property TrainingJobName.x",
    ),
    "no property of a condition": (
        definition(condition("C", [compare("Equals", 1, 1)], []), fail("Odd", get("Steps.C.Outcomes"))),
        "no property Outcomes",
    ),
    "after a Fail step": (
        definition(fail("F", "over"), train("Odd", DependsOn=["F"])),
        "Odd can not depends on F",
    ),
    "of a Fail step": (
        definition(fail("F", "over"), fail("Odd", get("Steps.F.ErrorMessage"))),
        "Odd can not depends on F",
    ),
    "no output of a callback": (
        definition(step("C", "Callback", {}, SqsQueueUrl="q"), fail("Odd", get("Steps.C.OutputParameters['x']"))),
        "no property OutputParameters['x']",
    ),
    # --- members
    "CacheConfig is a list": (definition(train("Odd", CacheConfig=[])), "Odd: CacheConfig must be an object"),
    "Enabled is a text": (
        definition(train("Odd", CacheConfig={"Enabled": "true"})),
        "Odd: CacheConfig.Enabled must be",
    ),
    "ExpireAfter is a number": (
        definition(train("Odd", CacheConfig={"Enabled": True, "ExpireAfter": 5})),
        "Odd: CacheConfig.ExpireAfter must be",
    ),
    "ExpireAfter is no duration": (
        definition(train("Odd", CacheConfig={"Enabled": True, "ExpireAfter": "30 days"})),
        "Odd: CacheConfig.ExpireAfter must be",
    ),
    "a model of nothing": (
        of("Model", {"ExecutionRoleArn": ROLE}),
        "Odd: Arguments needs one of PrimaryContainer, Containers",
    ),
    "an unknown argument": (definition(odd(HyperParams={})), "Odd: Arguments: Unknown Argument member 'HyperParams'"),
    "an argument is no object": (
        definition(odd(ResourceConfig="x")),
        "Arguments.ResourceConfig: Expecting start of Json Object.",
    ),
    "an argument is no list": (
        definition(odd(InputDataConfig={})),
        "Arguments.InputDataConfig: Expecting start of Json Array.",
    ),
    "an argument is no text": (definition(odd(RoleArn=["x"])), "Arguments.RoleArn must be a string or a function"),
    "no container": (of("RegisterModel", {"InferenceSpecification": "x"}), "Expecting start of Json Object."),
    "an output without a name": (of("Callback", {}, SqsQueueUrl="q", OutputParameters=[{}]), "needs OutputName"),
    "a display name is an object": (of("Fail", {}, DisplayName={"a": 1}), "Odd: DisplayName must be a text"),
    "a queue is a number": (of("Callback", {}, SqsQueueUrl=[5]), "SqsQueueUrl must be"),
}


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory, bridge: MotoBridge) -> Iterator[ApiWorld]:
    """A server that runs nothing."""
    with ApiWorld(tmp_path_factory.mktemp("idle"), bridge) as running:
        yield running


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_when_it_is_created(idle: ApiWorld, name: str) -> None:
    text, says = REFUSED[name]
    with pytest.raises(ClientError) as refused:
        create(idle, text)
    error = refused.value.response["Error"]
    assert error["Code"] == "ValidationException"
    assert error["Message"].startswith("Unable to parse pipeline definition. ")
    assert says in error["Message"]
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


DEFINITIONS = Path(__file__).parents[2] / "data" / "pipeline_definitions"


def nested_conditions(levels: int) -> dict[str, Any]:
    inner = [nested_conditions(levels - 1)] if levels else []
    return condition(f"C{levels}", [compare("LessThanOrEqualTo", 3.0, 6.0)], inner)


ACCEPTED = {
    **{file.stem: file.read_text() for file in DEFINITIONS.glob("*.json")},
    # Airflow's example of a SageMaker pipeline has 31.
    "conditions in conditions": definition(nested_conditions(31)),
    "the schema's conditions": definition(
        condition("C", [compare("NotEquals", 1, 2), {"Type": "NotIn", "Value": 1, "In": [2]}], [])
    ),
    "a text without a type": definition(fail("F", "x"), parameters=[{"Name": "P", "DefaultValue": "x"}]),
    "no version": json.dumps({"Steps": [fail("F", "x")]}),
    "nulls": definition({**train("T"), "CacheConfig": None, "DependsOn": None, "RetryPolicies": None}),
    "a JSON path": message({"Std:JsonGet": {"S3Uri": "s3://b/k", "Path": "$.recall@10['a.b'][0].x y"}}),
    "a Join without On": message({"Std:Join": {"Values": ["a", 1, True]}}),
    "half a day": definition(train("T", CacheConfig={"Enabled": True, "ExpireAfter": "PT0.5H"})),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_aws_accepts_is_not_refused(idle: ApiWorld, name: str) -> None:
    asked = {"RoleArn": ROLE, "ClientRequestToken": uuid.uuid4().hex}
    pipeline = f"Accepted-{name.replace(' ', '-').replace(chr(39), '')}"
    idle.sagemaker.create_pipeline(PipelineName=pipeline, PipelineDefinition=ACCEPTED[name], **asked)
    assert idle.sagemaker.describe_pipeline(PipelineName=pipeline)["PipelineDefinition"] == ACCEPTED[name]


def test_an_update_is_checked_too(idle: ApiWorld) -> None:
    asked = {"RoleArn": ROLE, "ClientRequestToken": uuid.uuid4().hex}
    idle.sagemaker.create_pipeline(PipelineName="Updated", PipelineDefinition=message("x"), **asked)
    with pytest.raises(ClientError, match=r"Execution\.Nope is not an execution variable"):
        idle.sagemaker.update_pipeline(PipelineName="Updated", PipelineDefinition=message(get("Execution.Nope")))


#: What an import may have brought, or what is known only at run time, with the step's reason.
FAILING = {
    "a job's name is a number": (odd(TrainingJobName=get("Parameters.Number")), "must be a text, not 3"),
    "Join without values": (fail("Odd", {"Std:Join": {"On": "-"}}), "Std:Join.Values must be a list"),
    "JsonGet of a number": (
        fail("Odd", {"Std:JsonGet": {"S3Uri": 5, "Path": "a"}}),
        "S3Uri must be a text or a function",
    ),
    "JsonGet of a parameter": (
        fail("Odd", {"Std:JsonGet": {"S3Uri": get("Parameters.Number"), "Path": "a"}}),
        "3 is not an S3 URI",
    ),
    "JsonGet without a path": (fail("Odd", {"Std:JsonGet": {"S3Uri": "s3://b/k"}}), "Std:JsonGet.Path must be a text"),
    "a text is compared": (condition("Odd", [compare("LessThan", "ten", 1)], []), "ten is not a number"),
    "true is compared": (condition("Odd", [compare("LessThan", True, 1)], []), "true is not a number"),
    "an unknown variable": (fail("Odd", get("Execution.Nope")), "There is no execution variable Nope"),
    "RetryPolicies is an object": (
        odd(AlgorithmSpecification="wrong") | {"RetryPolicies": {"a": 1}},
        "SerializationException",
    ),
    "CacheConfig is a list": (train("Odd", CacheConfig=[1]), "has a type that it cannot have"),
    "an interval in words": (
        odd(AlgorithmSpecification="wrong") | {"RetryPolicies": [{**RETRIES, "IntervalSeconds": "1"}]},
        "SerializationException",
    ),
    "a package of texts": (step("Odd", "RegisterModel", {"InferenceSpecification": "x"}), "SerializationException: "),
    "a description of lists": (
        step("Odd", "RegisterModel", {"ModelPackageDescription": [1]}),
        "SerializationException: ",
    ),
    "a model of text": (step("Odd", "Model", {"PrimaryContainer": "image"}), "SerializationException: "),
}
#: What Python says of its own errors.
PYTHON = re.compile(r"\w+Error\b|NoneType|object has no attribute|not subscriptable|Traceback|\bargument\b|'str'|'int'")


@pytest.mark.parametrize("name", FAILING)
def test_what_was_stored_fails_its_step_in_plain_words(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("sagelet_api.services.sagemaker.pipeline_service.check", parse)
    monkeypatch.setattr("sagelet_api.services.sagemaker.pipeline_service.check_shapes", lambda _definition: None)
    given, says = FAILING[name]
    create(world, definition(given, parameters=[parameter("Number", "Integer", 3)]))
    reason = failure(world, start(world))
    assert says in reason
    assert PYTHON.search(reason) is None


def test_half_of_a_surrogate_pair_and_a_long_text_are_shown(world: ApiWorld) -> None:
    create(world, definition(fail("F", "\ud800" + "x" * 5000)))
    arn = start(world)

    def reason() -> str:
        listed = world.sagemaker.list_pipeline_execution_steps(PipelineExecutionArn=arn)["PipelineExecutionSteps"]
        return str(listed[0].get("FailureReason", "")) if listed else ""

    assert until(lambda: len(reason()) == 1024)
    shown = world.sagemaker.describe_pipeline(PipelineName="Pipe")["PipelineDefinition"]
    assert json.loads(shown)["Steps"][0]["Name"] == "F"


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
