"""The credentials of a job's containers: they are that job's, reach what a training role does, and end with it."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from sagelet_api.services.iam import execution_role
from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.world import request, until


@pytest.fixture(params=[False, True], ids=["any key opens", "--auth"])
def world(request: pytest.FixtureRequest, tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge, auth=request.param) as running:
        yield running


def owner(world: ApiWorld, service: str) -> Any:
    keys = world.engine.keys
    return _client(world, service, keys.access_key, keys.secret, None)


def start(world: ApiWorld, name: str, **changes: Any) -> dict[str, str]:
    """The environment of a job that trains."""
    owner(world, "sagemaker").create_training_job(**request(name, **changes))
    return dict(world.host(name).plan.environment)


def inside(world: ApiWorld, environment: dict[str, str], service: str, **options: Any) -> Any:
    """A client as boto3 makes it in the container."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    return _client(world, service, *(environment[name] for name in names), **options)


def _client(world: ApiWorld, service: str, key: str, secret: str, token: str | None, **options: Any) -> Any:
    return boto3.client(
        service,
        endpoint_url=f"http://127.0.0.1:{world.port}",
        region_name=REGION,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token,
        config=Config(retries={"total_max_attempts": 1}, **options),
    )


def denied(call: Any, **parameters: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    error = caught.value.response["Error"]
    assert error["Code"] in ("AccessDenied", "AccessDeniedException")
    return str(error["Message"])


def code(call: Any, **parameters: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    return str(caught.value.response["Error"]["Code"])


def test_what_a_training_script_does(world: ApiWorld) -> None:
    environment = start(world, "one")
    s3 = inside(world, environment, "s3")
    s3.create_bucket(Bucket="mine")
    s3.put_object(Bucket="mine", Key="k", Body=b"1")
    s3.copy_object(Bucket="mine", Key="k2", CopySource="mine/k")
    assert [one["Key"] for one in s3.list_objects_v2(Bucket="mine")["Contents"]] == ["k", "k2"]
    s3.delete_objects(Bucket="mine", Delete={"Objects": [{"Key": "k"}, {"Key": "k2"}]})
    url = inside(world, environment, "s3", signature_version="s3v4").generate_presigned_url(
        "list_objects_v2", Params={"Bucket": "mine"}
    )
    assert world._http.request("GET", url).status == 200
    logs = inside(world, environment, "logs")
    logs.create_log_group(logGroupName=f"/script/{uuid.uuid4()}")
    inside(world, environment, "cloudwatch").put_metric_data(Namespace="n", MetricData=[{"MetricName": "m"}])
    identity = inside(world, environment, "sts").get_caller_identity()
    assert identity["Arn"] == f"arn:aws:sts::{ACCOUNT}:assumed-role/SageMakerRole/SageMaker"
    assert identity["UserId"].startswith("AROA")
    assert identity["UserId"].endswith(":SageMaker")


def test_what_it_may_not(world: ApiWorld) -> None:
    environment = start(world, "one")
    sagemaker = inside(world, environment, "sagemaker")
    assert denied(sagemaker.create_training_job, **request("two")) == (
        f"User: arn:aws:sts::{ACCOUNT}:assumed-role/SageMakerRole/SageMaker is not authorized to perform: "
        f"sagemaker:CreateTrainingJob on resource: arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-job/two because no "
        "identity-based policy allows the sagemaker:CreateTrainingJob action"
    )
    for operation, parameters in (
        ("stop_training_job", {"TrainingJobName": "one"}),
        ("describe_training_job", {"TrainingJobName": "one"}),
        ("list_training_jobs", {}),
        ("search", {"Resource": "TrainingJob"}),
    ):
        denied(getattr(sagemaker, operation), **parameters)
    denied(inside(world, environment, "iam").create_user, UserName="eve")
    denied(
        inside(world, environment, "sts").assume_role, RoleArn=f"arn:aws:iam::{ACCOUNT}:role/x", RoleSessionName="xx"
    )
    denied(inside(world, environment, "logs").delete_log_group, logGroupName="/aws/sagemaker/TrainingJobs")
    denied(inside(world, environment, "logs").filter_log_events, logGroupName="/aws/sagemaker/TrainingJobs")
    denied(inside(world, environment, "s3").put_bucket_policy, Bucket="b", Policy="{}")
    denied(inside(world, environment, "sqs").list_queues)
    assert [
        job["TrainingJobName"] for job in owner(world, "sagemaker").list_training_jobs()["TrainingJobSummaries"]
    ] == ["one"]


def test_a_refusal_says_that_a_policy_denies(world: ApiWorld) -> None:
    iam, role = owner(world, "iam"), f"no-logs-{uuid.uuid4()}"
    arn = iam.create_role(RoleName=role, AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "logs:*", "Resource": "*"}]}
    iam.put_role_policy(RoleName=role, PolicyName="no-logs", PolicyDocument=json.dumps(policy))
    logs = inside(world, start(world, "one", RoleArn=arn), "logs")
    message = denied(logs.create_log_group, logGroupName="/script")
    assert message.endswith(" with an explicit deny in an identity-based policy")


