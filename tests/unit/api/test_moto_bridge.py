"""The contract with moto: what goes through to it, what becomes of its failures, and its backends as our stores."""

import hashlib
import io
import threading
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from sagelet.data.objects import ObjectInfo, ObjectNotFound, ObjectStore
from sagelet.telemetry.sink import NAMESPACE, MetricPoint, MetricSink
from sagelet_api.server import Server
from sagelet_api.services.moto_bridge import MotoBridge
from sagelet_api.services.state_events import EventBus

ACCOUNT, REGION = "123456789012", "us-east-1"


@pytest.fixture
def bucket() -> str:
    return f"bucket-{uuid.uuid4()}"


def test_it_is_a_store_and_a_sink(bridge: MotoBridge) -> None:
    store: ObjectStore = bridge
    sink: MetricSink = bridge
    bus: EventBus = bridge
    assert store is sink
    assert sink is bus


def test_objects_over_http(client: Any, bucket: str) -> None:
    s3 = client("s3")
    s3.create_bucket(Bucket=bucket)
    key = "a folder/é+%2F~.txt"
    s3.put_object(Bucket=bucket, Key=key, Body=io.BytesIO(b"x" * 100_000), ServerSideEncryption="aws:kms")
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"x" * 100_000
    assert s3.get_object(Bucket=bucket, Key=key, Range="bytes=0-9")["ContentLength"] == 10
    assert s3.head_object(Bucket=bucket, Key=key)["ContentLength"] == 100_000
    assert [found["Key"] for found in s3.list_objects_v2(Bucket=bucket, Prefix="a ")["Contents"]] == [key]
    s3.delete_object(Bucket=bucket, Key=key)
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket=bucket, Key=key)


def test_multipart_over_http(client: Any, bucket: str) -> None:
    s3 = client("s3")
    s3.create_bucket(Bucket=bucket)
    data = bytes(range(256)) * (12 * 4096)
    config = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)
    s3.upload_fileobj(io.BytesIO(data), bucket, "big", Config=config)
    out = io.BytesIO()
    s3.download_fileobj(bucket, "big", out, Config=config)
    assert out.getvalue() == data


def test_streamed_upload_with_trailing_checksum(server: Server, client: Any, bucket: str) -> None:
    """Transfer-Encoding: chunked around aws-chunked, as SDKs send bodies whose length they do not know."""
    s3 = client("s3")
    s3.create_bucket(Bucket=bucket)
    payload = b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n"
    headers = {
        "Authorization": f"AWS4-HMAC-SHA256 Credential=k/20261121/{REGION}/s3/aws4_request, Signature=0",
        "Content-Type": "binary/octet-stream",
        "Content-Encoding": "aws-chunked",
        "X-Amz-Trailer": "x-amz-checksum-crc32",
        "X-Amz-Decoded-Content-Length": "5",
        "X-Amz-Content-SHA256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "Transfer-Encoding": "chunked",
    }
    request = Request(f"{server.endpoint}/{bucket}/k", data=iter([payload]), headers=headers, method="PUT")
    with urlopen(request, timeout=10) as response:
        assert response.status == 200
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"hello"


def test_head_of_a_missing_bucket_is_not_found(client: Any) -> None:
    with pytest.raises(ClientError) as caught:
        client("s3").head_bucket(Bucket="no-such-bucket-anywhere", ExpectedBucketOwner=ACCOUNT)
    assert caught.value.response["Error"] == {"Code": "404", "Message": "Not Found"}


def test_virtual_host_style(server: Server, client: Any, bucket: str) -> None:
    client("s3").create_bucket(Bucket=bucket)
    client("s3").put_object(Bucket=bucket, Key="k", Body=b"x")
    authorization = f"AWS4-HMAC-SHA256 Credential=k/20261121/{REGION}/s3/aws4_request, Signature=0"
    headers = {"Authorization": authorization, "Host": f"{bucket}.localhost:{server.port}"}
    with urlopen(Request(f"{server.endpoint}/k", headers=headers), timeout=10) as response:
        assert response.read() == b"x"


def test_presigned_urls_of_s3_and_sts(client: Any, bucket: str) -> None:
    s3 = client("s3")
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="k", Body=b"data")
    with urlopen(s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}), timeout=10) as found:
        assert found.read() == b"data"
    with urlopen(client("sts", key="111122223333").generate_presigned_url("get_caller_identity"), timeout=10) as who:
        assert b"<Account>111122223333</Account>" in who.read()


def test_accounts_are_told_apart_by_the_key(client: Any) -> None:
    assert client("sts").get_caller_identity()["Account"] == ACCOUNT
    assert client("sts", key="000000000042").get_caller_identity()["Account"] == "000000000042"
    client("iam", key="000000000042").create_role(RoleName="theirs", AssumeRolePolicyDocument="{}")
    names = [role["RoleName"] for role in client("iam").list_roles()["Roles"]]
    assert "theirs" not in names


