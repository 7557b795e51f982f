"""What the owner of a bucket configures outlives the server: set, restarted on the same data directory, looked at."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from sagelet_api.serve import Sagelet, Surroundings
from sagelet_engine.machine.runtimes import Choice
from sagelet_engine.settings import Settings
from support.fakes import FakeClock, FakeRuntime
from support.s3 import refusal

ACCOUNT, BUCKET = "123456789012", "configured"
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
ENCRYPTION = {
    "Rules": [
        {
            "ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY},
            "BucketKeyEnabled": True,
        }
    ]
}
TAGS = [{"Key": "team", "Value": "a"}, {"Key": "empty", "Value": ""}]
CORS = [{"ID": "all", "AllowedMethods": ["GET", "PUT"], "AllowedOrigins": ["*"], "MaxAgeSeconds": 10}]
LIFECYCLE = [{"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 3}}]
POLICY = json.dumps({"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Principal": {"Service": "logging.s3.amazonaws.com"}, "Action": "s3:PutObject",
     "Resource": f"arn:aws:s3:::{BUCKET}/*"},
]})  # fmt: skip
ACCESS = {"BlockPublicAcls": True, "IgnorePublicAcls": False, "BlockPublicPolicy": True, "RestrictPublicBuckets": False}
OWNERSHIP = {"Rules": [{"ObjectOwnership": "BucketOwnerPreferred"}]}
WEBSITE = {"IndexDocument": {"Suffix": "index.html"}, "ErrorDocument": {"Key": "error.html"}}
LOGGING = {"LoggingEnabled": {"TargetBucket": BUCKET, "TargetPrefix": "log/"}}
INVENTORY = {
    "Id": "all", "IsEnabled": True, "IncludedObjectVersions": "Current", "Schedule": {"Frequency": "Daily"},
    "Destination": {"S3BucketDestination": {"Bucket": f"arn:aws:s3:::{BUCKET}", "Format": "CSV"}},
    "OptionalFields": ["Size"],
}  # fmt: skip


@contextmanager
def served(data: Path) -> Iterator[boto3.Session]:
    """A server whose process has just started: what is only in memory is gone."""
    server = Sagelet(Settings(data=data, port=0), Surroundings(choice=Choice(FakeRuntime(FakeClock()), "a test")))
    server.forget_others()
    server.start()
    try:
        yield Clients(server.server.endpoint)
    finally:
        server.stop()


class Clients:
    def __init__(self, endpoint: str) -> None:
        self._endpoint, self._session = endpoint, boto3.Session(ACCOUNT, "any", region_name="us-east-1")

    def __call__(self, service: str) -> Any:
        return self._session.client(service, endpoint_url=self._endpoint)


def configure(s3: Any) -> None:
    s3.create_bucket(Bucket=BUCKET)
    here = {"Bucket": BUCKET}
    s3.put_bucket_encryption(**here, ServerSideEncryptionConfiguration=ENCRYPTION)
    s3.put_bucket_tagging(**here, Tagging={"TagSet": TAGS})
    s3.put_bucket_cors(**here, CORSConfiguration={"CORSRules": CORS})
    s3.put_bucket_lifecycle_configuration(**here, LifecycleConfiguration={"Rules": LIFECYCLE})
    s3.put_bucket_policy(**here, Policy=POLICY)
    s3.put_public_access_block(**here, PublicAccessBlockConfiguration=ACCESS)
    s3.put_bucket_ownership_controls(**here, OwnershipControls=OWNERSHIP)
    s3.put_bucket_website(**here, WebsiteConfiguration=WEBSITE)
    s3.put_bucket_logging(**here, BucketLoggingStatus=LOGGING)
    s3.put_bucket_accelerate_configuration(**here, AccelerateConfiguration={"Status": "Enabled"})
    s3.put_bucket_inventory_configuration(**here, Id="all", InventoryConfiguration=INVENTORY)


def configured(s3: Any) -> dict[str, Any]:
    here = {"Bucket": BUCKET}
    cors, website = s3.get_bucket_cors(**here), s3.get_bucket_website(**here)
    return {
        "encryption": s3.get_bucket_encryption(**here)["ServerSideEncryptionConfiguration"],
        "tags": s3.get_bucket_tagging(**here)["TagSet"],
        "cors": cors["CORSRules"],
        "lifecycle": s3.get_bucket_lifecycle_configuration(**here)["Rules"],
        "policy": s3.get_bucket_policy(**here)["Policy"],
        "access": s3.get_public_access_block(**here)["PublicAccessBlockConfiguration"],
        "ownership": s3.get_bucket_ownership_controls(**here)["OwnershipControls"],
        "website": {name: website[name] for name in WEBSITE},
        "logging": {"LoggingEnabled": s3.get_bucket_logging(**here)["LoggingEnabled"]},
        "accelerate": s3.get_bucket_accelerate_configuration(**here)["Status"],
        "inventory": s3.get_bucket_inventory_configuration(**here, Id="all")["InventoryConfiguration"],
    }


WANTED = {
    "encryption": ENCRYPTION, "tags": TAGS, "cors": CORS, "lifecycle": LIFECYCLE, "policy": POLICY, "access": ACCESS,
    "ownership": OWNERSHIP, "website": WEBSITE, "logging": LOGGING, "accelerate": "Enabled", "inventory": INVENTORY,
}  # fmt: skip


def test_a_restart_forgets_nothing_of_a_bucket(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        s3 = client("s3")
        configure(s3)
        assert configured(s3) == WANTED
        s3.create_bucket(Bucket="tagged", CreateBucketConfiguration={"Tags": TAGS}, ObjectOwnership="ObjectWriter")
        s3.create_bucket(Bucket="open")
        s3.delete_public_access_block(Bucket="open")
    with served(tmp_path) as client:
        s3 = client("s3")
        assert configured(s3) == WANTED
        s3.put_object(Bucket=BUCKET, Key="k", Body=b"x")
        head = s3.head_object(Bucket=BUCKET, Key="k")
        assert (head["ServerSideEncryption"], head["SSEKMSKeyId"], head["BucketKeyEnabled"]) == ("aws:kms", KEY, True)
        assert s3.get_bucket_tagging(Bucket="tagged")["TagSet"] == TAGS
        owned = s3.get_bucket_ownership_controls(Bucket="tagged")["OwnershipControls"]["Rules"]
        assert owned == [{"ObjectOwnership": "ObjectWriter"}]
        assert refusal(s3.get_public_access_block, Bucket="open") == (404, "NoSuchPublicAccessBlockConfiguration")


def test_a_restart_forgets_no_notification(tmp_path: Path) -> None:
    """The queue is in memory and made again; the bucket's configuration is not."""
    arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:told"
    rule = {"Key": {"FilterRules": [{"Name": "prefix", "Value": "in/"}]}}
    queue = {"Id": "one", "QueueArn": arn, "Events": ["s3:ObjectCreated:*"], "Filter": rule}
    wanted = {"QueueConfigurations": [queue], "EventBridgeConfiguration": {}}
    with served(tmp_path) as client:
        client("s3").create_bucket(Bucket=BUCKET)
        client("s3").put_bucket_notification_configuration(Bucket=BUCKET, NotificationConfiguration=wanted)
    with served(tmp_path) as client:
        s3, sqs, events = client("s3"), client("sqs"), client("events")
        url, other = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("told", "bus"))
        events.put_rule(Name="objects", EventPattern=json.dumps({"source": ["aws.s3"]}))
        events.put_targets(Rule="objects", Targets=[{"Id": "1", "Arn": arn.replace("told", "bus")}])
        found = s3.get_bucket_notification_configuration(Bucket=BUCKET)
        assert {name: found[name] for name in wanted} == wanted
        s3.put_object(Bucket=BUCKET, Key="out/k", Body=b"")
        s3.put_object(Bucket=BUCKET, Key="in/k", Body=b"xyz")
        (message,) = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
        (record,) = json.loads(message["Body"])["Records"]
        assert (record["eventName"], record["s3"]["object"]["size"]) == ("ObjectCreated:Put", 3)
        told = [
            json.loads(one["Body"]) for one in sqs.receive_message(QueueUrl=other, MaxNumberOfMessages=10)["Messages"]
        ]
        assert sorted(one["detail"]["object"]["key"] for one in told) == ["in/k", "out/k"]
        assert {one["detail-type"] for one in told} == {"Object Created"}


