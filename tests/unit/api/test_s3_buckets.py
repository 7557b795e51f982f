"""Buckets and listings over S3's REST API."""

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.s3 import refusal

ACCOUNT, OTHER = "123456789012", "111122223333"


def test_buckets_come_and_go(s3c: Any, bucket: str) -> None:
    assert bucket in [found["Name"] for found in s3c.list_buckets()["Buckets"]]
    s3c.create_bucket(Bucket=bucket)  # No error in us-east-1, as on AWS.
    assert s3c.head_bucket(Bucket=bucket)["BucketRegion"] == "us-east-1"
    s3c.put_object(Bucket=bucket, Key="k", Body=b"")
    assert refusal(s3c.delete_bucket, Bucket=bucket) == (409, "BucketNotEmpty")
    s3c.delete_object(Bucket=bucket, Key="k")
    s3c.delete_bucket(Bucket=bucket)
    assert refusal(s3c.delete_bucket, Bucket=bucket) == (404, "NoSuchBucket")
    assert bucket not in [found["Name"] for found in s3c.list_buckets()["Buckets"]]


def test_a_missing_bucket_is_not_found_as_the_sdk_reads_it(s3c: Any) -> None:
    with pytest.raises(ClientError) as caught:
        s3c.head_bucket(Bucket="no-such-bucket-anywhere", ExpectedBucketOwner=ACCOUNT)
    assert caught.value.response["Error"] == {"Code": "404", "Message": "Not Found"}


def test_names_are_shared_by_all_accounts(client: Callable[..., Any], bucket: str) -> None:
    other = client("s3", key=OTHER)
    assert refusal(other.create_bucket, Bucket=bucket) == (409, "BucketAlreadyExists")
    assert refusal(other.head_bucket, Bucket=bucket)[0] == 403
    assert refusal(other.list_objects_v2, Bucket=bucket) == (403, "AccessDenied")
    assert other.list_buckets()["Buckets"] == []


def test_regions(client: Callable[..., Any]) -> None:
    europe, first = client("s3", "eu-west-1"), client("s3")
    name = f"bucket-{uuid.uuid4()}"
    here, there = {"LocationConstraint": "eu-west-1"}, {"LocationConstraint": "us-west-2"}
    assert refusal(europe.create_bucket, Bucket=name) == (400, "IllegalLocationConstraintException")
    illegal = refusal(europe.create_bucket, Bucket=name, CreateBucketConfiguration=there)
    assert illegal == (400, "IllegalLocationConstraintException")
    europe.create_bucket(Bucket=name, CreateBucketConfiguration=here)
    again = refusal(europe.create_bucket, Bucket=name, CreateBucketConfiguration=here)
    assert again == (409, "BucketAlreadyOwnedByYou")
    assert first.get_bucket_location(Bucket=name)["LocationConstraint"] == "eu-west-1"
    assert first.head_bucket(Bucket=name)["BucketRegion"] == "eu-west-1"
    assert [found["Name"] for found in first.list_buckets(BucketRegion="eu-west-1")["Buckets"]] == [name]


@pytest.mark.parametrize("name", ["ab", "Upper-Case", "under_score", "192.168.0.1", "-dash", "two..dots", "xn--a"])
def test_names_that_are_none(s3c: Any, name: str) -> None:
    assert refusal(s3c.create_bucket, Bucket=name) == (400, "InvalidBucketName")


def test_pages_of_buckets(s3c: Any) -> None:
    names = sorted(f"{letter}-{uuid.uuid4()}" for letter in ("pa", "pb", "pc"))
    for name in names:
        s3c.create_bucket(Bucket=name)
    first = s3c.list_buckets(Prefix="p", MaxBuckets=2)
    rest = s3c.list_buckets(Prefix="p", MaxBuckets=2, ContinuationToken=first["ContinuationToken"])
    assert [found["Name"] for found in first["Buckets"] + rest["Buckets"]] == names


def test_the_configuration_of_a_bucket(s3c: Any, bucket: str) -> None:
    tags = [{"Key": "team", "Value": "a"}]
    s3c.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    assert s3c.get_bucket_tagging(Bucket=bucket)["TagSet"] == tags
    rules = [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}]
    s3c.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": rules})
    assert s3c.get_bucket_cors(Bucket=bucket)["CORSRules"][0]["AllowedMethods"] == ["GET"]
    assert refusal(s3c.get_bucket_policy, Bucket=bucket) == (404, "NoSuchBucketPolicy")
    missing = refusal(s3c.get_bucket_tagging, Bucket="no-such-bucket-here")
    assert missing == (404, "NoSuchBucket")
    # A new bucket of the same name has no configuration.
    s3c.delete_bucket(Bucket=bucket)
    s3c.create_bucket(Bucket=bucket)
    assert refusal(s3c.get_bucket_tagging, Bucket=bucket) == (404, "NoSuchTagSet")
    assert "Status" not in s3c.get_bucket_versioning(Bucket=bucket)


def test_a_new_bucket_is_as_aws_makes_them_since_april_2023(s3c: Any, bucket: str) -> None:
    owned = s3c.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]["Rules"]
    assert owned == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    blocked = s3c.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert blocked == dict.fromkeys(
        ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), True
    )
    s3c.delete_bucket_ownership_controls(Bucket=bucket)
    s3c.delete_public_access_block(Bucket=bucket)
    assert refusal(s3c.get_bucket_ownership_controls, Bucket=bucket) == (404, "OwnershipControlsNotFoundError")
    assert refusal(s3c.get_public_access_block, Bucket=bucket) == (404, "NoSuchPublicAccessBlockConfiguration")


