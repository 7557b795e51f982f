"""What one account has in one region no other account sees, nor the account itself in another region.

S3 is the exception that AWS makes: all accounts share the names of buckets, and a bucket is reached from any region.
"""

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.base.errors import SageletError
from sagelet_engine.model.job import JobKey
from sagelet_engine.model.log_events import LogEvent
from sagelet_engine.model.principal import owner
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.model.training import create
from support.api_world import ApiWorld
from support.s3 import refusal
from support.world import request

GROUP = "/aws/sagemaker/TrainingJobs"
NAMESPACE = "/aws/sagemaker/TrainingJobs"
PLACES = [(account, region) for account in ("555555555555", "666666666666") for region in ("us-east-1", "eu-west-1")]
T0 = 1_700_000_000_000


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        yield running


def clients(world: ApiWorld, service: str) -> Iterator[tuple[str, str, Any]]:
    """One a place."""
    for account, region in PLACES:
        yield account, region, world.client(service, region=region, account=account)


def add_job(world: ApiWorld, account: str, region: str, name: str) -> None:
    """A job that does not run, with a line and a metric point."""
    key = JobKey(account, region, name)
    job = create(key, f"{account}-{region}-{name}", request(name), {"where": f"{account} {region}"}, T0)
    world.engine._store.insert(job)
    stream = world.engine._store.open_stream(job, "algo-1", f"{name}/algo-1-1", T0)
    event = LogEvent(T0, f"a line of {account} in {region}")
    world.engine._store.append_output(stream, [event], "1", [MetricPoint("loss", 1, T0)], T0)


def test_jobs(world: ApiWorld) -> None:
    for account, region, _ in clients(world, "sagemaker"):
        add_job(world, account, region, "same-name")
    add_job(world, *PLACES[0], "only-here")
    for number, (account, region, sagemaker) in enumerate(clients(world, "sagemaker")):
        found = sagemaker.describe_training_job(TrainingJobName="same-name")
        assert found["TrainingJobArn"] == f"arn:aws:sagemaker:{region}:{account}:training-job/same-name"
        names = {job["TrainingJobName"] for job in sagemaker.list_training_jobs()["TrainingJobSummaries"]}
        searched = {
            hit["TrainingJob"]["TrainingJobName"] for hit in sagemaker.search(Resource="TrainingJob")["Results"]
        }
        assert names == searched == ({"same-name", "only-here"} if number == 0 else {"same-name"})
        tags = sagemaker.list_tags(ResourceArn=found["TrainingJobArn"])["Tags"]
        assert tags == [{"Key": "where", "Value": f"{account} {region}"}]
        if number:
            for call in (sagemaker.describe_training_job, sagemaker.stop_training_job, sagemaker.delete_training_job):
                assert refusal(call, TrainingJobName="only-here")[0] == 400
            theirs = f"arn:aws:sagemaker:{PLACES[0][1]}:{PLACES[0][0]}:training-job/only-here"
            assert refusal(sagemaker.list_tags, ResourceArn=theirs)[0] == 400
            assert refusal(sagemaker.add_tags, ResourceArn=theirs, Tags=[{"Key": "k", "Value": "v"}])[0] == 400
    last = world.client("sagemaker", region=PLACES[3][1], account=PLACES[3][0])
    last.stop_training_job(TrainingJobName="same-name")
    statuses = [
        sagemaker.describe_training_job(TrainingJobName="same-name")["TrainingJobStatus"]
        for _, _, sagemaker in clients(world, "sagemaker")
    ]
    assert statuses[:3] == ["InProgress"] * 3
    assert statuses[3] != "InProgress"


def test_logs(world: ApiWorld) -> None:
    for account, region in PLACES:
        add_job(world, account, region, "same-name")
    add_job(world, *PLACES[0], "only-here")
    for number, (account, region, logs) in enumerate(clients(world, "logs")):
        (group,) = logs.describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"]
        assert f":{region}:{account}:" in group["arn"]
        streams = [s["logStreamName"] for s in logs.describe_log_streams(logGroupName=GROUP)["logStreams"]]
        assert streams == ["only-here/algo-1-1"] * (number == 0) + ["same-name/algo-1-1"]
        lines = {event["message"] for event in logs.filter_log_events(logGroupName=GROUP)["events"]}
        assert lines == {f"a line of {account} in {region}"}
        read = logs.get_log_events(logGroupName=GROUP, logStreamName="same-name/algo-1-1", startFromHead=True)
        assert [event["message"] for event in read["events"]] == [f"a line of {account} in {region}"]
        if number:
            stream = {"logGroupName": GROUP, "logStreamName": "only-here/algo-1-1"}
            assert refusal(logs.get_log_events, **stream) == (400, "ResourceNotFoundException")
            assert refusal(logs.delete_log_stream, **stream) == (400, "ResourceNotFoundException")
    first, second = (world.client("logs", region=region, account=account) for account, region in PLACES[:2])
    first.put_retention_policy(logGroupName=GROUP, retentionInDays=7)
    assert "retentionInDays" not in second.describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"][0]
    first.delete_log_stream(logGroupName=GROUP, logStreamName="same-name/algo-1-1")
    assert len(second.describe_log_streams(logGroupName=GROUP)["logStreams"]) == 1


