"""`sagelet up --auth`: every client's way to sign is understood, and nothing else comes in. boto3 is what signs."""

import gzip
import http.client
import io
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
import pytest
import urllib3
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from click.testing import CliRunner

from sagelet_api.cli.main import main
from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.world import request

BUCKET = "signed"
#: Keys and texts that clients and servers may encode in different ways.
HARD_KEYS = ("a b+c&d=e", "ä/ö//x", "%41%2f", "~._-!*'()", "x?y#z", "./../up", "a;b,c:d@e$")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path_factory.mktemp("auth"), bridge, auth=True) as running:
        client(running, "s3").create_bucket(Bucket=BUCKET)
        yield running


def client(world: ApiWorld, service: str, key: str | None = None, secret: str | None = None, **options: Any) -> Any:
    keys = world.engine.keys
    config = {"retries": {"total_max_attempts": 1}, **options.pop("config", {})}
    return boto3.client(
        service,
        endpoint_url=f"http://127.0.0.1:{world.port}",
        region_name=options.pop("region", REGION),
        aws_access_key_id=key or keys.access_key,
        aws_secret_access_key=secret or keys.secret,
        config=Config(**config),
        **options,
    )


def refusal(caught: "pytest.ExceptionInfo[ClientError]") -> tuple[int, str, str]:
    answer = caught.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"], answer["Error"]["Message"]


@contextmanager
def clocks_at(moment: datetime) -> Iterator[None]:
    """What botocore's signers, its own and AWS's C library, take for now."""
    with (
        patch("botocore.crt.auth.get_current_datetime", lambda **_: moment),
        patch("botocore.auth.get_current_datetime", lambda **_: moment.replace(tzinfo=None)),
    ):
        yield


def raw(
    world: ApiWorld, method: str, target: str, headers: dict[str, str], body: bytes = b""
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=30)
    connection.request(method, target, body=body, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text


def signed(
    world: ApiWorld, service: str, method: str = "GET", target: str = "/", body: bytes = b"", **headers: str
) -> dict[str, str]:
    """Headers of a request that botocore signs."""
    keys = world.engine.keys
    made = AWSRequest(method, f"http://127.0.0.1:{world.port}{target}", {**headers}, body)
    signer = S3SigV4Auth if service == "s3" else SigV4Auth
    signer(Credentials(keys.access_key, keys.secret), service, REGION).add_auth(made)
    return dict(made.headers.items())


# --- what comes in ----------------------------------------------------------------------------------------------------


def test_the_key_pair_opens_every_service(world: ApiWorld) -> None:
    sagemaker = client(world, "sagemaker")
    sagemaker.create_training_job(**request("signed-job"))
    assert sagemaker.describe_training_job(TrainingJobName="signed-job")["TrainingJobName"] == "signed-job"
    assert client(world, "sts").get_caller_identity()["Account"] == ACCOUNT
    assert client(world, "iam").list_roles()["Roles"]
    client(world, "logs").create_log_group(logGroupName="/signed/mine")
    assert client(world, "logs").describe_log_groups(logGroupNamePrefix="/signed/mine")["logGroups"]
    client(world, "cloudwatch").put_metric_data(Namespace="n", MetricData=[{"MetricName": "m", "Value": 1}])
    point = {"MetricName": "m", "Timestamp": datetime.now(timezone.utc), "Value": 1.0}
    client(world, "sagemaker-metrics").batch_put_metrics(
        TrialComponentName="signed-job-aws-training-job", MetricData=[point]
    )
    assert client(world, "sqs").list_queues()["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_the_secret_signs_for_every_account_and_a_stranger_for_none(world: ApiWorld) -> None:
    other = client(world, "sts", key="210987654321")
    assert other.get_caller_identity()["Account"] == "210987654321"
    with pytest.raises(ClientError):
        client(world, "sts", key="210987654321", secret="guessed").get_caller_identity()


@pytest.mark.parametrize("key", HARD_KEYS)
def test_objects_whatever_their_names(world: ApiWorld, key: str) -> None:
    s3 = client(world, "s3")
    s3.put_object(Bucket=BUCKET, Key=key, Body=b"bytes", Metadata={"a_b-c": "d  e", "n": "1"}, Tagging="x=1%202")
    assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"bytes"
    assert key in [one["Key"] for one in s3.list_objects_v2(Bucket=BUCKET, Prefix=key[:1])["Contents"]]
    for version in ("s3", "s3v4"):
        sharer = client(world, "s3", config={"signature_version": version})
        url = sharer.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": key})
        # Not with urllib3, which resolves dots in a path.
        assert raw(world, "GET", url.partition(str(world.port))[2], {})[2] == "bytes"
    s3.delete_object(Bucket=BUCKET, Key=key)


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA256", "CRC64NVME"])
def test_uploads_with_checksums(world: ApiWorld, algorithm: str) -> None:
    s3 = client(world, "s3")
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"x" * 100_000, ChecksumAlgorithm=algorithm)
    assert s3.get_object(Bucket=BUCKET, Key="k", ChecksumMode="ENABLED")["Body"].read() == b"x" * 100_000


def test_a_multipart_upload_and_a_deletion_of_many(world: ApiWorld) -> None:
    s3 = client(world, "s3")
    config = boto3.s3.transfer.TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)
    s3.upload_fileobj(io.BytesIO(b"y" * (11 << 20)), BUCKET, "large", Config=config)
    assert s3.head_object(Bucket=BUCKET, Key="large")["ContentLength"] == 11 << 20
    s3.copy({"Bucket": BUCKET, "Key": "large"}, BUCKET, "copy")
    s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "large"}, {"Key": "copy"}]})
    s3.put_bucket_tagging(Bucket=BUCKET, Tagging={"TagSet": [{"Key": "k", "Value": "v"}]})


