"""Sessions of STS: who gets one, whose it is, and when it ends."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from sagelet_api.protocol import sts_sessions
from sagelet_api.protocol.sts_sessions import StsSession
from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.world import request

OTHER = "210987654321"


@pytest.fixture(params=[False, True], ids=["any key opens", "--auth"])
def world(request: pytest.FixtureRequest, tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    bridge.process.forget()
    with ApiWorld(tmp_path, bridge, auth=request.param) as running:
        yield running


def client(world: ApiWorld, service: str, key: str = ACCOUNT, secret: str = "", token: str | None = None) -> Any:
    return boto3.client(
        service,
        endpoint_url=f"http://127.0.0.1:{world.port}",
        region_name=REGION,
        aws_access_key_id=key,
        aws_secret_access_key=secret or world.engine.keys.secret,
        aws_session_token=token,
        config=Config(retries={"total_max_attempts": 1}),
    )


def of(world: ApiWorld, given: dict[str, Any], service: str) -> Any:
    return client(world, service, given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])


def role(world: ApiWorld, name: str, account: str = ACCOUNT, **statement: Any) -> str:
    """A role whose trust policy has one statement; by default it names ACCOUNT."""
    trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [{**trust, **statement}]})
    made = client(world, "iam", account).create_role(RoleName=name, AssumeRolePolicyDocument=document)
    return str(made["Role"]["Arn"])


def code(call: Any, **parameters: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    return str(caught.value.response["Error"]["Code"])


def test_a_session_is_its_roles_in_its_roles_account(world: ApiWorld) -> None:
    arn = role(world, "there", OTHER)
    given = client(world, "sts").assume_role(RoleArn=arn, RoleSessionName="me")
    assert given["AssumedRoleUser"]["Arn"] == f"arn:aws:sts::{OTHER}:assumed-role/there/me"
    found = of(world, given["Credentials"], "sts").get_caller_identity()
    assert (found["Account"], found["Arn"]) == (OTHER, given["AssumedRoleUser"]["Arn"])
    assert found["UserId"] == given["AssumedRoleUser"]["AssumedRoleId"]
    of(world, given["Credentials"], "sqs").create_queue(QueueName="theirs")
    assert client(world, "sqs", OTHER).list_queues()["QueueUrls"]
    assert "QueueUrls" not in client(world, "sqs").list_queues()
    left = given["Credentials"]["Expiration"] - datetime.now(timezone.utc)
    assert timedelta(minutes=50) < left <= timedelta(hours=1)


@pytest.mark.parametrize(
    "statement",
    [
        {"Principal": {"Service": "sagemaker.amazonaws.com"}},
        {"Principal": {"AWS": OTHER}},
        {"Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:role/another"}},
        {"Effect": "Deny"},
        {"Action": "sts:TagSession"},
        {"Condition": {"StringEquals": {"sts:ExternalId": "secret"}}},
        {"Condition": {"Bool": {"aws:MultiFactorAuthPresent": "true"}}},
    ],
)
def test_a_role_that_does_not_trust_the_caller(world: ApiWorld, statement: dict[str, Any]) -> None:
    arn = role(world, "strict", **statement)
    assert code(client(world, "sts").assume_role, RoleArn=arn, RoleSessionName="me") == "AccessDenied"


@pytest.mark.parametrize("principal", ["*", {"AWS": "*"}, {"AWS": [OTHER, ACCOUNT]}])
def test_a_role_that_does(world: ApiWorld, principal: Any) -> None:
    arn = role(world, "open", Principal=principal)
    assert client(world, "sts").assume_role(RoleArn=arn, RoleSessionName="me")["Credentials"]


def test_an_external_id(world: ApiWorld) -> None:
    arn = role(world, "external", Condition={"StringEquals": {"sts:ExternalId": "secret"}})
    sts = client(world, "sts")
    assert sts.assume_role(RoleArn=arn, RoleSessionName="me", ExternalId="secret")["Credentials"]
    assert code(sts.assume_role, RoleArn=arn, RoleSessionName="me", ExternalId="guess") == "AccessDenied"


def test_a_role_that_is_not_there(world: ApiWorld) -> None:
    sts = client(world, "sts")
    for account in (ACCOUNT, OTHER):
        arn = f"arn:aws:iam::{account}:role/nobody-has-it"
        assert code(sts.assume_role, RoleArn=arn, RoleSessionName="me") == "AccessDenied"
    assert code(sts.assume_role, RoleArn="arn:aws:iam::x:role/y" + "z" * 9, RoleSessionName="me") == "AccessDenied"


def test_it_lives_as_long_as_was_asked(world: ApiWorld) -> None:
    sts, arn = client(world, "sts"), role(world, "short")
    assert code(sts.assume_role, RoleArn=arn, RoleSessionName="me", DurationSeconds=3601) == "ValidationError"
    given = sts.assume_role(RoleArn=arn, RoleSessionName="me", DurationSeconds=900)["Credentials"]
    chained = of(world, given, "sts")
    nested = role(world, "nested", Principal={"AWS": arn})
    assert code(chained.assume_role, RoleArn=nested, RoleSessionName="xx", DurationSeconds=7200) == "ValidationError"
    assert chained.assume_role(RoleArn=nested, RoleSessionName="xx")["AssumedRoleUser"]["Arn"].endswith("/nested/xx")
    assert code(chained.get_session_token) == "AccessDenied"


def test_one_that_is_over_opens_nothing(world: ApiWorld) -> None:
    ended = StsSession(ACCOUNT, f"arn:aws:sts::{ACCOUNT}:assumed-role/a/b", "AROA:b", "", expires_ms=1)
    key = sts_sessions.give_out(world.engine.keys, ended)
    given = {"AccessKeyId": key.access_key, "SecretAccessKey": key.secret, "SessionToken": key.token}
    assert code(of(world, given, "sts").get_caller_identity) == "ExpiredToken"
    assert code(of(world, given, "sagemaker").list_training_jobs) == "ExpiredTokenException"
    assert code(of(world, given, "s3").list_buckets) == "ExpiredToken"


def test_a_session_token_is_used_with_its_key_and_unchanged(world: ApiWorld) -> None:
    arn = role(world, "sealed")
    given = client(world, "sts").assume_role(RoleArn=arn, RoleSessionName="me")["Credentials"]
    again = client(world, "sts").assume_role(RoleArn=arn, RoleSessionName="me")["Credentials"]
    assert given["SessionToken"] != again["SessionToken"]
    assert code(of(world, {**given, "SessionToken": again["SessionToken"]}, "sts").get_caller_identity) == (
        "InvalidClientTokenId"
    )
    changed = given["SessionToken"].replace(".eyJ", ".eyK", 1)
    assert code(of(world, {**given, "SessionToken": changed}, "sts").get_caller_identity) == "InvalidClientTokenId"
    assert code(of(world, {**given, "SecretAccessKey": "x"}, "sts").get_caller_identity) == "SignatureDoesNotMatch"


def test_tokens_of_callers_with_lasting_keys(world: ApiWorld) -> None:
    sts = client(world, "sts")
    given = sts.get_session_token()["Credentials"]
    assert of(world, given, "sts").get_caller_identity()["Arn"] == sts.get_caller_identity()["Arn"]
    federated = sts.get_federation_token(Name="bob")
    assert of(world, federated["Credentials"], "sts").get_caller_identity()["Arn"] == (
        f"arn:aws:sts::{ACCOUNT}:federated-user/bob"
    )
    keys = client(world, "iam").create_user(UserName="ann") and client(world, "iam").create_access_key(UserName="ann")
    ann = client(world, "sts", keys["AccessKey"]["AccessKeyId"], keys["AccessKey"]["SecretAccessKey"])
    assert of(world, ann.get_session_token()["Credentials"], "sts").get_caller_identity()["Arn"].endswith("user/ann")
    mine = role(world, "anns", Principal={"AWS": f"arn:aws:iam::{ACCOUNT}:user/ann"})
    assert ann.assume_role(RoleArn=mine, RoleSessionName="me")["Credentials"]
    assert code(sts.assume_role, RoleArn=mine, RoleSessionName="me") == "AccessDenied"


def test_identities_of_others_cannot_be_checked_here(world: ApiWorld) -> None:
    given = client(world, "sts").get_session_token()["Credentials"]
    status, _, text = world.ask(
        "POST", "/", b"Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName=me&WebIdentityToken=abcd"
        b"&RoleArn=arn:aws:iam::123456789012:role/x1", service="sts", content_type="application/x-www-form-urlencoded",
        x_amz_security_token=given["SessionToken"],
    )  # fmt: skip
    assert status >= 400, text


# --- sessions that a job asked for -------------------------------------------------------------------------------


def started(world: ApiWorld, name: str) -> dict[str, str]:
    client(world, "sagemaker").create_training_job(**request(name))
    return dict(world.host(name).plan.environment)


def assumed_by(world: ApiWorld, name: str) -> dict[str, Any]:
    """The credentials that a job got whose role lets it assume others."""
    environment = started(world, name)
    iam, running = client(world, "iam"), "SageMakerRole"
    iam.create_role(RoleName=running, AssumeRolePolicyDocument='{"Statement": []}')
    may = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}}
    iam.put_role_policy(RoleName=running, PolicyName="may", PolicyDocument=json.dumps(may))
    power = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}
    arn = role(world, "power")
    iam.put_role_policy(RoleName="power", PolicyName="all", PolicyDocument=json.dumps(power))
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    sts = client(world, "sts", *(environment[one] for one in names))
    given: dict[str, Any] = sts.assume_role(RoleArn=arn, RoleSessionName="me")["Credentials"]
    return given


def test_it_may_do_what_the_job_may(world: ApiWorld) -> None:
    given = assumed_by(world, "one")
    assert of(world, given, "sts").get_caller_identity()["Arn"].endswith("assumed-role/power/me")
    assert of(world, given, "s3").list_buckets()["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert code(of(world, given, "sagemaker").list_training_jobs) == "AccessDeniedException"
    assert code(of(world, given, "iam").create_user, UserName="eve") == "AccessDenied"
    deeper = role(world, "deeper")
    again = of(world, given, "sts").assume_role(RoleArn=deeper, RoleSessionName="xx")["Credentials"]
    assert code(of(world, again, "iam").create_user, UserName="eve") == "AccessDenied"


def test_it_ends_with_the_job(world: ApiWorld) -> None:
    given = assumed_by(world, "one")
    world.host("one").end(0)
    world.ended("one")
    assert code(of(world, given, "s3").list_buckets) == "ExpiredToken"


def test_control_endpoints_take_the_key_pair_alone(world: ApiWorld) -> None:
    given = client(world, "sts").get_session_token()["Credentials"]
    status, _, text = world.ask("GET", "/_sagelet/faults/throttling", b"", x_amz_security_token=given["SessionToken"])
    assert (status, b"AccessDenied" in text) == (403, True)
