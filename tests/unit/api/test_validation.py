import copy
from typing import Any

import pytest
from botocore.validate import ParamValidator
from hypothesis import given

from sagelet_api.protocol.aws_errors import (
    AwsError,
    LogsInvalidParameter,
    SerializationException,
    UnknownOperationException,
    ValidationException,
)
from sagelet_api.protocol.s3.errors import invalid_argument
from sagelet_api.protocol.shapes import MOST_SHOWN, MOST_TOLD
from sagelet_api.protocol.validation import validate
from support.strategies import ShapeStrategies, bodies, create_shape
from support.violations import Broken, broken_constraints, wrong_types

ROLE = "arn:aws:iam::123456789012:role/SageMakerRole"
NAME_PATTERN = "^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}"


def a_request() -> dict[str, Any]:
    return {
        "TrainingJobName": "a-job",
        "AlgorithmSpecification": {"TrainingImage": "image:tag", "TrainingInputMode": "File"},
        "RoleArn": ROLE,
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/"},
        "ResourceConfig": {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    }


def check(**members: Any) -> dict[str, Any]:
    return validate("sagemaker", "CreateTrainingJob", {**a_request(), **members})


def refusal(error: type[AwsError] = ValidationException, **members: Any) -> str:
    with pytest.raises(error) as caught:
        check(**members)
    return caught.value.message


def test_genuine_requests_pass_unchanged(recorded: list[dict[str, Any]]) -> None:
    assert len(recorded) == 23
    for body in recorded:
        before = copy.deepcopy(body["request"])
        assert validate("sagemaker", "CreateTrainingJob", body["request"]) == before


def test_pattern_in_aws_words() -> None:
    assert refusal(TrainingJobName="bad_name!") == (
        "1 validation error detected: Value 'bad_name!' at 'trainingJobName' failed to satisfy constraint: "
        f"Member must satisfy regular expression pattern: {NAME_PATTERN}"
    )


def test_several_errors_are_joined() -> None:
    assert refusal(TrainingJobName="", StoppingCondition={"MaxRuntimeInSeconds": 0}) == (
        "3 validation errors detected: "
        "Value '' at 'trainingJobName' failed to satisfy constraint: "
        "Member must have length greater than or equal to 1; "
        "Value '' at 'trainingJobName' failed to satisfy constraint: "
        f"Member must satisfy regular expression pattern: {NAME_PATTERN}; "
        "Value '0' at 'stoppingCondition.maxRuntimeInSeconds' failed to satisfy constraint: "
        "Member must have value greater than or equal to 1"
    )


def test_a_trailing_newline_is_part_of_the_value() -> None:
    assert "at 'trainingJobName'" in refusal(TrainingJobName="name\n")


def test_missing_and_null_members_are_the_same() -> None:
    words = "1 validation error detected: Value null at 'roleArn' failed to satisfy constraint: Member must not be null"
    assert refusal(RoleArn=None) == words
    request = a_request()
    del request["RoleArn"]
    with pytest.raises(ValidationException) as caught:
        validate("sagemaker", "CreateTrainingJob", request)
    assert caught.value.message == words


def test_null_of_an_optional_member_is_left_out() -> None:
    assert "Environment" not in check(Environment=None)


def test_enum_lists_its_values() -> None:
    words = refusal(ResourceConfig={"InstanceType": "ml.t2.medium", "InstanceCount": 1, "VolumeSizeInGB": 1})
    assert words.startswith(
        "1 validation error detected: Value 'ml.t2.medium' at 'resourceConfig.instanceType' failed to satisfy "
        "constraint: Member must satisfy enum value set: [ml.m4.xlarge, "
    )


def test_elements_have_numbers() -> None:
    channel = {"ChannelName": "a b", "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://b/p"}}}
    good = {**channel, "ChannelName": "ok"}
    words = refusal(InputDataConfig=[good, channel])
    assert "Value 'a b' at 'inputDataConfig.2.member.channelName' failed" in words
    assert "at 'inputDataConfig.1.member.dataSource'" in refusal(InputDataConfig=[{"ChannelName": "ok"}])


def test_map_values_and_keys_are_reported_at_the_map() -> None:
    assert refusal(HyperParameters={"a": "x" * 2501}) == (
        f"1 validation error detected: Value '{{a={'x' * 2501}}}' at 'hyperParameters' failed to satisfy constraint: "
        "Map value must satisfy constraint: [Member must have length less than or equal to 2500, "
        "Member must have length greater than or equal to 0, Member must satisfy regular expression pattern: .*]"
    )
    assert "Map keys must satisfy constraint: [Member must have length less than or equal to 512" in refusal(
        Environment={"1a": "x"}
    )
    assert "Member must not be null]" in refusal(Environment={"A": None})