def test_logs_and_models(client: Any) -> None:
    logs = client("logs")
    logs.create_log_group(logGroupName="/mine")
    logs.create_log_stream(logGroupName="/mine", logStreamName="s")
    now = int(datetime.now(timezone.utc).timestamp() * 1000)
    logs.put_log_events(logGroupName="/mine", logStreamName="s", logEvents=[{"timestamp": now, "message": "hi"}])
    assert logs.get_log_events(logGroupName="/mine", logStreamName="s")["events"][0]["message"] == "hi"
    logs.delete_log_group(logGroupName="/mine")
    sagemaker = client("sagemaker")
    sagemaker.create_model(ModelName="m", ExecutionRoleArn="arn:aws:iam::123456789012:role/r")
    assert [model["ModelName"] for model in sagemaker.list_models()["Models"]] == ["m"]
    sagemaker.delete_model(ModelName="m")


def test_what_moto_lacks_is_an_error_of_the_protocol(client: Any) -> None:
    policy = {"PolicySourceArn": "arn:aws:iam::123456789012:role/r", "ActionNames": ["s3:GetObject"]}
    for call, parameters, code, name in (
        (client("iam").simulate_principal_policy, policy, "NotImplemented", "SimulatePrincipalPolicy"),
        (client("logs").get_transformer, {"logGroupIdentifier": "x"}, "UnknownOperationException", "GetTransformer"),
        (client("cloudwatch").describe_anomaly_detectors, {}, "UnknownOperationException", "DescribeAnomalyDetectors"),
    ):
        with pytest.raises(ClientError) as caught:
            call(**parameters)
        error = caught.value.response["Error"]
        assert error["Code"] == code
        assert name in error["Message"]


def test_a_crash_of_moto_is_an_internal_failure(server: Server, server_log: pytest.LogCaptureFixture) -> None:
    headers = {
        "Authorization": f"AWS4-HMAC-SHA256 Credential=k/20261121/{REGION}/sagemaker/aws4_request, Signature=0",
        "X-Amz-Target": "SageMaker.CreateEndpointConfig",
        "Content-Type": "application/x-amz-json-1.1",
    }
    with pytest.raises(HTTPError) as caught:
        urlopen(Request(server.endpoint, data=b'{"ProductionVariants": 1}', headers=headers), timeout=10)
    assert caught.value.code == 500
    assert b'"__type": "InternalFailure"' in caught.value.read()
    assert server_log.records


def test_files_become_objects_and_objects_files(bridge: MotoBridge, client: Any, bucket: str, tmp_path: Path) -> None:
    source = tmp_path / "model.tar.gz"
    source.write_bytes(b"0123456789" * 500_000)
    bridge.upload(ACCOUNT, "eu-west-1", source, bucket, "out/job/model.tar.gz")
    s3 = client("s3", "eu-west-1")
    head = s3.head_object(Bucket=bucket, Key="out/job/model.tar.gz")
    assert head["ContentLength"] == 5_000_000
    assert s3.get_object(Bucket=bucket, Key="out/job/model.tar.gz")["Body"].read() == source.read_bytes()
    assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] == "eu-west-1"
    again = s3.put_object(Bucket=bucket, Key="copy", Body=source.read_bytes())
    assert again["ETag"] == head["ETag"]

    target = tmp_path / "back"
    bridge.download(ACCOUNT, "eu-west-1", bucket, "out/job/model.tar.gz", target)
    assert target.read_bytes() == source.read_bytes()


def test_upload_replaces_or_adds_a_version(bridge: MotoBridge, client: Any, bucket: str, tmp_path: Path) -> None:
    source = tmp_path / "f"
    source.write_bytes(b"one")
    bridge.upload(ACCOUNT, REGION, source, bucket, "k")
    source.write_bytes(b"two")
    bridge.upload(ACCOUNT, REGION, source, bucket, "k")
    s3 = client("s3")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"two"
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    source.write_bytes(b"three")
    bridge.upload(ACCOUNT, REGION, source, bucket, "k")
    assert len(s3.list_object_versions(Bucket=bucket)["Versions"]) == 2


def test_listing_in_key_order(bridge: MotoBridge, client: Any, bucket: str) -> None:
    s3 = client("s3")
    s3.create_bucket(Bucket=bucket)
    for key in ("p/b", "p/a", "q", "p/B", "p"):
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    found = list(bridge.list(ACCOUNT, REGION, bucket, "p/"))
    assert found == [ObjectInfo(key, 3, hashlib.md5(key.encode()).hexdigest()) for key in ("p/B", "p/a", "p/b")]
    assert list(bridge.list(ACCOUNT, REGION, bucket, "none")) == []