def test_the_control_endpoints_are_not_for_jobs(world: ApiWorld) -> None:
    environment = start(world, "one")
    headers = {
        "Authorization": f"AWS4-HMAC-SHA256 Credential={environment['AWS_ACCESS_KEY_ID']}/20260101/{REGION}/sagelet/"
        "aws4_request, SignedHeaders=host, Signature=0",
        "X-Amz-Security-Token": environment["AWS_SESSION_TOKEN"],
    }
    url = f"http://127.0.0.1:{world.port}/_sagelet/faults/throttling"
    answer = world._http.request("GET", url, headers=headers)
    assert (answer.status, json.loads(answer.data)["__type"]) == (403, "AccessDeniedException")


def test_they_are_the_jobs_own_and_end_with_it(world: ApiWorld) -> None:
    one, two = start(world, "one"), start(world, "two")
    assert one["AWS_ACCESS_KEY_ID"] != two["AWS_ACCESS_KEY_ID"]
    assert one["AWS_SESSION_TOKEN"] != two["AWS_SESSION_TOKEN"]
    s3 = inside(world, one, "s3")
    s3.list_buckets()
    mixed = {**one, "AWS_SESSION_TOKEN": two["AWS_SESSION_TOKEN"]}
    assert code(inside(world, mixed, "s3").list_buckets) == "InvalidToken"
    assert code(inside(world, {**one, "AWS_SECRET_ACCESS_KEY": "x"}, "s3").list_buckets) == "SignatureDoesNotMatch"
    forged = {**one, "AWS_SESSION_TOKEN": one["AWS_SESSION_TOKEN"][:-1] + "!"}
    assert code(inside(world, forged, "logs").create_log_group, logGroupName="x") == "UnrecognizedClientException"
    world.host("one").end(0)
    world.ended("one")
    assert code(s3.list_buckets) == "ExpiredToken"
    assert code(inside(world, one, "logs").create_log_group, logGroupName="x") == "ExpiredTokenException"
    assert code(inside(world, one, "sts").get_caller_identity) in ("ExpiredToken", "ExpiredTokenException")
    inside(world, two, "s3").list_buckets()
    owner(world, "sagemaker").delete_training_job(TrainingJobName="one")
    assert code(s3.list_buckets) == "InvalidToken"


def test_they_survive_a_restart_of_the_server(tmp_path: Path, bridge: MotoBridge) -> None:
    with ApiWorld(tmp_path, bridge) as world:
        environment = start(world, "one")
        before = world.engine.keys
        world.restart()
        assert world.engine.keys == before
        session = world.engine.jobs.session(environment["AWS_SESSION_TOKEN"])
        assert session is not None
        assert (session.job.key.name, session.key.secret) == ("one", environment["AWS_SECRET_ACCESS_KEY"])