def test_an_event_that_never_happens_here_may_be_asked_for(s3c: Any, client: Callable[..., Any], bucket: str) -> None:
    url = client("sqs").create_queue(QueueName=bucket)["QueueUrl"]
    arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{bucket}"
    wanted = [{"Id": "one", "QueueArn": arn, "Events": ["s3:ObjectRetention:Put", "s3:ObjectRemoved:*"]}]
    s3c.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={"QueueConfigurations": wanted})
    assert s3c.get_bucket_notification_configuration(Bucket=bucket)["QueueConfigurations"] == wanted
    s3c.put_object(Bucket=bucket, Key="k", Body=b"")
    s3c.delete_object(Bucket=bucket, Key="k")
    messages = client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    told = [json.loads(one["Body"]) for one in messages]
    assert [one.get("Event") or one["Records"][0]["eventName"] for one in told] == [
        "s3:TestEvent",
        "ObjectRemoved:Delete",
    ]


def test_functions_that_will_not_run_are_in_the_log(s3c: Any, bucket: str, caplog: pytest.LogCaptureFixture) -> None:
    arn = f"arn:aws:lambda:us-east-1:{ACCOUNT}:function:f"
    wanted = [{"Id": "one", "LambdaFunctionArn": arn, "Events": ["s3:ObjectCreated:*"]}]
    s3c.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"LambdaFunctionConfigurations": wanted}
    )
    assert s3c.get_bucket_notification_configuration(Bucket=bucket)["LambdaFunctionConfigurations"] == wanted
    assert f"Events of s3://{bucket} are not sent to '{arn}'" in caplog.text
    s3c.put_object(Bucket=bucket, Key="k", Body=b"")