def test_list_of_text_is_reported_at_the_list() -> None:
    words = refusal(VpcConfig={"Subnets": ["subnet-1", "a b"], "SecurityGroupIds": ["sg-1"]})
    assert "Value '[subnet-1, a b]' at 'vpcConfig.subnets' failed to satisfy constraint: Member must satisfy" in words
    assert "Member must not be null]" in refusal(VpcConfig={"Subnets": [None], "SecurityGroupIds": ["sg-1"]})


def test_sizes() -> None:
    assert "Member must have length less than or equal to 100" in refusal(
        HyperParameters={f"k{n}": "v" for n in range(101)}
    )
    assert "Value '[]' at 'inputDataConfig' failed" in refusal(InputDataConfig=[])
    assert "Member must have value less than or equal to 30" in refusal(RetryStrategy={"MaximumRetryAttempts": 31})


def test_unknown_members_are_ignored_as_by_aws() -> None:
    """A boto3 that is newer than the service knows more."""
    newer = check(StoppingCondition={"MaxRuntimeInSeconds": 1, "MaxRuntime": "x" * 1000}, Hyperparameters=1)
    assert newer == check(StoppingCondition={"MaxRuntimeInSeconds": 1})


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"TrainingJobName": 1}, "NUMBER_VALUE cannot be converted to String at 'trainingJobName'"),
        ({"TrainingJobName": 1.5}, "DECIMAL_VALUE cannot be converted to String at 'trainingJobName'"),
        ({"TrainingJobName": True}, "TRUE_VALUE cannot be converted to String at 'trainingJobName'"),
        ({"TrainingJobName": []}, "Unrecognized collection type class java.lang.String at 'trainingJobName'"),
        ({"TrainingJobName": {}}, "Start of structure or map found where not expected at 'trainingJobName'"),
        (
            {"StoppingCondition": {"MaxRuntimeInSeconds": "abc"}},
            "STRING_VALUE cannot be converted to Integer at 'stoppingCondition.maxRuntimeInSeconds'",
        ),
        (
            {"StoppingCondition": {"MaxRuntimeInSeconds": False}},
            "FALSE_VALUE cannot be converted to Integer at 'stoppingCondition.maxRuntimeInSeconds'",
        ),
        (
            {"StoppingCondition": {"MaxRuntimeInSeconds": 1.5}},
            "DECIMAL_VALUE cannot be converted to Integer at 'stoppingCondition.maxRuntimeInSeconds'",
        ),
        (
            {"StoppingCondition": {"MaxRuntimeInSeconds": 2**31}},
            "NUMBER_VALUE cannot be converted to Integer at 'stoppingCondition.maxRuntimeInSeconds'",
        ),
        (
            {"StoppingCondition": {"MaxRuntimeInSeconds": float("inf")}},
            "DECIMAL_VALUE cannot be converted to Integer at 'stoppingCondition.maxRuntimeInSeconds'",
        ),
        (
            {"EnableManagedSpotTraining": "true"},
            "STRING_VALUE cannot be converted to Boolean at 'enableManagedSpotTraining'",
        ),
        (
            {"HyperParameters": {"epochs": 3}},
            "NUMBER_VALUE cannot be converted to String at 'hyperParameters.epochs.member'",
        ),
        ({"HyperParameters": []}, "Unrecognized collection type class java.util.Map at 'hyperParameters'"),
        ({"InputDataConfig": {}}, "Start of structure or map found where not expected at 'inputDataConfig'"),
        ({"InputDataConfig": "x"}, "Unexpected field type at 'inputDataConfig'"),
        ({"ResourceConfig": 3}, "Unexpected field type at 'resourceConfig'"),
    ],
)
def test_wrong_json_types(members: dict[str, Any], words: str) -> None:
    assert refusal(SerializationException, **members) == words


def test_whole_numbers_may_be_written_with_a_point() -> None:
    value = check(StoppingCondition={"MaxRuntimeInSeconds": 60.0})["StoppingCondition"]["MaxRuntimeInSeconds"]
    assert value == 60
    assert isinstance(value, int)


