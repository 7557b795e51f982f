"""`sagelet up --enforce-iam`: RoleArn has to be a role that SageMaker may assume."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.iam.trust import Caller, trusts
from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld
from support.processing import processing_request
from support.world import request

SAGEMAKER = "sagemaker.amazonaws.com"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge, enforce_iam=True) as running:
        yield running


def policy(principal: Any = None, action: Any = "sts:AssumeRole", effect: str = "Allow") -> dict[str, Any]:
    principal = {"Service": SAGEMAKER} if principal is None else principal
    return {"Effect": effect, "Principal": principal, "Action": action}


def document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [*statements]})


def role(world: ApiWorld, trust: str, **options: Any) -> str:
    iam = world.client("iam")
    name = f"role-{uuid.uuid4().hex}"
    return str(iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust, **options)["Role"]["Arn"])


def refusal(world: ApiWorld, arn: str, **where: str) -> str:
    with pytest.raises(ClientError) as caught:
        world.client("sagemaker", **where).create_training_job(**request("one", RoleArn=arn))
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    return str(caught.value.response["Error"]["Message"])


def words(arn: str) -> str:
    return (
        f"Could not assume role {arn}. Please ensure that the role exists and allows principal "
        "'sagemaker.amazonaws.com' to assume the role."
    )


@pytest.mark.parametrize("path", ["/", "/service-role/"])
def test_a_role_that_sagemaker_may_assume_is_taken(world: ApiWorld, path: str) -> None:
    arn = role(world, document(policy()), Path=path)
    world.sagemaker.create_training_job(**request("one", RoleArn=arn))
    assert world.sagemaker.describe_training_job(TrainingJobName="one")["RoleArn"] == arn
    assert refusal(world, arn, account="210987654321") == words(arn)


def test_a_role_that_iam_does_not_know_is_refused(world: ApiWorld) -> None:
    arn = "arn:aws:iam::123456789012:role/nobody-made-it"
    assert refusal(world, arn) == words(arn)
    assert world.sagemaker.list_training_jobs()["TrainingJobSummaries"] == []


def test_a_role_of_another_service_is_refused(world: ApiWorld) -> None:
    arn = role(world, document(policy({"Service": "lambda.amazonaws.com"})))
    assert refusal(world, arn) == words(arn)


def test_a_role_that_was_deleted_is_refused(world: ApiWorld) -> None:
    arn = role(world, document(policy()))
    world.client("iam").delete_role(RoleName=arn.rpartition("/")[2])
    assert refusal(world, arn) == words(arn)


@pytest.mark.parametrize(
    ("trust", "trusted"),
    [
        (document(policy({"Service": ["ec2.amazonaws.com", SAGEMAKER]})), True),
        (document(policy(action=["sts:TagSession", "sts:AssumeRole"])), True),
        (document(policy(action="sts:*")), True),
        (document(policy("*")), True),
        (json.dumps({"Statement": policy()}), True),
        (document(policy({"AWS": "arn:aws:iam::123456789012:root"})), False),
        (document(policy(action="sts:AssumeRoleWithSAML")), False),
        (document(policy(), policy(effect="Deny")), False),
        (document(), False),
        ("no policy", False),
        ("[]", False),
        ('{"Statement": ["x"]}', False),
    ],
)
def test_what_a_trust_policy_says(trust: str, trusted: bool) -> None:
    assert trusts(trust, Caller.service(SAGEMAKER)) is trusted


def test_a_processing_job_needs_such_a_role_too(world: ApiWorld) -> None:
    arn = role(world, document(policy({"Service": "lambda.amazonaws.com"})))
    with pytest.raises(ClientError) as caught:
        world.sagemaker.create_processing_job(**processing_request("one", RoleArn=arn))
    assert caught.value.response["Error"]["Message"] == words(arn)
    world.sagemaker.create_processing_job(**processing_request("one", RoleArn=role(world, document(policy()))))


def test_a_function_needs_a_role_that_lambda_may_assume(world: ApiWorld) -> None:
    functions, trusting = world.client("lambda"), role(world, document(policy({"Service": "lambda.amazonaws.com"})))

    def make(arn: str) -> Any:
        name, code = f"f-{uuid.uuid4().hex[:8]}", {"ZipFile": b"no zip"}
        return functions.create_function(FunctionName=name, Runtime="python3.11", Role=arn, Handler="f.h", Code=code)

    assert make(trusting)["Role"] == trusting
    for arn in (role(world, document(policy())), trusting + "x"):
        with pytest.raises(ClientError, match="cannot be assumed by Lambda"):
            make(arn)