def test_presigned_uploads_and_urls_of_other_services(world: ApiWorld) -> None:
    s3 = client(world, "s3")
    url = s3.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": "put", "ContentType": "text/plain"})
    assert urllib3.request("PUT", url, body=b"put", headers={"Content-Type": "text/plain"}).status == 200
    assert s3.get_object(Bucket=BUCKET, Key="put")["Body"].read() == b"put"
    who = client(world, "sts").generate_presigned_url("get_caller_identity", HttpMethod="GET")
    assert b"GetCallerIdentityResult" in urllib3.request("GET", who).data


def test_keys_of_users_and_sessions_that_were_made_here(world: ApiWorld) -> None:
    iam = client(world, "iam")
    iam.create_user(UserName="beth")
    key = iam.create_access_key(UserName="beth")["AccessKey"]
    beth = client(world, "sts", key["AccessKeyId"], key["SecretAccessKey"])
    assert beth.get_caller_identity()["Arn"].endswith("user/beth")
    trust = {"Effect": "Allow", "Principal": {"AWS": ACCOUNT}, "Action": "sts:AssumeRole"}
    role = iam.create_role(RoleName="assumed", AssumeRolePolicyDocument=json.dumps({"Statement": trust}))["Role"]["Arn"]
    given = client(world, "sts").assume_role(RoleArn=role, RoleSessionName="me")["Credentials"]
    session = (given["AccessKeyId"], given["SecretAccessKey"])
    arn = client(world, "sts", *session, aws_session_token=given["SessionToken"]).get_caller_identity()["Arn"]
    assert "assumed-role/assumed/me" in arn
    with pytest.raises(ClientError) as caught:
        client(world, "sts", *session).get_caller_identity()
    assert refusal(caught)[:2] == (403, "InvalidClientTokenId")
    iam.update_access_key(UserName="beth", AccessKeyId=key["AccessKeyId"], Status="Inactive")
    with pytest.raises(ClientError, match="InvalidClientTokenId"):
        beth.get_caller_identity()


# --- chunks that are signed one by one --------------------------------------------------------------------------------