def test_a_jobs_credentials_are_of_its_account(world: ApiWorld) -> None:
    other = _client(world, "sagemaker", "210987654322", world.engine.keys.secret, None)
    other.create_training_job(**request("elsewhere"))
    (host,) = until(lambda: list(world.runtime.hosts.values()))
    environment = dict(host.plan.environment)
    assert inside(world, environment, "sts").get_caller_identity()["Account"] == "210987654322"
    inside(world, environment, "s3").create_bucket(Bucket="theirs")
    group = f"/theirs/{uuid.uuid4()}"
    inside(world, environment, "logs").create_log_group(logGroupName=group)
    logs = _client(world, "logs", "210987654322", world.engine.keys.secret, None)
    assert [one["logGroupName"] for one in logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]] == [group]
    assert code(owner(world, "s3").head_bucket, Bucket="theirs") == "403"


def test_keys_of_the_request_take_the_place_of_ours(world: ApiWorld) -> None:
    environment = start(world, "one", Environment={"AWS_ACCESS_KEY_ID": "AKIAMINE", "AWS_SECRET_ACCESS_KEY": "s"})
    assert environment["AWS_ACCESS_KEY_ID"] == "AKIAMINE"
    assert "AWS_SESSION_TOKEN" not in environment


def allow(*actions: str, effect: str = "Allow", resource: str = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": effect, "Action": [*actions], "Resource": resource, **more}


def role(world: ApiWorld, *statements: dict[str, Any]) -> str:
    iam, name = owner(world, "iam"), f"role-{uuid.uuid4().hex}"
    made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=execution_role.TRUST_POLICY)["Role"]["Arn"]
    document = json.dumps({"Version": "2012-10-17", "Statement": [*statements]})
    arn = iam.create_policy(PolicyName=name, PolicyDocument=document)["Policy"]["Arn"]
    iam.attach_role_policy(RoleName=name, PolicyArn=arn)
    return str(made)


def test_a_role_that_may_start_jobs_lets_its_jobs(world: ApiWorld) -> None:
    arn = role(world, allow("sagemaker:Create*", "sagemaker:List*"))
    environment = start(world, "one", RoleArn=arn)
    inside(world, environment, "sagemaker").create_training_job(**request("two", RoleArn=arn))
    denied(inside(world, environment, "sagemaker").stop_training_job, TrainingJobName="one")
    inside(world, environment, "s3").list_buckets()


def test_with_enforce_iam_the_roles_policies_decide(tmp_path: Path, bridge: MotoBridge) -> None:
    with ApiWorld(tmp_path, bridge, enforce_iam=True) as world:
        arn = role(
            world,
            allow("s3:GetObject", "s3:PutObject", resource="arn:aws:s3:::data/train/*"),
            allow("s3:PutObject", effect="Deny", resource="arn:aws:s3:::data/train/locked*"),
            allow("logs:*", Condition={"Bool": {"aws:SecureTransport": "true"}}),
        )
        owner(world, "s3").create_bucket(Bucket="data")
        environment = start(world, "one", RoleArn=arn)
        s3 = inside(world, environment, "s3")
        s3.put_object(Bucket="data", Key="train/x", Body=b"1")
        denied(s3.put_object, Bucket="data", Key="train/locked-1", Body=b"1")
        denied(s3.put_object, Bucket="data", Key="test/x", Body=b"1")
        denied(s3.copy_object, Bucket="data", Key="train/y", CopySource="data/secret")
        denied(s3.list_objects_v2, Bucket="data")
        denied(inside(world, environment, "logs").create_log_group, logGroupName="/x")
        seeded = f"arn:aws:iam::{ACCOUNT}:role/service-role/{execution_role.NAME}"
        environment = start(world, "two", RoleArn=seeded)
        inside(world, environment, "s3").list_objects_v2(Bucket="data")
        denied(inside(world, environment, "sagemaker").create_training_job, **request("three", RoleArn=seeded))