def test_metrics(world: ApiWorld, bridge: MotoBridge) -> None:
    for number, (account, region) in enumerate(PLACES):
        bridge.metrics.publish(JobKey(account, region, "same-name"), [MetricPoint("loss", number, T0)])
    bridge.metrics.publish(JobKey(*PLACES[0], "only-here"), [MetricPoint("loss", 9, T0)])
    window = {"StartTime": datetime.fromtimestamp(T0 / 1000 - 60, timezone.utc), "Period": 60, "Statistics": ["Sum"]}
    window["EndTime"] = datetime.fromtimestamp(T0 / 1000 + 60, timezone.utc)
    for number, (_, _, cloudwatch) in enumerate(clients(world, "cloudwatch")):
        names = {
            dimension["Value"]
            for metric in cloudwatch.list_metrics(Namespace=NAMESPACE)["Metrics"]
            for dimension in metric["Dimensions"]
        }
        assert names == ({"same-name", "only-here"} if number == 0 else {"same-name"})
        which = {"Namespace": NAMESPACE, "MetricName": "loss"}
        dimensions = [{"Name": "TrainingJobName", "Value": "same-name"}]
        (point,) = cloudwatch.get_metric_statistics(**which, Dimensions=dimensions, **window)["Datapoints"]
        assert point["Sum"] == number


def test_objects(world: ApiWorld) -> None:
    (mine, theirs), (us, europe) = ("555555555555", "666666666666"), ("us-east-1", "eu-west-1")
    s3 = world.client("s3", account=mine)
    abroad = world.client("s3", account=mine, region=europe)
    other = world.client("s3", account=theirs)
    here = {"CreateBucketConfiguration": {"LocationConstraint": europe}}
    s3.create_bucket(Bucket="mine-us")
    abroad.create_bucket(Bucket="mine-europe", **here)
    s3.put_object(Bucket="mine-us", Key="k", Body=b"mine")
    # A name is taken for everybody; taking one's own again is an error but in us-east-1.
    assert refusal(other.create_bucket, Bucket="mine-us") == (409, "BucketAlreadyExists")
    assert refusal(abroad.create_bucket, Bucket="mine-europe", **here) == (409, "BucketAlreadyOwnedByYou")
    s3.create_bucket(Bucket="mine-us")
    # Buckets of an account are listed and reached from all regions, with the region that each has.
    for client in (s3, abroad):
        assert {b["Name"]: b["BucketRegion"] for b in client.list_buckets()["Buckets"]} == {
            "mine-us": us, "mine-europe": europe,
        }  # fmt: skip
        assert client.get_object(Bucket="mine-us", Key="k")["Body"].read() == b"mine"
    assert abroad.head_bucket(Bucket="mine-us")["BucketRegion"] == us
    # No other account gets anything out of them, or in.
    assert other.list_buckets()["Buckets"] == []
    key = {"Bucket": "mine-us", "Key": "k"}
    for call, parameters in (
        (other.get_object, key), (other.put_object, key), (other.delete_object, key), (other.get_object_tagging, key),
        (other.list_objects_v2, {"Bucket": "mine-us"}), (other.delete_bucket, {"Bucket": "mine-us"}),
        (other.create_multipart_upload, key), (other.get_bucket_tagging, {"Bucket": "mine-us"}),
    ):  # fmt: skip
        assert refusal(call, **parameters) == (403, "AccessDenied")
    other.create_bucket(Bucket="theirs")
    copy = {"Bucket": "theirs", "Key": "copy", "CopySource": "mine-us/k"}
    assert refusal(other.copy_object, **copy) == (403, "AccessDenied")
    assert s3.get_object(Bucket="mine-us", Key="k")["Body"].read() == b"mine"
    # Of the store that jobs use, too.
    objects, me, they = world.sagelet.s3.objects, owner(mine), owner(theirs)
    assert [info.key for info in objects.list(me, "mine-us", "")] == ["k"]
    assert not objects.has_bucket(they, "mine-us")
    with pytest.raises(SageletError):
        list(objects.list(they, "mine-us", ""))
