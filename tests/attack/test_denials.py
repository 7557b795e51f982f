"""A role that may do everything except what a Deny, in some form, denies. The Deny holds, also after `kill -9`."""

import gzip
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
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.server import SageletProcess

HERE = f"{REGION}:{ACCOUNT}"
TRUST = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": ACCOUNT}, "Action": "sts:AssumeRole"}]}  # fmt: skip # noqa: E501
EVERYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}
ENCRYPTION = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
LIFECYCLE = {"Rules": [{"ID": "r", "Status": "Enabled", "Filter": {}, "Expiration": {"Days": 1}}]}
QUEUE = f"http://localhost/{ACCOUNT}/q"
#: The denial, and the call that it denies: service, operation, parameters.
DENIED = {
    "a resource outside of S3": (
        {"Action": "sagemaker:StopTrainingJob", "Resource": f"arn:aws:sagemaker:{HERE}:training-job/a"},
        ("sagemaker", "stop_training_job", {"TrainingJobName": "a"}),
    ),
    "a queue": (
        {"Action": "sqs:*", "Resource": f"arn:aws:sqs:{HERE}:q"},
        ("sqs", "send_message", {"QueueUrl": QUEUE, "MessageBody": "x"}),
    ),
    "a batch for a queue": (
        {"Action": "sqs:SendMessage", "Resource": f"arn:aws:sqs:{HERE}:q"},
        ("sqs", "send_message_batch", {"QueueUrl": QUEUE, "Entries": [{"Id": "1", "MessageBody": "x"}]}),
    ),
    "a log group": (
        {"Action": "logs:*", "Resource": f"arn:aws:logs:{HERE}:log-group:/g:*"},
        ("logs", "put_log_events", {"logGroupName": "/g", "logStreamName": "s", "logEvents": []}),
    ),
    "an action without resources": (
        {"Action": "cloudwatch:PutMetricData", "Resource": f"arn:aws:cloudwatch:{HERE}:*"},
        ("cloudwatch", "put_metric_data", {"Namespace": "n", "MetricData": [{"MetricName": "m", "Value": 1}]}),
    ),
    "a function": (
        {"Action": "lambda:InvokeFunction", "Resource": "*"},
        ("lambda", "invoke", {"FunctionName": "f"}),
    ),
    "a function by its ARN": (
        {"Action": "lambda:InvokeFunction", "Resource": f"arn:aws:lambda:{HERE}:function:f"},
        ("lambda", "invoke", {"FunctionName": "f", "Qualifier": "1"}),
    ),
    "an alias of a key": (
        {"Action": "kms:Decrypt", "Resource": f"arn:aws:kms:{HERE}:key/1234"},
        ("kms", "decrypt", {"KeyId": "alias/a", "CiphertextBlob": b"x"}),
    ),
    "encryption": (
        {"Action": "s3:PutEncryptionConfiguration", "Resource": "*"},
        ("s3", "put_bucket_encryption", {"Bucket": "own", "ServerSideEncryptionConfiguration": ENCRYPTION}),
    ),
    "the end of encryption": (
        {"Action": "s3:PutEncryptionConfiguration", "Resource": "arn:aws:s3:::own"},
        ("s3", "delete_bucket_encryption", {"Bucket": "own"}),
    ),
    "lifecycles": (
        {"Action": "s3:PutLifecycleConfiguration", "Resource": "*"},
        ("s3", "put_bucket_lifecycle_configuration", {"Bucket": "own", "LifecycleConfiguration": LIFECYCLE}),
    ),
    "a version": (
        {"Action": "s3:GetObjectVersion", "Resource": "*"},
        ("s3", "get_object", {"Bucket": "own", "Key": "k", "VersionId": "null"}),
    ),
    "an object, by its version": (
        {"Action": "s3:GetObject", "Resource": "arn:aws:s3:::own/k"},
        ("s3", "head_object", {"Bucket": "own", "Key": "k", "VersionId": "null"}),
    ),
    "NotAction with NotResource": (
        {"NotAction": ["s3:*", "sts:*"], "NotResource": "arn:aws:s3:::*"},
        ("sagemaker", "list_training_jobs", {}),
    ),
    "NotAction with a resource": (
        {"NotAction": "s3:PutObject", "Resource": f"arn:aws:sagemaker:{HERE}:training-job/*"},
        ("sagemaker", "describe_training_job", {"TrainingJobName": "a"}),
    ),
    "a condition": (
        {"Action": "sqs:*", "Resource": "*", "Condition": {"StringEquals": {"aws:SourceAccount": "1"}}},
        ("sqs", "list_queues", {}),
    ),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path_factory.mktemp("data"), MotoBridge(), auth=True, enforce_iam=True) as running:
        keys = running.engine.keys
        owner = client(f"http://127.0.0.1:{running.port}", "s3", keys.access_key, keys.secret)
        owner.create_bucket(Bucket="own")
        owner.put_object(Bucket="own", Key="k", Body=b"x")
        yield running


def client(endpoint: str, service: str, key: str, secret: str, token: str | None = None) -> Any:
    return boto3.client(
        service, endpoint_url=endpoint, region_name=REGION, aws_access_key_id=key, aws_secret_access_key=secret,
        aws_session_token=token, config=Config(retries={"total_max_attempts": 1}, parameter_validation=False),
    )  # fmt: skip


def owner(world: ApiWorld, service: str) -> Any:
    keys = world.engine.keys
    return client(f"http://127.0.0.1:{world.port}", service, keys.access_key, keys.secret)


def session(sts: Any, endpoint: str, service: str, role: str) -> Any:
    given = sts.assume_role(RoleArn=role, RoleSessionName="me")["Credentials"]
    return client(endpoint, service, given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])


