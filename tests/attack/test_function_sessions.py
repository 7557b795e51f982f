"""The credentials of a Lambda function end with the jobs that made, changed or invoked it, and so do their sessions."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from support.acting_paths import zipped
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.fakes import FakeHost
from support.world import request, until

NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
Keys = tuple[str, ...]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ApiWorld]:
    bridge = MotoBridge()
    bridge.process.forget()
    with ApiWorld(tmp_path, bridge, auth=True) as running:
        yield running


def client(world: ApiWorld, service: str, keys: Keys | None = None) -> Any:
    """`keys`: access key, secret and token, or None for the owner's."""
    key, secret, token = keys or (ACCOUNT, world.engine.keys.secret, None)
    return boto3.client(
        service,
        endpoint_url=f"http://127.0.0.1:{world.port}",
        region_name=REGION,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token,
        config=Config(retries={"total_max_attempts": 1}),
    )


def role(world: ApiWorld, *statements: dict[str, Any]) -> str:
    """Makes a role with these statements, or one that may do everything."""
    iam, name = client(world, "iam"), f"role-{uuid.uuid4().hex[:8]}"
    trusts = {"AWS": "*", "Service": ["sagemaker.amazonaws.com", "lambda.amazonaws.com"]}
    trust = {"Statement": [{"Effect": "Allow", "Principal": trusts, "Action": "sts:AssumeRole"}]}
    arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", **trust}))
    given = [*statements] or [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
    policy = json.dumps({"Version": "2012-10-17", "Statement": given})
    iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=policy)
    return str(arn["Role"]["Arn"])


def job(world: ApiWorld, arn: str, name: str = "one") -> Keys:
    """Starts a job. Returns its keys."""
    client(world, "sagemaker").create_training_job(**request(name, RoleArn=arn))
    return keys_of(world.host(name))


def end(world: ApiWorld, name: str = "one") -> None:
    world.host(name).end(0)
    world.ended(name)


def keys_of(host: FakeHost) -> Keys:
    return tuple(host.plan.environment[one] for one in NAMES)


def make(world: ApiWorld, arn: str, keys: Keys | None = None) -> str:
    """Makes a function with a role. Returns its name."""
    name = f"f-{uuid.uuid4().hex[:8]}"
    client(world, "lambda", keys).create_function(
        FunctionName=name, Runtime="python3.11", Role=arn, Handler="f.h", Code={"ZipFile": zipped()}, Publish=True
    )
    return name


def invoked(world: ApiWorld, name: str, keys: Keys | None = None) -> Keys:
    """Invokes a function, which does not end. Returns its keys."""
    before = {*world.runtime.hosts}
    client(world, "lambda", keys).invoke(FunctionName=name, InvocationType="Event")
    (ref,) = until(lambda: [one for one in {*world.runtime.hosts} - before if one.startswith("function-")])
    return keys_of(world.runtime.hosts[ref])


def whoever(world: ApiWorld, keys: Keys) -> str:
    """Returns the caller's ARN, or the code of the error."""
    try:
        return str(client(world, "sts", keys).get_caller_identity()["Arn"])
    except ClientError as error:
        return str(error.response["Error"]["Code"])


def assumed(world: ApiWorld, arn: str, keys: Keys) -> Keys:
    given = client(world, "sts", keys).assume_role(RoleArn=arn, RoleSessionName="me")["Credentials"]
    return given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"]


def test_they_end_with_the_job_that_invokes_it(world: ApiWorld) -> None:
    wide = role(world)
    name = make(world, wide)
    keys = invoked(world, name, job(world, wide))
    more = assumed(world, wide, keys)
    again = assumed(world, wide, more)
    # A session that the job requested invokes it, too, and so does the function itself.
    by_session = invoked(world, name, assumed(world, wide, job(world, wide, "two")))
    by_itself = invoked(world, name, keys)
    every = (keys, more, again, by_session, by_itself)
    assert all(whoever(world, one).startswith("arn:aws:sts:") for one in every)
    end(world)
    assert [whoever(world, one) for one in (keys, more, again, by_itself)] == ["ExpiredToken"] * 4
    assert whoever(world, by_session).startswith("arn:aws:sts:")
    end(world, "two")
    assert whoever(world, by_session) == "ExpiredToken"


@pytest.mark.parametrize("change", ["code", "configuration", "made", "made, its version"])
def test_they_end_with_a_job_that_made_or_changed_it(world: ApiWorld, change: str) -> None:
    wide = role(world)
    by_job = job(world, wide)
    name = make(world, wide, by_job if change.startswith("made") else None)
    functions = client(world, "lambda", by_job)
    if change == "code":
        functions.update_function_code(FunctionName=name, ZipFile=zipped("def h(event, context): return 1"))
    elif change == "configuration":
        functions.update_function_configuration(FunctionName=name, Role=wide)
    keys = invoked(world, f"{name}:1" if "version" in change else name)
    assert whoever(world, keys).startswith("arn:aws:sts:")
    end(world)
    assert whoever(world, keys) == "ExpiredToken"
    assert whoever(world, invoked(world, name)) == "ExpiredToken"


def test_a_refused_change_does_not_count(world: ApiWorld) -> None:
    wide = role(world)
    name = make(world, wide)
    with pytest.raises(ClientError):
        client(world, "lambda", job(world, wide)).create_function(
            FunctionName=name, Runtime="python3.11", Role=wide, Handler="f.h", Code={"ZipFile": zipped()}
        )
    end(world)
    assert whoever(world, invoked(world, name)).startswith("arn:aws:sts:")


def test_they_do_what_the_role_may(world: ApiWorld) -> None:
    allowed = {"Effect": "Allow", "Action": ["sqs:ListQueues", "sts:AssumeRole"], "Resource": "*"}
    denied = {"Effect": "Deny", "Action": "s3:ListAllMyBuckets", "Resource": "*"}
    keys = invoked(world, make(world, role(world, allowed, denied)))
    narrow = assumed(world, role(world, allowed), keys)
    for one in (keys, narrow):
        assert client(world, "sqs", one).list_queues()
        with pytest.raises(ClientError, match=r"not authorized to perform: iam:CreateUser "):
            client(world, "iam", one).create_user(UserName="eve")
    with pytest.raises(ClientError, match=r"not authorized to perform: s3:ListAllMyBuckets "):
        client(world, "s3", keys).list_buckets()
    assert client(world, "s3", narrow).list_buckets()["Buckets"] == []
    wide = invoked(world, make(world, role(world)))
    with pytest.raises(ClientError, match="iam:CreateAccessKey"):
        client(world, "iam", wide).create_access_key(UserName="ann")


def test_a_job_invokes_only_what_it_may(world: ApiWorld) -> None:
    name = make(world, role(world))
    keys = job(world, role(world, {"Effect": "Deny", "Action": "lambda:InvokeFunction", "Resource": "*"}))
    with pytest.raises(ClientError, match="lambda:Invoke"):
        client(world, "lambda", keys).invoke(FunctionName=name)