def chunked(
    world: ApiWorld, key: str, *chunks: bytes, trailer: bytes = b"", spoil: int | None = None
) -> tuple[int, str]:
    """A PUT of aws-chunked with signed chunks, as the AWS SDKs for Java and C++ send it."""
    from hashlib import sha256

    kind = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" + ("-TRAILER" if trailer else "")
    keys = world.engine.keys
    size = str(sum(map(len, chunks)))
    head = {"x-amz-decoded-content-length": size, "Content-Encoding": "aws-chunked"}
    if trailer:
        head["x-amz-trailer"] = trailer.partition(b":")[0].decode()
    target = f"/{BUCKET}/{key}"
    made = AWSRequest("PUT", f"http://127.0.0.1:{world.port}{target}", head)

    class Streaming(S3SigV4Auth):  # type: ignore[misc]
        def payload(self, request: Any) -> str:
            return kind

    signer = Streaming(Credentials(keys.access_key, keys.secret), "s3", REGION)
    signer.add_auth(made)
    stamp, scope = made.context["timestamp"], signer.credential_scope(made)
    previous = made.headers["Authorization"].rpartition("=")[2]
    body = b""
    for number, chunk in enumerate([*chunks, b""]):
        lines = ("AWS4-HMAC-SHA256-PAYLOAD", stamp, scope, previous, sha256().hexdigest(), sha256(chunk).hexdigest())
        previous = signer.signature("\n".join(lines), made)
        sent = chunk[:-1] + b"!" if number == spoil else chunk
        body += f"{len(chunk):x};chunk-signature={previous}\r\n".encode() + sent + (b"\r\n" if chunk else b"")
    if trailer:
        lines = ("AWS4-HMAC-SHA256-TRAILER", stamp, scope, previous, sha256(trailer + b"\n").hexdigest())
        last = signer.signature("\n".join(lines), made)
        if spoil == -1:
            last = "0" * 64
        body += trailer + b"\r\nx-amz-trailer-signature:" + last.encode() + b"\r\n"
    status, _, text = raw(world, "PUT", target, dict(made.headers.items()), body + b"\r\n")
    return status, text


def test_signed_chunks(world: ApiWorld) -> None:
    s3 = client(world, "s3")
    assert chunked(world, "chunks", b"a" * 70_000, b"b" * 10)[0] == 200
    assert s3.head_object(Bucket=BUCKET, Key="chunks")["ContentLength"] == 70_010
    assert chunked(world, "trailer", b"hello", trailer=b"x-amz-checksum-crc32:NhCmhg==")[0] == 200
    assert s3.get_object(Bucket=BUCKET, Key="trailer")["Body"].read() == b"hello"


@pytest.mark.parametrize("spoiled", [0, 1, -1])
def test_a_chunk_that_was_changed_is_refused(world: ApiWorld, spoiled: int) -> None:
    key = f"spoiled-{uuid.uuid4()}"
    trailer = b"x-amz-checksum-crc32:NhCmhg==" if spoiled < 0 else b""
    chunks = (b"hello",) if spoiled < 0 else (b"a" * 70_000, b"b" * 10)
    status, text = chunked(world, key, *chunks, trailer=trailer, spoil=spoiled)
    assert (status, "SignatureDoesNotMatch" in text) == (403, True), text
    assert "Contents" not in client(world, "s3").list_objects_v2(Bucket=BUCKET, Prefix=key)


# --- what does not ----------------------------------------------------------------------------------------------------

UNKNOWN = [
    ("sagemaker", "list_training_jobs", 400, "UnrecognizedClientException"),
    ("logs", "describe_log_groups", 400, "UnrecognizedClientException"),
    ("sts", "get_caller_identity", 403, "InvalidClientTokenId"),
    ("iam", "list_roles", 403, "InvalidClientTokenId"),
    ("s3", "list_buckets", 403, "InvalidAccessKeyId"),
]


@pytest.mark.parametrize(("service", "operation", "status", "code"), UNKNOWN)
def test_an_unknown_key(world: ApiWorld, service: str, operation: str, status: int, code: str) -> None:
    with pytest.raises(ClientError) as caught:
        getattr(client(world, service, key="AKIAIOSFODNN7EXAMPLE"), operation)()
    message = (
        "The AWS Access Key Id you provided does not exist in our records."
        if service == "s3"
        else "The security token included in the request is invalid."
    )
    assert refusal(caught) == (status, code, message)


WRONG = [
    ("sagemaker", "list_training_jobs", 400, "InvalidSignatureException"),
    ("logs", "describe_log_groups", 400, "InvalidSignatureException"),
    ("sts", "get_caller_identity", 403, "SignatureDoesNotMatch"),
    ("s3", "list_buckets", 403, "SignatureDoesNotMatch"),
]


@pytest.mark.parametrize(("service", "operation", "status", "code"), WRONG)
def test_a_wrong_secret(world: ApiWorld, service: str, operation: str, status: int, code: str) -> None:
    with pytest.raises(ClientError) as caught:
        getattr(client(world, service, secret="wrong"), operation)()
    assert refusal(caught)[:2] == (status, code)
    assert refusal(caught)[2].startswith(
        "The request signature we calculated does not match the signature you provided."
    )


