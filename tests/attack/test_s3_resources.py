"""S3: what is authorised are the very objects that the request is about, as the handler will read it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import REGION, ApiWorld

BUCKET, ROLE = "mine", "arn:aws:iam::123456789012:role/somebody"
TRUST = {"Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}]}
OBJECTS = f"arn:aws:s3:::{BUCKET}"


@pytest.fixture(scope="module")
def bridge() -> MotoBridge:
    return MotoBridge()


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    bridge.process.forget()
    with ApiWorld(tmp_path, bridge, auth=True) as running:
        owner = client(running, "s3")
        owner.create_bucket(Bucket=BUCKET)
        for key in ("shared", "shared?secret", "kept/one", "other"):
            owner.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
        client(running, "iam").create_role(RoleName="somebody", AssumeRolePolicyDocument=json.dumps(TRUST))
        yield running


def client(world: ApiWorld, service: str, **keys: str) -> Any:
    owner = {
        "aws_access_key_id": world.engine.keys.access_key,
        "aws_secret_access_key": world.engine.keys.secret,
    }
    return boto3.client(
        service,
        endpoint_url=f"http://127.0.0.1:{world.port}",
        region_name=REGION,
        config=Config(retries={"total_max_attempts": 1}),
        **(keys or owner),
    )


def limited(world: ApiWorld, *statements: dict[str, Any]) -> Any:
    """S3 with a session that may do this alone."""
    given = client(world, "sts").assume_role(
        RoleArn=ROLE, RoleSessionName="limited", Policy=json.dumps({"Statement": list(statements)})
    )["Credentials"]
    return client(
        world,
        "s3",
        aws_access_key_id=given["AccessKeyId"],
        aws_secret_access_key=given["SecretAccessKey"],
        aws_session_token=given["SessionToken"],
    )


def keys(world: ApiWorld) -> set[str]:
    return {one["Key"] for one in client(world, "s3").list_objects_v2(Bucket=BUCKET)["Contents"]}


def refused(error: "pytest.ExceptionInfo[ClientError]") -> str:
    assert error.value.response["Error"]["Code"] == "AccessDenied"
    return str(error.value.response["Error"]["Message"])


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(
            (
                {"Effect": "Allow", "Action": "s3:DeleteObject", "Resource": f"{OBJECTS}/*"},
                {"Effect": "Deny", "Action": "s3:DeleteObject", "Resource": f"{OBJECTS}/kept/*"},
            ),
            id="a denial of some keys",
        ),
        pytest.param(
            ({"Effect": "Allow", "Action": "s3:DeleteObject", "Resource": f"{OBJECTS}/?"},),
            id="a pattern that an asterisk fits",
        ),
    ],
)
def test_many_are_deleted_by_the_rights_to_each(world: ApiWorld, statements: tuple[dict[str, Any], ...]) -> None:
    before = keys(world)
    with pytest.raises(ClientError) as error:
        limited(world, *statements).delete_objects(
            Bucket=BUCKET, Delete={"Objects": [{"Key": "x"}, {"Key": "kept/one"}]}
        )
    assert f"{OBJECTS}/kept/one" in refused(error)
    assert keys(world) == before


def test_many_are_deleted_by_a_right_to_them_alone(world: ApiWorld) -> None:
    session = limited(world, {"Effect": "Allow", "Action": "s3:DeleteObject", "Resource": f"{OBJECTS}/kept/*"})
    session.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "kept/one"}, {"Key": "kept/two"}]})
    assert "kept/one" not in keys(world)


def test_a_copy_reads_what_was_authorised(world: ApiWorld) -> None:
    session = limited(
        world,
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{OBJECTS}/shared"},
        {"Effect": "Allow", "Action": "s3:PutObject", "Resource": f"{OBJECTS}/copy*"},
    )
    session.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "shared"})
    with pytest.raises(ClientError) as error:
        session.copy_object(Bucket=BUCKET, Key="copy-2", CopySource={"Bucket": BUCKET, "Key": "shared?secret"})
    assert f"{OBJECTS}/shared?secret" in refused(error)
    assert "copy-2" not in keys(world)


@pytest.mark.parametrize(("member", "action"), [("Tagging", "s3:PutObjectTagging"), ("ACL", "s3:PutObjectAcl")])
@pytest.mark.parametrize("operation", ["put_object", "copy_object", "create_multipart_upload"])
def test_what_is_said_beside_a_new_object_needs_its_own_right(
    world: ApiWorld, operation: str, member: str, action: str
) -> None:
    putting = {"Effect": "Allow", "Action": ["s3:PutObject", "s3:GetObject"], "Resource": f"{OBJECTS}/*"}
    said = {"Bucket": BUCKET, "Key": "beside", member: {"Tagging": "a=b", "ACL": "private"}[member]}
    if operation == "copy_object":
        said |= {"CopySource": f"{BUCKET}/shared", "TaggingDirective": "REPLACE"}
    with pytest.raises(ClientError) as error:
        getattr(limited(world, putting), operation)(**said)
    assert action in refused(error)
    assert getattr(limited(world, {**putting, "Action": ["s3:GetObject", "s3:PutObject", action]}), operation)(**said)
