"""The contract with moto: what goes through to it, what becomes of its failures, and its backends as our stores."""

import threading
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto import metrics as moto_metrics
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.services.sagemaker.state_events import EventBus
from sagelet_engine.model.job import JobKey, JobKind
from sagelet_engine.model.sinks import MetricPoint, MetricSink
from support.front import Front

ACCOUNT, REGION = "123456789012", "us-east-1"
NAMESPACE = JobKind.TRAINING.log_group


@pytest.fixture
def bucket() -> str:
    return f"bucket-{uuid.uuid4()}"


def test_it_is_a_sink_and_a_bus(bridge: MotoBridge) -> None:
    sink: MetricSink = bridge.metrics
    bus: EventBus = bridge.events
    assert (sink, bus) == (bridge.metrics, bridge.events)


def test_presigned_urls_of_s3_and_sts(client: Any, bucket: str) -> None:
    s3 = client("s3")
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="k", Body=b"data")
    with urlopen(s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}), timeout=120) as found:
        assert found.read() == b"data"
    with urlopen(client("sts", key="111122223333").generate_presigned_url("get_caller_identity"), timeout=120) as who:
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
    for call, parameters, code, name in (
        (
            client("iam").generate_organizations_access_report,
            {"EntityPath": "o-a1b2c3d4e5/r-a1b2/ou-a1b2-a1b2c3d4"},
            "NotImplemented",
            "GenerateOrganizationsAccessReport",
        ),
        (client("logs").get_transformer, {"logGroupIdentifier": "x"}, "UnknownOperationException", "GetTransformer"),
        (client("cloudwatch").describe_anomaly_detectors, {}, "UnknownOperationException", "DescribeAnomalyDetectors"),
    ):
        with pytest.raises(ClientError) as caught:
            call(**parameters)
        error = caught.value.response["Error"]
        assert error["Code"] == code
        assert name in error["Message"]


def test_a_crash_of_moto_is_an_internal_failure(server: Front, server_log: pytest.LogCaptureFixture) -> None:
    headers = {
        "Authorization": f"AWS4-HMAC-SHA256 Credential=k/20261121/{REGION}/sagemaker/aws4_request, Signature=0",
        "X-Amz-Target": "SageMaker.CreateEndpointConfig",
        "Content-Type": "application/x-amz-json-1.1",
    }
    with pytest.raises(HTTPError) as caught:
        urlopen(Request(server.endpoint, data=b'{"ProductionVariants": 1}', headers=headers), timeout=120)
    assert caught.value.code == 500
    assert b'"__type": "InternalFailure"' in caught.value.read()
    assert server_log.records


def test_metric_points_reach_cloudwatch(bridge: MotoBridge, client: Any) -> None:
    now = datetime.now(timezone.utc).replace(microsecond=0)
    time_ms = int(now.timestamp() * 1000)
    job = f"job-{uuid.uuid4()}"
    points = [MetricPoint("loss", value, time_ms) for value in (0.5, 1.5, float("nan"), float("inf"))]
    bridge.metrics.publish(JobKey(ACCOUNT, REGION, job), points)
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


def test_an_alarm_that_nothing_evaluates_is_not_ok(client: Any) -> None:
    cloudwatch = client("cloudwatch")
    compared = {"Threshold": 1.0, "ComparisonOperator": "GreaterThanThreshold", "EvaluationPeriods": 1}
    cloudwatch.put_metric_alarm(
        AlarmName="loss", Namespace=NAMESPACE, MetricName="loss", Statistic="Average", Period=60, **compared
    )

    def state() -> str:
        return str(cloudwatch.describe_alarms(AlarmNames=["loss"])["MetricAlarms"][0]["StateValue"])

    assert state() == "INSUFFICIENT_DATA"
    cloudwatch.set_alarm_state(AlarmName="loss", StateValue="ALARM", StateReason="a test of the actions")
    assert state() == "ALARM"


def test_instance_metrics_of_processing_jobs_have_a_namespace_of_their_own(bridge: MotoBridge, client: Any) -> None:
    key = JobKey(ACCOUNT, REGION, f"job-{uuid.uuid4()}", JobKind.PROCESSING)
    time_ms = int(datetime.now(timezone.utc).timestamp() * 1000)
    bridge.metrics.publish(key, [MetricPoint("CPUUtilization", 50.0, time_ms, "algo-1")])
    host = {"Name": "Host", "Value": f"{key.name}/algo-1"}
    for namespace, count in (("/aws/sagemaker/ProcessingJobs", 1), (NAMESPACE, 0)):
        found = client("cloudwatch").list_metrics(Namespace=namespace, Dimensions=[host])["Metrics"]
        assert len(found) == count


