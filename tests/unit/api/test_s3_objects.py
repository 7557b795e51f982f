"""Objects over S3's REST API, through boto3 against a running server."""

import hashlib
import io
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.s3.opening import S3
from support.s3 import refusal

OTHER = "111122223333"


AWKWARD = [
    "plain.txt",
    "a folder/é+%2F~&=?#.txt",
    "..",
    "../../etc/passwd",
    "a/../b",
    "./x",
    "/leading",
    "//",
    "a//b",
    "trailing/",
    ".hidden",
    ".staged/x",
    "n" * 255,
    "n" * 256,
    "k" * 1024,
    "/".join(["d" * 100] * 10),
    "é" * 512,
    "nul\0inside",
    "line\nbreak\r\ttab",
    "control\x01\x1f\x7f",
    "Ünïcødé 日本語 🎉",
    "e\u0301 beside é",
    "CASE",
    "case",
    "<xml>&amp;\"'",
    "back\\slash",
    "percent%41%",
    " space ",
    "*?[a]",
]


@pytest.mark.parametrize("key", AWKWARD, ids=lambda key: ascii(key)[:30])
def test_any_key_comes_back_exact(s3c: Any, bucket: str, key: str, s3: S3) -> None:
    data = key.encode()
    s3c.put_object(Bucket=bucket, Key=key, Body=data)
    assert s3c.get_object(Bucket=bucket, Key=key)["Body"].read() == data
    assert s3c.head_object(Bucket=bucket, Key=key)["ContentLength"] == len(data)
    assert [found["Key"] for found in s3c.list_objects_v2(Bucket=bucket)["Contents"]] == [key]
    s3c.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": key})
    assert s3c.get_object(Bucket=bucket, Key="copy")["Body"].read() == data
    root = s3.store.files.root
    assert all(root in path.resolve().parents for path in root.rglob("*"))
    s3c.delete_object(Bucket=bucket, Key=key)
    assert refusal(s3c.get_object, Bucket=bucket, Key=key) == (404, "NoSuchKey")


def test_all_awkward_keys_side_by_side(s3c: Any, bucket: str) -> None:
    keys = [*AWKWARD, "a", "a/b", "a/b/c", "deep/er", "deep", "A", "A/b"]
    for key in keys:
        s3c.put_object(Bucket=bucket, Key=key, Body=key.encode())
    listed = [found["Key"] for found in s3c.list_objects_v2(Bucket=bucket)["Contents"]]
    assert listed == sorted(keys, key=str.encode)
    for key in keys:
        assert s3c.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()
    for key in reversed(keys):
        s3c.delete_object(Bucket=bucket, Key=key)
    s3c.delete_bucket(Bucket=bucket)


def test_people_find_the_bytes_as_plain_files(s3c: Any, bucket: str, s3: S3) -> None:
    s3c.put_object(Bucket=bucket, Key="train/part 1.csv", Body=b"1,2")
    assert (s3.store.files.root / bucket / "train/part 1.csv").read_bytes() == b"1,2"


def test_what_the_client_says_of_an_object_comes_back(s3c: Any, bucket: str) -> None:
    said = {
        "ContentType": "text/csv", "ContentEncoding": "gzip", "ContentLanguage": "de", "CacheControl": "no-cache",
        "ContentDisposition": 'attachment; filename="a.csv"',
        "Expires": datetime(2030, 1, 1, tzinfo=timezone.utc),
        "Metadata": {"one_two": "1", "three-four": "2"},
        "StorageClass": "STANDARD_IA", "WebsiteRedirectLocation": "/there", "ServerSideEncryption": "aws:kms",
        "SSEKMSKeyId": "arn:aws:kms:us-east-1:123456789012:key/k",
    }  # fmt: skip
    put = s3c.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="a=1&b=two", **said)
    assert put["ServerSideEncryption"] == "aws:kms"
    for answer in (s3c.head_object(Bucket=bucket, Key="k"), s3c.get_object(Bucket=bucket, Key="k")):
        assert {name: answer[name] for name in said} == said
        assert answer["ETag"] == f'"{hashlib.md5(b"x").hexdigest()}"'
    tags = s3c.get_object_tagging(Bucket=bucket, Key="k")["TagSet"]
    assert tags == [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "two"}]
    assert s3c.get_object(Bucket=bucket, Key="k")["TagCount"] == 2