WITHOUT_POLICY = {"LoggingEnabled": {"TargetBucket": BUCKET, "TargetPrefix": ""}}
FAR = {"QueueArn": f"arn:aws:sqs:eu-west-1:{ACCOUNT}:q", "Events": ["s3:ObjectCreated:*"]}
MONTH = {"ID": "a", "Status": "Enabled", "Expiration": {"Days": 30}}


@pytest.mark.parametrize(
    ("operation", "given", "code"),
    [
        ("put_bucket_cors", {"CORSConfiguration": {"CORSRules": [{**CORS[0], "AllowedMethods": ["PATCH"]}]}},
         "InvalidRequest"),
        ("put_bucket_lifecycle_configuration", {"LifecycleConfiguration": {"Rules": [MONTH]}}, "MalformedXML"),
        ("put_bucket_lifecycle_configuration",
         {"LifecycleConfiguration": {"Rules": [{**LIFECYCLE[0], "Prefix": ""}]}}, "MalformedXML"),
        ("put_bucket_policy", {"Policy": "[]"}, "MalformedPolicy"),
        ("put_bucket_policy", {"Policy": '{"Statement": '}, "MalformedPolicy"),
        ("put_bucket_logging", {"BucketLoggingStatus": WITHOUT_POLICY}, "InvalidTargetBucketForLogging"),
        ("put_bucket_logging", {"BucketLoggingStatus": {"LoggingEnabled": {"TargetBucket": "none-such",
         "TargetPrefix": ""}}}, "InvalidTargetBucketForLogging"),
        ("put_bucket_notification_configuration", {"NotificationConfiguration": {"QueueConfigurations": [FAR]}},
         "InvalidArgument"),
        ("put_bucket_notification_configuration",
         {"NotificationConfiguration": {"QueueConfigurations": [{**FAR, "QueueArn": "q"}]}}, "InvalidArgument"),
        ("put_bucket_website", {"WebsiteConfiguration": {}}, "InvalidArgument"),
        ("put_bucket_inventory_configuration", {"Id": "other", "InventoryConfiguration": INVENTORY}, "IdMismatch"),
        ("put_bucket_replication", {"ReplicationConfiguration": {"Role": "r", "Rules": [{"Status": "Enabled",
         "Destination": {"Bucket": f"arn:aws:s3:::{BUCKET}"}}]}}, "InvalidRequest"),
        ("put_object_lock_configuration", {"ObjectLockConfiguration": {"ObjectLockEnabled": "Enabled"}},
         "InvalidBucketState"),
    ],
)  # fmt: skip
def test_what_is_no_configuration_is_refused(
    s3c: Any, bucket: str, operation: str, given: dict[str, Any], code: str
) -> None:
    there = json.loads(json.dumps(given).replace(BUCKET, bucket))
    assert refusal(getattr(s3c, operation), Bucket=bucket, **there)[1] == code


def test_a_bucket_without_a_configuration_says_so(s3c: Any, bucket: str) -> None:
    here = {"Bucket": bucket}
    for operation, code in (
        ("cors", "NoSuchCORSConfiguration"), ("lifecycle_configuration", "NoSuchLifecycleConfiguration"),
        ("policy", "NoSuchBucketPolicy"), ("policy_status", "NoSuchBucketPolicy"), ("tagging", "NoSuchTagSet"),
        ("website", "NoSuchWebsiteConfiguration"), ("replication", "ReplicationConfigurationNotFoundError"),
    ):  # fmt: skip
        assert refusal(getattr(s3c, f"get_bucket_{operation}"), **here) == (404, code)
    assert refusal(s3c.get_object_lock_configuration, **here)[1] == "ObjectLockConfigurationNotFoundError"
    assert refusal(s3c.get_bucket_inventory_configuration, **here, Id="x") == (404, "NoSuchConfiguration")
    assert "LoggingEnabled" not in s3c.get_bucket_logging(**here)
    assert "Status" not in s3c.get_bucket_accelerate_configuration(**here)


def test_public_policies_and_inventories(s3c: Any, bucket: str) -> None:
    here = {"Bucket": bucket}
    everybody = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    for statement, public in ((everybody, True), ({**everybody, "Condition": {}}, False)):
        s3c.put_bucket_policy(**here, Policy=json.dumps({"Statement": statement}))
        assert s3c.get_bucket_policy_status(**here)["PolicyStatus"] == {"IsPublic": public}
    for number in range(101):
        name = f"{number:03}"
        s3c.put_bucket_inventory_configuration(**here, Id=name, InventoryConfiguration={**INVENTORY, "Id": name})
    s3c.delete_bucket_inventory_configuration(**here, Id="000")
    first = s3c.list_bucket_inventory_configurations(**here)
    assert (len(first["InventoryConfigurationList"]), first["IsTruncated"]) == (100, False)
    s3c.put_bucket_inventory_configuration(**here, Id="000", InventoryConfiguration={**INVENTORY, "Id": "000"})
    first = s3c.list_bucket_inventory_configurations(**here)
    rest = s3c.list_bucket_inventory_configurations(**here, ContinuationToken=first["NextContinuationToken"])
    assert [one["Id"] for one in rest["InventoryConfigurationList"]] == ["100"]
