"""What holds for each of sagelet's own operations of SageMaker: optional members, tokens, tags and ARNs.

Each test is generated from botocore's model. A new operation, or a new kind of resource, is in it at once.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from sagelet_api.protocol.validation import rule_book
from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld
from support.every_operation import (
    ARN,
    KINDS,
    TAGS,
    Everything,
    creation,
    filled,
    optional_members,
    own_operations,
    token,
    without,
)
from support.world import until

#: Errors that the model has for sagelet's own operations, and AWS's common one.
COMMON = {"ValidationException", "ResourceNotFound", "ConflictException", "ResourceInUse", "ResourceLimitExceeded"}
#: AWS refuses an ARN of elsewhere with one of these.
NOT_FOUND = {"ValidationException", "ResourceNotFound"}
TOKENS = ("ClientRequestToken", "ClientToken")


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory, bridge: MotoBridge) -> Iterator[Everything]:
    with ApiWorld(tmp_path_factory.mktemp("every"), bridge) as world:
        yield Everything(world)


def shape_of(operation: str) -> Any:
    return rule_book("sagemaker").input_shape(operation)


def code_of(answer: Mapping[str, Any]) -> str:
    return str(answer.get("__type", "")).rpartition("#")[2]


# --- optional members -------------------------------------------------------------------------------------------------


def known() -> dict[str, Any]:
    """Returns values of members, by name, that let a request go as far as possible."""
    job = creation("CreateTrainingJob", "x")
    return {
        **{name: job[name] for name in ("AlgorithmSpecification", "ResourceConfig", "StoppingCondition")},
        "PipelineDefinition": creation("CreatePipeline", "x")["PipelineDefinition"],
        "PipelineVersionId": 1,
        "Tags": TAGS,
    }


def test_any_optional_member_may_be_missing(everything: Everything) -> None:
    """Left out of a request that has every member, and of one that is answered: the answer, or AWS's own error."""
    wrong, calls = [], 0
    for operation in sorted(own_operations(everything.world)):
        shape = shape_of(operation)
        whole = filled(shape, {**known(), **everything.named(operation)})
        bodies = [whole, everything.asked(operation)]
        for body in bodies:
            for path in [(), *optional_members(shape, body)]:
                less = without(body, path) if path else body
                named = {name: f"n-{token()[:10]}" for name in less if operation in KINDS.values() and name in _NAMES}
                status, answer = everything.world.call(operation, {**less, **named})
                calls += 1
                if status != 200 and not (status == 400 and code_of(answer) in COMMON):
                    wrong.append((operation, path, status, answer))
    assert wrong == []
    assert calls > 700, calls


#: Members that name what a Create call makes.
_NAMES = {"TrainingJobName", "ProcessingJobName", "HyperParameterTuningJobName", "PipelineName", "ModelName"}


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_a_repeated_call_with_the_same_token_has_the_same_answer_and_happens_once(everything: Everything) -> None:
    world, answers = everything.world, {}
    operations = {name for name in own_operations(world) if {*TOKENS} & {*shape_of(name).members}}
    failed, (running, unanswered) = everything.start(), everything.waiting()
    until(lambda: everything.status(failed) == "Failed")
    (_, success), (_, failure) = everything.waiting(), everything.waiting()
    everything.do("CreatePipeline", creation("CreatePipeline", "to-delete"))
    more = {
        "DeletePipeline": {"PipelineName": "to-delete"},
        "RetryPipelineExecution": {"PipelineExecutionArn": failed},
        "StopPipelineExecution": {"PipelineExecutionArn": running},
        "SendPipelineExecutionStepSuccess": {"CallbackToken": success},
        "SendPipelineExecutionStepFailure": {"CallbackToken": failure},
        "UpdateModelPackage": {"ModelApprovalStatus": "Approved"},
    }
    for operation in sorted(operations):
        member = next(name for name in TOKENS if name in shape_of(operation).members)
        asked = {**everything.asked(operation), **more.get(operation, {}), member: token()}
        answers[operation] = asked, everything.do(operation, asked)
    # A callback that is not answered holds its execution up, also while it stops.
    everything.do("SendPipelineExecutionStepFailure", {"CallbackToken": unanswered})
    # The first calls have had their effects by now.
    until(lambda: everything.status(running) == "Stopped")
    until(lambda: everything.status(failed) == "Failed")
    for operation, (asked, answer) in answers.items():
        assert everything.do(operation, asked) == answer, operation
    assert everything.status(running) == "Stopped"
    executions = everything.do("ListPipelineExecutions", {"PipelineName": "it"})["PipelineExecutionSummaries"]
    packages = everything.do("ListModelPackages", {"ModelPackageType": "Unversioned"})["ModelPackageSummaryList"]
    # `it`, what the first test of this file made, and one each of this test.
    for operation in ("StartPipelineExecution", "CreateModelPackage"):
        everything.do(operation, answers[operation][0])
    assert len(everything.do("ListPipelineExecutions", {"PipelineName": "it"})["PipelineExecutionSummaries"]) == len(
        executions
    )
    assert len(
        everything.do("ListModelPackages", {"ModelPackageType": "Unversioned"})["ModelPackageSummaryList"]
    ) == len(packages)


def test_a_repeated_deletion_leaves_a_new_pipeline_of_the_name(everything: Everything) -> None:
    everything.do("CreatePipeline", creation("CreatePipeline", "anew"))
    asked = {"PipelineName": "anew", "ClientRequestToken": token()}
    answer = everything.do("DeletePipeline", asked)
    everything.do("CreatePipeline", creation("CreatePipeline", "anew"))
    assert everything.do("DeletePipeline", asked) == answer
    assert everything.do("DescribePipeline", {"PipelineName": "anew"})["PipelineArn"] == answer["PipelineArn"]
    status, refused = everything.world.call("DeletePipeline", {"PipelineName": "none", "ClientRequestToken": token()})
    assert (status, code_of(refused)) == (400, "ResourceNotFound")