def test_tags_are_replaced_and_removed(s3c: Any, bucket: str) -> None:
    s3c.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="old=1")
    s3c.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "new", "Value": "é"}]})
    assert s3c.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [{"Key": "new", "Value": "é"}]
    s3c.delete_object_tagging(Bucket=bucket, Key="k")
    assert s3c.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == []
    many = {"TagSet": [{"Key": str(number), "Value": ""} for number in range(11)]}
    assert refusal(s3c.put_object_tagging, Bucket=bucket, Key="k", Tagging=many) == (400, "BadRequest")
    twice = {"TagSet": [{"Key": "a", "Value": ""}, {"Key": "a", "Value": ""}]}
    assert refusal(s3c.put_object_tagging, Bucket=bucket, Key="k", Tagging=twice) == (400, "InvalidTag")


@pytest.mark.parametrize(
    ("span", "expected", "said"),
    [
        ("bytes=0-3", b"0123", "bytes 0-3/10"),
        ("bytes=8-", b"89", "bytes 8-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=-30", b"0123456789", "bytes 0-9/10"),
        ("bytes=5-99", b"56789", "bytes 5-9/10"),
    ],
)
def test_ranges(s3c: Any, bucket: str, span: str, expected: bytes, said: str) -> None:
    s3c.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    got = s3c.get_object(Bucket=bucket, Key="k", Range=span)
    assert (got["Body"].read(), got["ContentRange"]) == (expected, said)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert s3c.head_object(Bucket=bucket, Key="k", Range=span)["ContentLength"] == len(expected)


def test_ranges_that_are_none(s3c: Any, bucket: str) -> None:
    s3c.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    s3c.put_object(Bucket=bucket, Key="empty", Body=b"")
    assert refusal(s3c.get_object, Bucket=bucket, Key="k", Range="bytes=10-") == (416, "InvalidRange")
    assert refusal(s3c.get_object, Bucket=bucket, Key="empty", Range="bytes=0-") == (416, "InvalidRange")
    for span in ("bytes=5-2", "lines=1-2", "bytes=0-1,3-4", "bytes=-"):
        got = s3c.get_object(Bucket=bucket, Key="k", Range=span)
        assert (got["Body"].read(), got["ResponseMetadata"]["HTTPStatusCode"]) == (b"0123456789", 200)
    assert s3c.get_object(Bucket=bucket, Key="empty")["Body"].read() == b""


def test_conditions_of_reading(s3c: Any, bucket: str) -> None:
    etag = s3c.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    read = {"Bucket": bucket, "Key": "k"}
    now = s3c.head_object(**read)["LastModified"]
    past, future = now - timedelta(days=1), now + timedelta(days=1)
    for passing in (
        {"IfMatch": etag}, {"IfMatch": "*"}, {"IfNoneMatch": '"other"'}, {"IfModifiedSince": past},
        {"IfUnmodifiedSince": future}, {"IfMatch": etag, "IfUnmodifiedSince": past},
        {"IfNoneMatch": '"other"', "IfModifiedSince": future},
    ):  # fmt: skip
        assert s3c.get_object(**read, **passing)["Body"].read() == b"x"
    for failing in ({"IfMatch": '"other"'}, {"IfUnmodifiedSince": past}):
        assert refusal(s3c.get_object, **read, **failing) == (412, "PreconditionFailed")
        assert refusal(s3c.head_object, **read, **failing)[0] == 412
    for same in ({"IfNoneMatch": etag}, {"IfModifiedSince": future}):
        assert refusal(s3c.get_object, **read, **same)[0] == 304
        assert refusal(s3c.head_object, **read, **same)[0] == 304
    assert s3c.get_object(**read)["Body"].read() == b"x"