def test_times_are_numbers_that_a_calendar_has() -> None:
    assert validate("sagemaker", "ListTrainingJobs", {"CreationTimeAfter": 1.5}) == {"CreationTimeAfter": 1.5}
    for bad in ("2026-01-01", True, 1e300):
        with pytest.raises(SerializationException, match="Date"):
            validate("sagemaker", "ListTrainingJobs", {"CreationTimeAfter": bad})


def test_recursive_shapes() -> None:
    nested: dict[str, Any] = {"Filters": [{"Name": "TrainingJobName", "Operator": "Sounds"}]}
    for _ in range(10):
        nested = {"SubExpressions": [nested]}
    with pytest.raises(ValidationException, match=r"'searchExpression\.subExpressions\.1\.member\..*operator'"):
        validate("sagemaker", "Search", {"Resource": "TrainingJob", "SearchExpression": nested})


def test_unknown_operation() -> None:
    with pytest.raises(UnknownOperationException, match="MakeCoffee"):
        validate("sagemaker", "MakeCoffee", {})


@given(request=ShapeStrategies().of(create_shape()))
def test_what_fits_the_model_passes_and_botocore_agrees(request: dict[str, Any]) -> None:
    assert not ParamValidator().validate(request, create_shape()).has_errors()
    assert validate("sagemaker", "CreateTrainingJob", request) == request


@given(broken=wrong_types(bodies(frozenset())) | broken_constraints(bodies(frozenset())))
def test_what_the_model_does_not_allow_is_refused(broken: Broken) -> None:
    with pytest.raises((ValidationException, SerializationException)):
        validate("sagemaker", "CreateTrainingJob", broken.body)


# --- errors are bounded -----------------------------------------------------------------------------------------------


def refused_logs(events: list[Any]) -> str:
    with pytest.raises(LogsInvalidParameter) as caught:
        validate("logs", "PutLogEvents", {"logGroupName": "g", "logStreamName": "s", "logEvents": events})
    return caught.value.message


def test_the_first_broken_constraints_are_told() -> None:
    message = refused_logs([{}] * 5_000)
    assert message.startswith("20 validation errors detected: Value null at 'logEvents.1.member.timestamp' failed")
    assert message.endswith("; correct these 20 first, for there are more")
    assert message.count("failed to satisfy constraint") == MOST_TOLD


def test_twenty_broken_constraints_are_all() -> None:
    message = refused_logs([{}] * 10)
    assert message.startswith("20 validation errors detected: ")
    assert message.endswith("'logEvents.10.member.message' failed to satisfy constraint: Member must not be null")


def test_more_items_than_a_list_may_have_are_not_looked_at() -> None:
    looked_at = 0

    class Event(dict[str, Any]):
        def items(self) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().items()

    message = refused_logs([Event(timestamp=1, message="m") for _ in range(50_000)])
    assert "Member must have length less than or equal to 10000" in message
    assert looked_at < 15_000
    assert len(message) < 2 * MOST_SHOWN


def test_values_and_paths_are_cut() -> None:
    key = "k" * 100_000
    message = refusal(Environment={key: "x"}, HyperParameters={"a": "x" * 1_000_000})
    assert len(message) < 4 * MOST_SHOWN
    assert f"Value '{{{'k' * 100}" in message
    with pytest.raises(SerializationException) as caught:
        check(Environment={key: 1})
    assert len(caught.value.message) < 2_000


def test_an_errors_message_is_cut() -> None:
    assert len(ValidationException("x" * 10**6).message) < 33_000
    assert len(invalid_argument("name", "x" * 10**6, "y").details["ArgumentValue"]) < 33_000


@pytest.mark.parametrize("text", [" " * 60 + "\u2028", "a\n" * 200_000 + "\u2028"])
def test_a_text_that_a_pattern_matches_in_many_ways_is_refused_in_bounded_time(text: str) -> None:
    """`re` takes twice as long for each further space, and lets no other thread work meanwhile."""
    with pytest.raises(ValidationException, match="at 'pipelineDefinition' failed to satisfy constraint"):
        validate(
            "sagemaker",
            "CreatePipeline",
            {"PipelineName": "p", "ClientRequestToken": "t" * 32, "RoleArn": ROLE, "PipelineDefinition": text},
        )


def test_a_long_text_that_matches_is_taken() -> None:
    text = '{"a": 1}\n' * 100_000
    body = {"PipelineName": "p", "ClientRequestToken": "t" * 32, "RoleArn": ROLE, "PipelineDefinition": text}
    assert validate("sagemaker", "CreatePipeline", body)["PipelineDefinition"] == text