@pytest.mark.parametrize("minutes", [-16, 16])
@pytest.mark.parametrize(("service", "operation", "status", "code"), WRONG)
def test_another_time(world: ApiWorld, service: str, operation: str, status: int, code: str, minutes: int) -> None:
    moment = datetime.now(timezone.utc) + timedelta(minutes=minutes)
    with clocks_at(moment), pytest.raises(ClientError) as caught:
        getattr(client(world, service), operation)()
    if service == "s3":
        words = "The difference between the request time and the current time is too large."
        assert refusal(caught) == (403, "RequestTimeTooSkewed", words)
        return
    assert refusal(caught)[:2] == (status, code)
    assert refusal(caught)[2].startswith("Signature expired: " if minutes < 0 else "Signature not yet current: ")


def test_version_2_signs_s3s_requests(world: ApiWorld) -> None:
    old = client(world, "s3", config={"signature_version": "s3"})
    old.put_object(Bucket=BUCKET, Key="old", Body=b"2", Metadata={"m": "1"}, ContentType="text/plain")
    assert old.get_object(Bucket=BUCKET, Key="old", ResponseContentType="a/b")["ContentType"] == "a/b"
    url = old.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "old"})
    assert b"SignatureDoesNotMatch" in urllib3.request("GET", url.replace("/old", "/other")).data
    assert b"SignatureDoesNotMatch" in urllib3.request("GET", f"{url}&acl").data
    over = old.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "old"}, ExpiresIn=-5)
    assert b"Request has expired" in urllib3.request("GET", over).data
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        client(world, "s3", secret="wrong", config={"signature_version": "s3"}).list_buckets()


def test_a_presigned_url_that_is_over_or_was_changed(world: ApiWorld) -> None:
    s3 = client(world, "s3", config={"signature_version": "s3v4"})
    s3.put_object(Bucket=BUCKET, Key="shared", Body=b"1")
    with clocks_at(datetime.now(timezone.utc) - timedelta(minutes=30)):
        old = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "shared"}, ExpiresIn=60)
        alive = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "shared"}, ExpiresIn=3600)
    answer = urllib3.request("GET", old)
    assert (answer.status, b"Request has expired" in answer.data) == (403, True)
    assert urllib3.request("GET", alive).data == b"1"
    assert b"SignatureDoesNotMatch" in urllib3.request("GET", alive.replace("shared", "other")).data
    assert b"SignatureDoesNotMatch" in urllib3.request("GET", alive + "&versionId=1").data
    longer = alive.replace("X-Amz-Expires=3600", "X-Amz-Expires=604801")
    assert b"AuthorizationQueryParametersError" in urllib3.request("GET", longer).data
    # A header that nobody signed would make another operation of it.
    put = s3.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": "mine"})
    stolen = urllib3.request("PUT", put, headers={"x-amz-copy-source": f"/{BUCKET}/shared"})
    assert (stolen.status, b"HeadersNotSigned" in stolen.data) == (403, True)


def test_signatures_that_lack_a_part(world: ApiWorld) -> None:
    target = {"X-Amz-Target": "SageMaker.ListTrainingJobs", "Content-Type": "application/x-amz-json-1.1"}
    whole = signed(world, "sagemaker", "POST", "/", b"{}", **target)
    assert raw(world, "POST", "/", whole, b"{}")[0] == 200
    short = {**whole, "Authorization": whole["Authorization"].partition(", Signature=")[0]}
    status, headers, text = raw(world, "POST", "/", short, b"{}")
    assert (status, json.loads(text)["__type"]) == (400, "IncompleteSignatureException")
    assert headers["x-amzn-requestid"]
    undated = {name: value for name, value in whole.items() if name != "X-Amz-Date"}
    assert "IncompleteSignature" in raw(world, "POST", "/", undated, b"{}")[2]
    assert "MissingAuthenticationToken" in raw(world, "POST", "/", target, b"{}")[2]
    other = whole["Authorization"].replace("HMAC-SHA256", "ECDSA-P256-SHA256").replace("/us-east-1/sagemaker/", "/s3/")
    assert "use AWS4-HMAC-SHA256" in raw(world, "GET", f"/{BUCKET}", {"Authorization": other})[2]