def role(iam: Any, *statements: dict[str, Any], **options: Any) -> str:
    name = f"role-{uuid.uuid4().hex}"
    arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST), **options)["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=policy(*statements))
    return str(arn)


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [*statements]})


def refused(call: Any, **parameters: Any) -> bool:
    try:
        call(**parameters)
    except ClientError as error:
        # A HEAD has no body.
        return error.response["Error"]["Code"] in ("AccessDenied", "AccessDeniedException", "403")
    return False


@pytest.mark.parametrize("what", DENIED)
def test_a_denial_denies(world: ApiWorld, what: str) -> None:
    denial, (service, operation, parameters) = DENIED[what]
    iam, sts, endpoint = owner(world, "iam"), owner(world, "sts"), f"http://127.0.0.1:{world.port}"
    free = session(sts, endpoint, service, role(iam, EVERYTHING))
    assert not refused(getattr(free, operation), **parameters)
    bound = session(sts, endpoint, service, role(iam, EVERYTHING, {"Effect": "Deny", **denial}))
    assert refused(getattr(bound, operation), **parameters)


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param([{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}], id="permits something else"),
        pytest.param([EVERYTHING, {"Effect": "Deny", "Action": "sqs:*", "Resource": "*"}], id="denies it"),
    ],
)
def test_a_permissions_boundary_bounds(world: ApiWorld, statements: list[dict[str, Any]]) -> None:
    iam, sts, endpoint = owner(world, "iam"), owner(world, "sts"), f"http://127.0.0.1:{world.port}"
    name = f"boundary-{uuid.uuid4().hex}"
    boundary = iam.create_policy(PolicyName=name, PolicyDocument=policy(*statements))["Policy"]["Arn"]
    bound = role(iam, EVERYTHING, PermissionsBoundary=boundary)
    assert refused(session(sts, endpoint, "sqs", bound).list_queues)
    assert not refused(session(sts, endpoint, "s3", bound).list_buckets)
    iam.delete_role_permissions_boundary(RoleName=bound.rpartition("/")[2])
    assert not refused(session(sts, endpoint, "sqs", bound).list_queues)


def test_a_boundary_that_does_not_exist_permits_nothing(world: ApiWorld) -> None:
    iam, sts, endpoint = owner(world, "iam"), owner(world, "sts"), f"http://127.0.0.1:{world.port}"
    bound = role(iam, EVERYTHING, PermissionsBoundary=f"arn:aws:iam::{ACCOUNT}:policy/nobody-made-it")
    assert refused(session(sts, endpoint, "sqs", bound).list_queues)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_body_is_read_as_what_runs_reads_it(world: ApiWorld, packed: bool) -> None:
    """moto unpacks a body, so the roles and resources in it are those of the unpacked one."""
    iam, sts, endpoint = owner(world, "iam"), owner(world, "sts"), f"http://127.0.0.1:{world.port}"
    other = role(iam, EVERYTHING)
    denial = {"Effect": "Deny", "Action": "iam:PassRole", "Resource": other}
    functions = session(sts, endpoint, "lambda", role(iam, EVERYTHING, denial))
    queues = session(
        sts, endpoint, "sqs", role(iam, EVERYTHING, {**denial, "Action": "sqs:*", "Resource": f"arn:aws:sqs:{HERE}:q"})
    )
    if packed:
        functions.meta.events.register("before-call.lambda", pack)
        queues.meta.events.register("before-call.sqs", pack)
    code = {"ZipFile": b"no zip"}
    assert refused(
        functions.create_function, FunctionName="f2", Runtime="python3.11", Role=other, Handler="f.h", Code=code
    )
    assert refused(queues.create_queue, QueueName="q")
    assert not refused(queues.create_queue, QueueName="q2")


def pack(params: dict[str, Any], **_: Any) -> None:
    body = params["body"]
    params["body"] = gzip.compress(body.encode() if isinstance(body, str) else body)
    params["headers"]["Content-Encoding"] = "gzip"


def test_a_denial_holds_after_kill_9(tmp_path: Path) -> None:
    server = SageletProcess(tmp_path / "data", "--runtime", "process", "--auth", "--enforce-iam").start()
    try:
        iam = server.client("iam")
        boundary = iam.create_policy(PolicyName="b", PolicyDocument=policy(EVERYTHING))["Policy"]["Arn"]
        denial = {"Effect": "Deny", "Action": "sqs:ListQueues", "Resource": "*"}
        bound = role(iam, EVERYTHING, denial, PermissionsBoundary=boundary)
        user = iam.create_user(UserName="u")["User"]["Arn"]
        key = iam.create_access_key(UserName="u")["AccessKey"]
        before = session(server.client("sts"), server.endpoint, "sqs", bound)
        assert refused(before.list_queues)
        server.kill()
        server.start()
        # The first one is the server's first request, before anything has loaded moto.
        for login in (lambda: client(server.endpoint, "sqs", *_keys(before)), lambda: again(server, bound)):
            one = login()
            assert refused(one.list_queues)
            assert one.create_queue(QueueName=f"q-{uuid.uuid4().hex}")["QueueUrl"]
        assert server.client("iam").get_role(RoleName=bound.rpartition("/")[2])["Role"]["PermissionsBoundary"] == {
            "PermissionsBoundaryType": "PermissionsBoundaryPolicy",
            "PermissionsBoundaryArn": boundary,
        }
        of_user = client(server.endpoint, "sts", key["AccessKeyId"], key["SecretAccessKey"])
        assert of_user.get_caller_identity()["Arn"] == user
    finally:
        server.stop()


def again(server: SageletProcess, arn: str) -> Any:
    return session(server.client("sts"), server.endpoint, "sqs", arn)


def _keys(one: Any) -> tuple[str, str, str]:
    found = one._request_signer._credentials
    return found.access_key, found.secret_key, found.token