def test_conditions_of_writing(s3c: Any, bucket: str) -> None:
    write = {"Bucket": bucket, "Key": "k", "Body": b"2"}
    assert refusal(s3c.put_object, **write, IfMatch='"any"') == (404, "NoSuchKey")
    etag = s3c.put_object(**write, IfNoneMatch="*")["ETag"]
    assert refusal(s3c.put_object, **write, IfNoneMatch="*") == (412, "PreconditionFailed")
    assert refusal(s3c.put_object, **write, IfMatch='"other"') == (412, "PreconditionFailed")
    s3c.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch=etag)
    assert s3c.get_object(Bucket=bucket, Key="k")["Body"].read() == b"3"
    assert refusal(s3c.delete_object, Bucket=bucket, Key="k", IfMatch=etag) == (412, "PreconditionFailed")


def test_only_one_of_many_creates(s3c: Any, bucket: str) -> None:
    outcomes: list[str] = []

    def put(number: int) -> None:
        try:
            s3c.put_object(Bucket=bucket, Key="lock", Body=str(number).encode(), IfNoneMatch="*")
            outcomes.append("made")
        except ClientError as error:
            outcomes.append(error.response["Error"]["Code"])

    threads = [threading.Thread(target=put, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["PreconditionFailed"] * 11 + ["made"]


def test_a_reader_gets_the_object_it_began_with(s3c: Any, bucket: str) -> None:
    old, new = b"o" * 5_000_000, b"n" * 5_000_000
    s3c.put_object(Bucket=bucket, Key="k", Body=old)
    body = s3c.get_object(Bucket=bucket, Key="k")["Body"]
    begun = body.read(10)
    s3c.put_object(Bucket=bucket, Key="k", Body=new)
    assert begun + body.read() == old
    body = s3c.get_object(Bucket=bucket, Key="k")["Body"]
    begun = body.read(10)
    s3c.delete_object(Bucket=bucket, Key="k")
    assert begun + body.read() == new


def test_copies(s3c: Any, bucket: str) -> None:
    source = {"Bucket": bucket, "Key": "k"}
    etag = s3c.put_object(**source, Body=b"x", Metadata={"a": "1"}, ContentType="text/a", Tagging="t=1")["ETag"]
    copied = s3c.copy_object(Bucket=bucket, Key="c", CopySource=source)["CopyObjectResult"]
    assert copied["ETag"] == etag
    head = s3c.head_object(Bucket=bucket, Key="c")
    assert (head["Metadata"], head["ContentType"]) == ({"a": "1"}, "text/a")
    assert s3c.get_object_tagging(Bucket=bucket, Key="c")["TagSet"] == [{"Key": "t", "Value": "1"}]
    fresh = {"MetadataDirective": "REPLACE", "Metadata": {"b": "2"}, "ContentType": "text/b"}
    s3c.copy_object(Bucket=bucket, Key="c", CopySource=source, TaggingDirective="REPLACE", Tagging="n=2", **fresh)
    head = s3c.head_object(Bucket=bucket, Key="c")
    assert (head["Metadata"], head["ContentType"]) == ({"b": "2"}, "text/b")
    assert s3c.get_object_tagging(Bucket=bucket, Key="c")["TagSet"] == [{"Key": "n", "Value": "2"}]
    s3c.copy_object(**source, CopySource=source, MetadataDirective="REPLACE", Metadata={"c": "3"})
    assert s3c.get_object(**source)["Body"].read() == b"x"
    assert s3c.head_object(**source)["Metadata"] == {"c": "3"}


def test_copies_that_are_refused(s3c: Any, bucket: str) -> None:
    source = {"Bucket": bucket, "Key": "k"}
    etag = s3c.put_object(**source, Body=b"x")["ETag"]
    copy = {"Bucket": bucket, "Key": "c", "CopySource": source}
    assert refusal(s3c.copy_object, **source, CopySource=source) == (400, "InvalidRequest")
    assert refusal(s3c.copy_object, **{**copy, "CopySource": f"{bucket}/none"}) == (404, "NoSuchKey")
    assert refusal(s3c.copy_object, **{**copy, "CopySource": "no-such-bucket-here/k"}) == (404, "NoSuchBucket")
    assert refusal(s3c.copy_object, **copy, CopySourceIfNoneMatch=etag) == (412, "PreconditionFailed")
    assert refusal(s3c.copy_object, **copy, CopySourceIfMatch='"x"') == (412, "PreconditionFailed")
    assert refusal(s3c.head_object, Bucket=bucket, Key="c")[0] == 404


def test_deletions(s3c: Any, bucket: str) -> None:
    for key in ("a", "b", "c/d"):
        s3c.put_object(Bucket=bucket, Key=key, Body=b"")
    assert s3c.delete_object(Bucket=bucket, Key="none")["ResponseMetadata"]["HTTPStatusCode"] == 204
    gone = s3c.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"}, {"Key": "none"}]})
    assert gone["Deleted"] == [{"Key": "a"}, {"Key": "none"}]
    quiet = s3c.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "b"}], "Quiet": True})
    assert "Deleted" not in quiet
    assert [found["Key"] for found in s3c.list_objects_v2(Bucket=bucket)["Contents"]] == ["c/d"]
    objects = [{"Key": str(number)} for number in range(1001)]
    assert refusal(s3c.delete_objects, Bucket=bucket, Delete={"Objects": objects}) == (400, "MalformedXML")