@pytest.mark.parametrize(
    "change",
    [
        {"X-Amz-Target": "SageMaker.StopTrainingJob"},
        {"X-Amz-Extra": "1"},
        {"X-Amz-Security-Token": "stolen"},
        {"Host": "localhost"},
    ],
)
def test_headers_that_were_changed(world: ApiWorld, change: dict[str, str]) -> None:
    target = {"X-Amz-Target": "SageMaker.ListTrainingJobs", "Content-Type": "application/x-amz-json-1.1"}
    whole = signed(world, "sagemaker", "POST", "/", b"{}", **target)
    status, _, text = raw(world, "POST", "/", {**whole, **change}, b"{}")
    assert (status, json.loads(text)["__type"]) == (400, "InvalidSignatureException")


def test_bodies_that_were_changed(world: ApiWorld) -> None:
    target = {"X-Amz-Target": "SageMaker.ListTrainingJobs", "Content-Type": "application/x-amz-json-1.1"}
    whole = signed(world, "sagemaker", "POST", "/", b"{}", **target)
    assert "InvalidSignatureException" in raw(world, "POST", "/", whole, b"[]")[2]
    for body in (b"other", b"", b"longer than it was"):
        put = signed(world, "s3", "PUT", f"/{BUCKET}/body", b"bytes")
        status, _, text = raw(world, "PUT", f"/{BUCKET}/body", put, body)
        assert (status, "XAmzContentSHA256Mismatch" in text) == (400, True), text
    assert "Contents" not in client(world, "s3").list_objects_v2(Bucket=BUCKET, Prefix="body")
    # A checksum that fits the other bytes changes nothing.
    put = signed(world, "s3", "PUT", f"/{BUCKET}/body", b"bytes", **{"Content-MD5": "eV8yLVipSCZptuxVQxn01g=="})
    assert raw(world, "PUT", f"/{BUCKET}/body", put, b"other")[0] == 400
    bare = signed(world, "s3", "PUT", f"/{BUCKET}/body", b"bytes")
    del bare["X-Amz-Content-SHA256"]
    assert "x-amz-content-sha256" in raw(world, "PUT", f"/{BUCKET}/body", bare, b"bytes")[2]


def test_the_control_endpoints_are_the_owners(world: ApiWorld) -> None:
    assert raw(world, "GET", "/_sagelet/health", {})[0] == 200
    status, _, text = raw(world, "GET", "/_sagelet/faults/throttling", {})
    assert (status, "--data" in text) == (403, True)
    whole = signed(world, "sagelet", "GET", "/_sagelet/faults/throttling")
    assert raw(world, "GET", "/_sagelet/faults/throttling", whole)[0] == 200
    assert raw(world, "DELETE", "/_sagelet/faults/throttling", whole)[0] == 400


def test_compressed_bodies_are_signed_as_they_are_sent(world: ApiWorld) -> None:
    body = gzip.compress(b"Action=ListMetrics&Version=2010-08-01")
    whole = signed(world, "monitoring", "POST", "/", body, **{"Content-Encoding": "gzip"})
    assert "Signature" not in raw(world, "POST", "/", whole, body)[2]


def test_the_key_file(world: ApiWorld) -> None:
    path = world.settings.data / "credentials"
    assert path.stat().st_mode & 0o777 == 0o600
    with patch.dict("os.environ", {"AWS_SHARED_CREDENTIALS_FILE": str(path)}):
        found = boto3.Session(region_name=REGION).get_credentials()
    assert found is not None
    assert (found.access_key, found.secret_key) == (world.engine.keys.access_key, world.engine.keys.secret)
    assert world.engine.keys.secret not in repr(world.engine.keys)


@pytest.mark.parametrize("account", ["123456789012", "210987654321"], ids=["another secret", "another key"])
def test_a_command_with_another_key_pair_says_where_the_servers_is(
    world: ApiWorld, tmp_path: Path, account: str
) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    where = ["--endpoint", f"http://127.0.0.1:{world.port}", "--data", str(tmp_path), "--account", account]
    for words in (["jobs"], ["submit", str(tmp_path / "train.py")]):
        done = CliRunner().invoke(main, [*words, *where])
        assert done.exit_code == 1
        assert "name that directory with --data" in done.stderr, done.output