def test_a_configuration_comes_back_as_it_was_given(s3c: Any, bucket: str) -> None:
    """Nothing of it is lost, an empty text that means something included."""
    rules = [
        {"ID": "<&>", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 3}},
        {
            "ID": "some",
            "Status": "Disabled",
            "Filter": {"And": {"Prefix": "x", "Tags": [{"Key": "a", "Value": "b"}]}},
            "NoncurrentVersionExpiration": {"NoncurrentDays": 4},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
        },
    ]  # fmt: skip
    s3c.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    assert s3c.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == rules
    tags = [{"Key": "team", "Value": ""}]
    s3c.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    assert s3c.get_bucket_tagging(Bucket=bucket)["TagSet"] == tags
    delivery = {"Effect": "Allow", "Principal": {"Service": "logging.s3.amazonaws.com"}, "Action": ["s3:PutObject"]}
    statement = {**delivery, "Resource": f"arn:aws:s3:::{bucket}/*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    s3c.put_bucket_policy(Bucket=bucket, Policy=policy)
    assert s3c.get_bucket_policy(Bucket=bucket)["Policy"] == policy
    logging = {"LoggingEnabled": {"TargetBucket": bucket, "TargetPrefix": ""}}
    s3c.put_bucket_logging(Bucket=bucket, BucketLoggingStatus=logging)
    assert s3c.get_bucket_logging(Bucket=bucket)["LoggingEnabled"]["TargetBucket"] == bucket


def test_notifications_of_objects_reach_a_queue(s3c: Any, client: Callable[..., Any], bucket: str) -> None:
    sqs = client("sqs")
    url = sqs.create_queue(QueueName=f"q-{uuid.uuid4()}")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    queue = {"QueueArn": arn, "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}
    s3c.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={"QueueConfigurations": [queue]})
    s3c.put_object(Bucket=bucket, Key="a b", Body=b"xyz")
    s3c.delete_object(Bucket=bucket, Key="a b")
    bodies = "".join(m["Body"] for m in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"])
    assert "ObjectCreated:Put" in bodies
    assert "ObjectRemoved:Delete" in bodies
    assert '"size": 3' in bodies


KEYS = ["a/1", "a/2", "a/b/3", "b", "c/4", "c/5", "d e+f", "é/x"]


@pytest.fixture
def filled(s3c: Any, bucket: str) -> str:
    for key in KEYS:
        s3c.put_object(Bucket=bucket, Key=key, Body=b"")
    return bucket


@pytest.mark.parametrize(
    ("asked", "keys", "prefixes"),
    [
        ({}, KEYS, []),
        ({"Prefix": "a/"}, ["a/1", "a/2", "a/b/3"], []),
        ({"Delimiter": "/"}, ["b", "d e+f"], ["a/", "c/", "é/"]),
        ({"Delimiter": "/", "Prefix": "a/"}, ["a/1", "a/2"], ["a/b/"]),
        ({"Delimiter": "b"}, ["a/1", "a/2", "c/4", "c/5", "d e+f", "é/x"], ["a/b", "b"]),
        ({"Prefix": "none"}, [], []),
        ({"Delimiter": "zz"}, KEYS, []),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 1000])
@pytest.mark.parametrize("operation", ["list_objects", "list_objects_v2", "list_object_versions"])
def test_listing(
    s3c: Any, filled: str, operation: str, size: int, asked: dict[str, str], keys: list[str], prefixes: list[str]
) -> None:
    found_keys, found_prefixes = [], []
    pages = s3c.get_paginator(operation).paginate(Bucket=filled, **asked, PaginationConfig={"PageSize": size})
    for page in pages:
        entries = page.get("Contents", []) + page.get("Versions", [])
        assert len(entries) + len(page.get("CommonPrefixes", [])) <= size
        found_keys += [entry["Key"] for entry in entries]
        found_prefixes += [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]
    assert (found_keys, found_prefixes) == (keys, prefixes)


def test_where_a_listing_starts(s3c: Any, filled: str) -> None:
    after = s3c.list_objects_v2(Bucket=filled, StartAfter="b", Delimiter="/")
    assert [entry["Prefix"] for entry in after["CommonPrefixes"]] == ["c/", "é/"]
    assert after["KeyCount"] == 3
    marked = s3c.list_objects(Bucket=filled, Marker="c/4")
    assert [entry["Key"] for entry in marked["Contents"]] == ["c/5", "d e+f", "é/x"]
    none = s3c.list_objects_v2(Bucket=filled, MaxKeys=0)
    assert (none["KeyCount"], none["IsTruncated"]) == (0, False)
    wrong = refusal(s3c.list_objects_v2, Bucket=filled, ContinuationToken="?")
    assert wrong == (400, "InvalidArgument")
    owned = s3c.list_objects_v2(Bucket=filled, FetchOwner=True)["Contents"][0]
    assert owned["Owner"]["DisplayName"] == ACCOUNT


def test_tags_of_a_new_bucket_are_held_to_what_tags_may_be(s3c: Any) -> None:
    name = f"bucket-{uuid.uuid4()}"
    twice = [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]
    assert refusal(s3c.create_bucket, Bucket=name, CreateBucketConfiguration={"Tags": twice}) == (400, "InvalidTag")
    assert refusal(s3c.head_bucket, Bucket=name)[0] == 404
    s3c.create_bucket(Bucket=name, CreateBucketConfiguration={"Tags": twice[:1]})
    assert s3c.get_bucket_tagging(Bucket=name)["TagSet"] == twice[:1]
    s3c.delete_bucket_tagging(Bucket=name)
    assert refusal(s3c.get_bucket_tagging, Bucket=name) == (404, "NoSuchTagSet")
    many = [{"Key": str(number), "Value": ""} for number in range(51)]
    assert refusal(s3c.put_bucket_tagging, Bucket=name, Tagging={"TagSet": many}) == (400, "BadRequest")