def test_deletions_heed_each_objects_condition(s3c: Any, bucket: str) -> None:
    etags = {key: s3c.put_object(Bucket=bucket, Key=key, Body=key.encode())["ETag"] for key in "abcde"}
    asked = [
        {"Key": "a", "ETag": etags["a"]},
        {"Key": "b", "ETag": etags["a"]},
        {"Key": "c", "ETag": "*"},
        {"Key": "d"},
        {"Key": "none", "ETag": "*"},
        {"Key": "none-2"},
        {"Key": "e"},
        {"Key": "e", "ETag": etags["a"]},
    ]
    answer = s3c.delete_objects(Bucket=bucket, Delete={"Objects": asked})
    assert [one["Key"] for one in answer["Deleted"]] == ["a", "c", "d", "none-2"]
    failed = {one["Key"]: one["Code"] for one in answer["Errors"]}
    assert failed == {"b": "PreconditionFailed", "none": "NoSuchKey", "e": "PreconditionFailed"}
    assert [one["Key"] for one in s3c.list_objects_v2(Bucket=bucket)["Contents"]] == ["b", "e"]
    quiet = s3c.delete_objects(Bucket=bucket, Delete={"Objects": asked[:2], "Quiet": True})
    assert "Deleted" not in quiet
    assert [one["Code"] for one in quiet["Errors"]] == ["NoSuchKey", "PreconditionFailed"]
    unquoted = [{"Key": "b", "ETag": etags["b"].strip('"')}]
    assert s3c.delete_objects(Bucket=bucket, Delete={"Objects": unquoted})["Deleted"] == [{"Key": "b"}]


def test_deletions_refuse_what_they_would_not_heed(s3c: Any, bucket: str) -> None:
    """Conditions of directory buckets, and versions: an object that the client meant to keep must not go."""
    modified = datetime(2024, 1, 1, tzinfo=timezone.utc)
    s3c.put_object(Bucket=bucket, Key="k", Body=b"x")
    for one, code in (
        ({"Size": 7}, (501, "NotImplemented")),
        ({"LastModifiedTime": modified}, (501, "NotImplemented")),
        ({"VersionId": "other"}, (400, "InvalidArgument")),
    ):
        objects = [{"Key": "other"}, {"Key": "k", **one}]
        assert refusal(s3c.delete_objects, Bucket=bucket, Delete={"Objects": objects}) == code
    for header, code in (
        ({"IfMatchSize": 7}, (501, "NotImplemented")),
        ({"IfMatchLastModifiedTime": modified}, (501, "NotImplemented")),
        ({"VersionId": "other"}, (400, "InvalidArgument")),
    ):
        assert refusal(s3c.delete_object, Bucket=bucket, Key="k", **header) == code
    assert s3c.head_object(Bucket=bucket, Key="k")
    assert refusal(s3c.delete_object, Bucket=bucket, Key="none", IfMatch="*") == (404, "NoSuchKey")
    s3c.delete_object(Bucket=bucket, Key="k", VersionId="null")
    assert refusal(s3c.head_object, Bucket=bucket, Key="k")[0] == 404