# --- tags -------------------------------------------------------------------------------------------------------------


def test_every_kind_with_tags_is_here(everything: Everything) -> None:
    tagged = {name for name in own_operations(everything.world) if "Tags" in shape_of(name).members}
    assert tagged - {"AddTags"} == {*KINDS.values()}


@pytest.mark.parametrize(
    ("tags", "text"),
    [
        ([{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}], "Duplicate tag key 'a'"),
        ([{"Key": "AWS:x", "Value": "1"}], "the prefix aws: is reserved"),
        ([{"Key": "", "Value": "1"}], "1 validation error detected"),
        ([{"Key": "x" * 129, "Value": "1"}], "1 validation error detected"),
        ([{"Key": "a", "Value": "x" * 257}], "1 validation error detected"),
        ([{"Key": "a<b>", "Value": "1"}], "1 validation error detected"),
        ([{"Key": f"k{number}", "Value": "1"} for number in range(51)], "1 validation error detected"),
    ],
    ids=["twice", "reserved", "empty", "long key", "long value", "letters", "too many"],
)
def test_tags_of_every_kind_are_checked_by_one_rule(everything: Everything, tags: list[Any], text: str) -> None:
    for kind, operation in KINDS.items():
        added = {"ResourceArn": f"{ARN}{kind}/it", "Tags": tags}
        for name, body in ((operation, creation(operation, f"t-{token()[:8]}", Tags=tags)), ("AddTags", added)):
            status, answer = everything.world.call(name, body)
            message = answer.get("message") or answer.get("Message", "")
            assert (status, code_of(answer), text in message) == (400, "ValidationException", True), (
                kind,
                name,
                answer,
            )
        assert everything.do("ListTags", {"ResourceArn": added["ResourceArn"]})["Tags"] == TAGS, kind


def test_tags_of_every_kind_are_added_replaced_limited_and_deleted(everything: Everything) -> None:
    for kind in KINDS:
        arn = {"ResourceArn": f"{ARN}{kind}/it"}
        more = [{"Key": "team", "Value": "other"}, {"Key": "b", "Value": ""}]
        added = everything.do("AddTags", {**arn, "Tags": more})["Tags"]
        assert sorted(added, key=lambda tag: tag["Key"], reverse=True) == more, kind
        many = [{"Key": f"k{number}", "Value": "1"} for number in range(49)]
        status, answer = everything.world.call("AddTags", {**arn, "Tags": many})
        assert (status, code_of(answer)) == (400, "ResourceLimitExceeded"), (kind, answer)
        everything.do("DeleteTags", {**arn, "TagKeys": ["b", "none"]})
        everything.do("AddTags", {**arn, "Tags": TAGS})
        assert everything.do("ListTags", arn)["Tags"] == TAGS, kind


# --- ARNs -------------------------------------------------------------------------------------------------------------


def arn_members(operation: str) -> list[str]:
    """Returns the members of a request that name a resource of SageMaker by its ARN, or by its name or ARN."""
    return [
        name
        for name, member in shape_of(operation).members.items()
        if member.type_name == "string" and ":sagemaker:" in member.metadata.get("pattern", "")
    ] + (["ResourceArn"] if "ResourceArn" in shape_of(operation).members else [])


def elsewhere(arn: str) -> Iterator[str]:
    """Yields ARNs that differ in one part: partition, region, account, kind, name."""
    parts = arn.split(":", 5)
    for place, other in ((1, "aws-cn"), (1, "aws-us-gov"), (3, "eu-west-1"), (4, "210987654321")):
        yield ":".join([*parts[:place], other, *parts[place + 1 :]])
    kind, _, name = parts[5].partition("/")
    other = "model" if kind != "model" else "model-package-group"
    yield ":".join([*parts[:5], f"{other}/{name}"])
    yield ":".join([*parts[:5], f"{kind}/none{name}"])
    yield ":".join([*parts[:5], f"x{kind}/{name}"])


def test_arns_are_read_whole_by_every_operation(everything: Everything) -> None:
    here = {
        "PipelineName": f"{ARN}pipeline/it", "PipelineArn": f"{ARN}pipeline/it",
        "PipelineExecutionArn": everything.execution, "ModelPackageGroupName": f"{ARN}model-package-group/group",
        "ModelPackageName": everything.version, "ModelPackageArn": everything.version,
    }  # fmt: skip
    wrong, looked_at = [], set()
    for operation in sorted(own_operations(everything.world)):
        for member in arn_members(operation):
            # A filter, and the name of something new.
            if member == "TrainingPlanArnEquals":
                continue
            arns = [f"{ARN}{kind}/it" for kind in KINDS] if member == "ResourceArn" else [here[member]]
            for other in (one for arn in arns for one in elsewhere(arn)):
                body = {**everything.asked(operation), member: other}
                status, answer = everything.world.call(operation, body)
                looked_at.add((operation, member))
                exists = member == "ResourceArn" and other in arns
                if not exists and not (status == 400 and code_of(answer) in NOT_FOUND):
                    wrong.append((operation, member, other, status, answer))
    assert wrong == []
    assert len(looked_at) > 20, looked_at
    for operation, member in sorted(looked_at):
        if operation.startswith(("Describe", "List")) and member != "ResourceArn":
            everything.do(operation, {**everything.asked(operation), member: here[member]})
