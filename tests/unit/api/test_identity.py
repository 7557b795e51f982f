"""Who the caller is: a session of an execution role that is there, unless moto's IAM or STS made the caller's key."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from botocore.exceptions import ClientError

from sagelet_api.services.iam import execution_role
from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ACCOUNT, ApiWorld

ROLE = f"arn:aws:iam::{ACCOUNT}:role/service-role/{execution_role.NAME}"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        yield running


def code(caught: "pytest.ExceptionInfo[ClientError]") -> tuple[str, int]:
    response: Any = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize("account", [ACCOUNT, "210987654321"])
def test_the_caller_is_a_session_of_the_execution_role(world: ApiWorld, account: str) -> None:
    identity = world.client("sts", account=account).get_caller_identity()
    role = world.client("iam", account=account).get_role(RoleName=execution_role.NAME)["Role"]
    assert identity["Arn"] == f"arn:aws:sts::{account}:assumed-role/{role['RoleName']}/SageMaker"
    assert identity["Account"] == account
    assert identity["UserId"] == f"{role['RoleId']}:SageMaker"
    assert identity["ResponseMetadata"]["RequestId"]
    assert role["Arn"] == f"arn:aws:iam::{account}:role/service-role/{execution_role.NAME}"
    statement, own = role["AssumeRolePolicyDocument"]["Statement"]
    assert own["Principal"] == {"AWS": f"arn:aws:iam::{account}:root"}
    assert statement["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert (statement["Effect"], statement["Action"]) == ("Allow", "sts:AssumeRole")


@pytest.mark.parametrize(
    ("name", "path"), [("SageMakerRole", "/"), ("AmazonSageMaker-ExecutionRole", "/service-role/")]
)
def test_a_fresh_account_has_the_roles_that_examples_name(world: ApiWorld, name: str, path: str) -> None:
    account = "121212121212"
    iam = world.client("iam", account=account)
    role = iam.get_role(RoleName=name)["Role"]
    assert role["Arn"] == f"arn:aws:iam::{account}:role{path}{name}"
    assert {"Service": "sagemaker.amazonaws.com"} in [
        statement["Principal"] for statement in role["AssumeRolePolicyDocument"]["Statement"]
    ]
    assert name in [one["RoleName"] for one in iam.list_roles()["Roles"]]


def test_a_script_makes_its_own_role_of_a_seeded_name_once(world: ApiWorld) -> None:
    iam = world.client("iam", account="131313131313")
    seeded = iam.get_role(RoleName="SageMakerRole")["Role"]["RoleId"]
    made = iam.create_role(RoleName="SageMakerRole", AssumeRolePolicyDocument=execution_role.TRUST_POLICY)["Role"]
    assert made["RoleId"] != seeded
    roles = iam.list_roles()["Roles"]
    assert [one["RoleId"] for one in roles if one["RoleName"] == "SageMakerRole"] == [made["RoleId"]]
    with pytest.raises(ClientError, match="already exists"):
        iam.create_role(RoleName="SageMakerRole", AssumeRolePolicyDocument=execution_role.TRUST_POLICY)


def test_the_partition_is_the_regions(world: ApiWorld) -> None:
    identity = world.client("sts", "cn-north-1").get_caller_identity()
    assert identity["Arn"] == f"arn:aws-cn:sts::{ACCOUNT}:assumed-role/{execution_role.NAME}/SageMaker"


def test_a_presigned_identity(world: ApiWorld) -> None:
    """How Kubernetes logs in: a GET whose signature is in the query."""
    url = world.client("sts").generate_presigned_url("get_caller_identity")
    answer = urllib3.request("GET", url)
    assert answer.status == 200
    assert f"<Arn>arn:aws:sts::{ACCOUNT}:assumed-role/".encode() in answer.data


def test_keys_that_were_given_out_stay_whose_they_are(world: ApiWorld) -> None:
    iam = world.client("iam")
    iam.create_user(UserName="ann")
    key = iam.create_access_key(UserName="ann")["AccessKey"]
    assert world.client("sts", account=key["AccessKeyId"]).get_caller_identity()["Arn"].endswith(":user/ann")
    iam.delete_access_key(UserName="ann", AccessKeyId=key["AccessKeyId"])
    iam.delete_user(UserName="ann")


def test_a_deleted_execution_role_is_said_to_be_so(world: ApiWorld) -> None:
    account = "333333333333"
    iam = world.client("iam", account=account)
    iam.delete_role_policy(RoleName=execution_role.NAME, PolicyName=execution_role.POLICY)
    iam.delete_role(RoleName=execution_role.NAME)
    with pytest.raises(ClientError, match="was deleted") as caught:
        world.client("sts", account=account).get_caller_identity()
    assert code(caught) == ("NoSuchEntity", 404)


def test_every_simulation_says_allowed(world: ApiWorld) -> None:
    actions, resources = ["s3:GetObject", "s3:Put&<Object>"], ["arn:aws:s3:::a/*", "arn:aws:s3:::b/*"]
    answer = world.client("iam").simulate_principal_policy(
        PolicySourceArn=ROLE, ActionNames=actions, ResourceArns=resources
    )
    found = [(one["EvalActionName"], one["EvalResourceName"]) for one in answer["EvaluationResults"]]
    assert found == [(action, resource) for action in actions for resource in resources]
    assert {one["EvalDecision"] for one in answer["EvaluationResults"]} == {"allowed"}
    assert answer["IsTruncated"] is False


def test_a_simulation_page_by_page(world: ApiWorld) -> None:
    actions = [f"s3:Action{number}" for number in range(230)]
    pages = [
        *world.client("iam")
        .get_paginator("simulate_principal_policy")
        .paginate(PolicySourceArn=ROLE, ActionNames=actions)
    ]
    assert [len(page["EvaluationResults"]) for page in pages] == [100, 100, 30]
    results = [one for page in pages for one in page["EvaluationResults"]]
    assert [one["EvalActionName"] for one in results] == actions
    assert {one["EvalResourceName"] for one in results} == {"*"}


def test_simulation_of_a_new_role_and_of_none(world: ApiWorld) -> None:
    iam = world.client("iam")
    arn = iam.create_role(RoleName="mine", AssumeRolePolicyDocument=json.dumps({"Statement": []}))["Role"]["Arn"]
    assert iam.simulate_principal_policy(PolicySourceArn=arn, ActionNames=["s3:GetObject"])["EvaluationResults"]
    iam.delete_role(RoleName="mine")
    with pytest.raises(ClientError, match="cannot be found") as caught:
        iam.simulate_principal_policy(PolicySourceArn=arn, ActionNames=["s3:GetObject"])
    assert code(caught) == ("NoSuchEntity", 404)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"PolicySourceArn": ROLE}, "Value null at 'actionNames' failed to satisfy constraint"),
        ({"PolicySourceArn": "short", "ActionNames": ["a:b"]}, "at 'policySourceArn' failed to satisfy constraint"),
        ({"PolicySourceArn": ROLE, "ActionNames": ["a:b"], "MaxItems": 0}, "Value '0' at 'maxItems'"),
        ({"PolicySourceArn": ROLE, "ActionNames": ["a:b"], "Marker": "7"}, "Invalid Marker: 7"),
    ],
)
def test_bad_simulations(world: ApiWorld, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ClientError, match=message) as caught:
        world.client("iam").simulate_principal_policy(**parameters)
    assert code(caught) == ("ValidationError", 400)


def test_the_rest_of_iam_and_sts_is_motos(world: ApiWorld) -> None:
    # Other tests have roles there, too.
    roles = world.client("iam").list_roles(PathPrefix="/service-role/")["Roles"]
    assert ROLE in [role["Arn"] for role in roles]
    assert world.client("sts").get_session_token()["Credentials"]["AccessKeyId"]
    with pytest.raises(ClientError) as caught:
        world.client("iam").get_role(RoleName="nobody")
    assert code(caught)[0] == "NoSuchEntity"


def test_the_login_to_ecr(world: ApiWorld) -> None:
    """The one call to ECR that the SDKs make, and the AWS CLI's `ecr get-login-password`."""
    (login,) = world.client("ecr").get_authorization_token(registryIds=["763104351884"])["authorizationData"]
    assert login["proxyEndpoint"] == "https://763104351884.dkr.ecr.us-east-1.amazonaws.com"
    assert login["authorizationToken"]


def test_sagemaker_may_assume_the_execution_role_of_an_account_that_nobody_has_called(
    world: ApiWorld, bridge: MotoBridge
) -> None:
    """The records are those of `world`: the bridge serves all tests, one after another."""
    account = "444444444444"
    assert bridge.iam.may_assume(account, f"arn:aws:iam::{account}:role/service-role/{execution_role.NAME}")
    assert not bridge.iam.may_assume(account, f"arn:aws:iam::{account}:role/{execution_role.NAME}")