def test_checksums_of_all_kinds(s3c: Any, bucket: str) -> None:
    for algorithm in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"):
        put = s3c.put_object(Bucket=bucket, Key=algorithm, Body=b"123456789", ChecksumAlgorithm=algorithm)
        head = s3c.head_object(Bucket=bucket, Key=algorithm, ChecksumMode="ENABLED")
        assert head[f"Checksum{algorithm}"] == put[f"Checksum{algorithm}"]
        assert head["ChecksumType"] == "FULL_OBJECT"
        wrong = {f"Checksum{algorithm}": put[f"Checksum{algorithm}"]}
        assert refusal(s3c.put_object, Bucket=bucket, Key="w", Body=b"other", **wrong) == (400, "BadDigest")
    # The check values of the CRC catalogue: E3069283, and AE8B14860A799888.
    for algorithm, value in (("CRC32C", "4waSgw=="), ("CRC64NVME", "rosUhgp5mIg=")):
        head = s3c.head_object(Bucket=bucket, Key=algorithm, ChecksumMode="ENABLED")
        assert head[f"Checksum{algorithm}"] == value
    assert refusal(s3c.head_object, Bucket=bucket, Key="w")[0] == 404


def test_content_md5(s3c: Any, bucket: str) -> None:
    put = {"Bucket": bucket, "Key": "k", "Body": b"x"}
    assert refusal(s3c.put_object, **put, ContentMD5="1B2M2Y8AsgTpgAmY7PhCfg==") == (400, "BadDigest")
    assert refusal(s3c.put_object, **put, ContentMD5="nonsense") == (400, "InvalidDigest")
    s3c.put_object(**put, ContentMD5="ndTkYSaMgDT1yFZOFVxnpg==")


def test_what_is_refused(s3c: Any, client: Callable[..., Any], bucket: str) -> None:
    put = {"Bucket": bucket, "Key": "k", "Body": b"x"}
    assert refusal(s3c.put_object, **put, ACL="public-read") == (400, "AccessControlListNotSupported")
    assert refusal(s3c.put_object, **put, Metadata={"a": "x" * 2050}) == (400, "MetadataTooLarge")
    assert refusal(s3c.put_object, **{**put, "Key": "k" * 1025}) == (400, "KeyTooLongError")
    assert refusal(s3c.put_object, **{**put, "Bucket": "no-such-bucket-here"}) == (404, "NoSuchBucket")
    assert refusal(s3c.get_object, Bucket="no-such-bucket-here", Key="k") == (404, "NoSuchBucket")
    assert refusal(s3c.put_object, **put, ExpectedBucketOwner=OTHER) == (403, "AccessDenied")
    other = client("s3", key=OTHER)
    for call in (other.get_object, other.head_object, other.delete_object):
        assert refusal(call, Bucket=bucket, Key="k")[0] == 403
    assert refusal(s3c.get_object_torrent, Bucket=bucket, Key="k") == (501, "NotImplemented")
    version = {"VersioningConfiguration": {"Status": "Enabled"}}
    assert refusal(s3c.put_bucket_versioning, Bucket=bucket, **version) == (501, "NotImplemented")


def test_attributes(s3c: Any, bucket: str) -> None:
    put = s3c.put_object(Bucket=bucket, Key="k", Body=b"x", ChecksumAlgorithm="SHA256")
    wanted = ["ETag", "Checksum", "ObjectSize", "StorageClass"]
    got = s3c.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=wanted)
    assert (got["ETag"], got["ObjectSize"]) == (put["ETag"].strip('"'), 1)
    assert got["Checksum"]["ChecksumSHA256"] == put["ChecksumSHA256"]
    assert refusal(s3c.get_object_attributes, Bucket=bucket, Key="k", ObjectAttributes=[]) == (400, "InvalidRequest")


def test_a_file_like_body_of_unknown_length(s3c: Any, bucket: str) -> None:
    s3c.upload_fileobj(io.BytesIO(b"y" * 300_000), bucket, "k")
    assert s3c.get_object(Bucket=bucket, Key="k")["Body"].read() == b"y" * 300_000