def test_cloudwatch_keeps_the_newest_points_of_jobs_and_all_of_users(
    bridge: MotoBridge, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moto_metrics, "MOST_POINTS", 20)
    # Of an account of its own: what others published counts, too.
    account = "000000000777"
    cloudwatch = client("cloudwatch", key=account)
    now = datetime.now(timezone.utc)
    for number in range(50):
        if number % 10 == 0:
            cloudwatch.put_metric_data(Namespace="mine", MetricData=[{"MetricName": f"m-{number}", "Value": 1.0}])
        time_ms = int(now.timestamp() * 1000)
        points = [MetricPoint("loss", 1.0, time_ms, "algo-1")]
        bridge.metrics.publish(JobKey(account, REGION, f"job-{number:02}"), points)
    hosts = {
        metric["Dimensions"][0]["Value"]
        for page in cloudwatch.get_paginator("list_metrics").paginate(Namespace=NAMESPACE)
        for metric in page["Metrics"]
    }
    assert {f"job-{number}/algo-1" for number in range(30, 50)} <= hosts
    assert len(hosts) <= 22
    assert len(cloudwatch.list_metrics(Namespace="mine")["Metrics"]) == 5


@pytest.mark.parametrize("resource", ["nothing/x", "training-jo", "model/none"])
def test_tags_of_what_is_not_there(client: Any, resource: str) -> None:
    """moto breaks over these, found by the fuzzer's seeds 4894 and 5200."""
    arn = f"arn:aws:sagemaker:us-east-1:123456789012:{resource}"
    with pytest.raises(ClientError) as raised:
        client("sagemaker").list_tags(ResourceArn=arn)
    assert raised.value.response["Error"]["Code"] == "ValidationException"


def test_cloudwatch_keeps_the_newest_points_of_users(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in memory, and a job's own credentials may put any number of them."""
    monkeypatch.setattr(moto_metrics, "MOST_PUT", 100)
    cloudwatch = client("cloudwatch", key="000000000778")
    for number in range(50):
        data = [{"MetricName": f"m-{number:02}", "Value": 1.0}] * 10
        cloudwatch.put_metric_data(Namespace="mine", MetricData=data)
    names = {metric["MetricName"] for metric in cloudwatch.list_metrics(Namespace="mine")["Metrics"]}
    assert {f"m-{number}" for number in range(41, 50)} <= names
    assert len(names) <= 12


def test_values_with_counts_take_no_more_than_values(client: Any) -> None:
    """moto would make a billion points of this one, in memory."""
    cloudwatch = client("cloudwatch", key="000000000779")
    now = datetime.now(timezone.utc).replace(second=30, microsecond=0)
    datum = {"MetricName": "m", "Values": [1.0, 4.0], "Counts": [1e9, 2e9], "Timestamp": now}
    cloudwatch.put_metric_data(Namespace="mine", MetricData=[datum])
    (point,) = cloudwatch.get_metric_statistics(
        Namespace="mine", MetricName="m", Period=60, StartTime=now - timedelta(minutes=2),
        EndTime=now + timedelta(minutes=2), Statistics=["Average", "Minimum", "Maximum", "SampleCount", "Sum"],
    )["Datapoints"]  # fmt: skip
    assert (point["SampleCount"], point["Sum"], point["Average"]) == (3e9, 9e9, 3.0)
    assert (point["Minimum"], point["Maximum"]) == (1.0, 4.0)


def test_instance_metrics_have_a_host_and_are_in_percent(bridge: MotoBridge, client: Any) -> None:
    now = datetime.now(timezone.utc).replace(second=30, microsecond=0)
    time_ms = int(now.timestamp() * 1000)
    job = f"job-{uuid.uuid4()}"
    points = [MetricPoint("CPUUtilization", value, time_ms, host) for host, value in (("algo-1", 250), ("algo-2", 50))]
    bridge.metrics.publish(JobKey(ACCOUNT, REGION, job), [*points, MetricPoint("CPUUtilization", 1.0, time_ms)])
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
    before = set(threading.enumerate())
    client("s3").list_buckets()
    client("cloudwatch").list_metrics()
    names = {thread.name for thread in set(threading.enumerate()) - before}
    assert not [name for name in names if "moto" in name.lower()]