def test_the_etag_of_a_file_of_ours_is_its_md5(bridge: MotoBridge, bucket: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"data")
    bridge.upload(ACCOUNT, REGION, tmp_path / "f", bucket, "k")
    assert list(bridge.list(ACCOUNT, REGION, bucket, "")) == [ObjectInfo("k", 4, hashlib.md5(b"data").hexdigest())]


@pytest.mark.parametrize("versioned", [False, True])
def test_deleting(bridge: MotoBridge, client: Any, bucket: str, versioned: bool) -> None:
    bridge.delete(ACCOUNT, REGION, bucket, "k")
    s3 = client("s3")
    s3.create_bucket(Bucket=bucket)
    if versioned:
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    s3.put_object(Bucket=bucket, Key="kept", Body=b"2")
    for _ in range(2):
        bridge.delete(ACCOUNT, REGION, bucket, "k")
        assert [found.key for found in bridge.list(ACCOUNT, REGION, bucket, "")] == ["kept"]
        with pytest.raises(s3.exceptions.NoSuchKey):
            s3.get_object(Bucket=bucket, Key="k")
    assert len(s3.list_object_versions(Bucket=bucket, Prefix="k").get("Versions", [])) == (2 if versioned else 1)


def test_missing_buckets_and_keys(bridge: MotoBridge, client: Any, bucket: str, tmp_path: Path) -> None:
    with pytest.raises(ObjectNotFound, match=bucket):
        list(bridge.list(ACCOUNT, REGION, bucket, ""))
    with pytest.raises(ObjectNotFound, match=bucket):
        bridge.download(ACCOUNT, REGION, bucket, "k", tmp_path / "f")
    client("s3").create_bucket(Bucket=bucket)
    with pytest.raises(ObjectNotFound, match="k"):
        bridge.download(ACCOUNT, REGION, bucket, "k", tmp_path / "f")
    assert not (tmp_path / "f").exists()


def test_metric_points_reach_cloudwatch(bridge: MotoBridge, client: Any) -> None:
    now = datetime.now(timezone.utc).replace(microsecond=0)
    time_ms = int(now.timestamp() * 1000)
    job = f"job-{uuid.uuid4()}"
    points = [MetricPoint("loss", value, time_ms) for value in (0.5, 1.5, float("nan"), float("inf"))]
    bridge.publish(ACCOUNT, REGION, job, points)
    statistics = client("cloudwatch").get_metric_statistics(
        Namespace=NAMESPACE,
        MetricName="loss",
        Dimensions=[{"Name": "TrainingJobName", "Value": job}],
        StartTime=now - timedelta(minutes=1),
        EndTime=now + timedelta(minutes=1),
        Period=60,
        Statistics=["Average", "SampleCount"],
    )
    [point] = statistics["Datapoints"]
    assert (point["Average"], point["SampleCount"]) == (1.0, 2.0)


def test_instance_metrics_have_a_host_and_are_in_percent(bridge: MotoBridge, client: Any) -> None:
    now = datetime.now(timezone.utc).replace(second=30, microsecond=0)
    time_ms = int(now.timestamp() * 1000)
    job = f"job-{uuid.uuid4()}"
    points = [MetricPoint("CPUUtilization", value, time_ms, host) for host, value in (("algo-1", 250), ("algo-2", 50))]
    bridge.publish(ACCOUNT, REGION, job, [*points, MetricPoint("CPUUtilization", 1.0, time_ms)])
    cloudwatch = client("cloudwatch")
    dimensions = [{"Name": "Host", "Value": f"{job}/algo-1"}]
    listed = cloudwatch.list_metrics(Namespace=NAMESPACE, MetricName="CPUUtilization", Dimensions=dimensions)["Metrics"]
    assert [metric["Dimensions"] for metric in listed] == [dimensions]
    window = {"StartTime": now - timedelta(minutes=2), "EndTime": now + timedelta(minutes=2)}
    metric = {"Namespace": NAMESPACE, "MetricName": "CPUUtilization", "Dimensions": dimensions}
    (point,) = cloudwatch.get_metric_statistics(**metric, **window, Period=60, Statistics=["Average"])["Datapoints"]
    assert (point["Average"], point["Unit"]) == (250.0, "Percent")
    query = {"Id": "cpu", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Average"}}
    (result,) = cloudwatch.get_metric_data(MetricDataQueries=[query], **window)["MetricDataResults"]
    assert result["Values"] == [250.0]


def test_moto_leaves_no_threads(bridge: MotoBridge, client: Any) -> None:
    client("s3").list_buckets()
    client("cloudwatch").list_metrics()
    names = {thread.name for thread in threading.enumerate()}
    assert not [name for name in names if "moto" in name.lower()]
