"""SSE-C: what came with a customer's key is read with that key only, by clients and by jobs."""

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.s3.opening import S3
from sagelet_engine.base.errors import ClientFault
from sagelet_engine.data.channels.sources import JobObjects
from sagelet_engine.model import training
from sagelet_engine.model.objects import ObjectDamaged, S3Uri
from sagelet_engine.model.principal import owner
from support.s3 import refusal
from support.world import key as job_key
from support.world import request

ACCOUNT = "123456789012"
NEEDED = (400, "InvalidRequest")


def sse(letter: str = "k", prefix: str = "") -> dict[str, str]:
    return {f"{prefix}SSECustomerAlgorithm": "AES256", f"{prefix}SSECustomerKey": letter * 32}


def encoded(letter: str = "k") -> dict[str, str]:
    """The members as headers have them. botocore makes these of `sse`, but not for GetObjectAttributes."""
    key = base64.b64encode(letter.encode() * 32).decode()
    return {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": key, "SSECustomerKeyMD5": md5(letter)}


def md5(letter: str = "k") -> str:
    return base64.b64encode(hashlib.md5(letter.encode() * 32, usedforsecurity=False).digest()).decode()


@pytest.fixture
def secret(s3c: Any, bucket: str) -> dict[str, str]:
    put = s3c.put_object(Bucket=bucket, Key="secret", Body=b"secret", **sse())
    assert (put["SSECustomerAlgorithm"], put["SSECustomerKeyMD5"]) == ("AES256", md5())
    return {"Bucket": bucket, "Key": "secret"}


def test_the_right_key_reads_it(s3c: Any, secret: dict[str, str]) -> None:
    got = s3c.get_object(**secret, **sse())
    assert (got["Body"].read(), got["SSECustomerKeyMD5"]) == (b"secret", md5())
    assert "ServerSideEncryption" not in got
    assert s3c.head_object(**secret, **sse())["ContentLength"] == 6
    assert s3c.get_object(**secret, **sse(), Range="bytes=2-3")["Body"].read() == b"cr"
    assert s3c.get_object_attributes(**secret, **encoded(), ObjectAttributes=["ObjectSize"])["ObjectSize"] == 6


def test_no_key_and_another_key_read_nothing(s3c: Any, secret: dict[str, str]) -> None:
    for read, more, other in (
        (s3c.get_object, {}, sse("x")),
        (s3c.get_object, {"Range": "bytes=0-0"}, sse("x")),
        (s3c.get_object_attributes, {"ObjectAttributes": ["ETag"]}, encoded("x")),
    ):
        assert refusal(read, **secret, **more) == NEEDED
        assert refusal(read, **secret, **more, **other) == (403, "AccessDenied")
    # An answer to HEAD has no body, so its code is the status.
    assert refusal(s3c.head_object, **secret) == (400, "400")
    assert refusal(s3c.head_object, **secret, **sse("x")) == (403, "403")
    with pytest.raises(s3c.exceptions.ClientError, match="The correct parameters must be provided to retrieve"):
        s3c.get_object(**secret)


def test_a_key_for_an_object_without_one_is_refused(s3c: Any, bucket: str) -> None:
    s3c.put_object(Bucket=bucket, Key="open", Body=b"x")
    assert refusal(s3c.get_object, Bucket=bucket, Key="open", **sse()) == NEEDED


def test_what_needs_no_key(s3c: Any, secret: dict[str, str]) -> None:
    """Lists, tags and deletions are not about the bytes."""
    (listed,) = s3c.list_objects_v2(Bucket=secret["Bucket"])["Contents"]
    assert (listed["Key"], listed["Size"]) == ("secret", 6)
    s3c.put_object_tagging(**secret, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    assert s3c.get_object_tagging(**secret)["TagSet"] == [{"Key": "a", "Value": "b"}]
    s3c.delete_object(**secret)
    assert "Contents" not in s3c.list_objects_v2(Bucket=secret["Bucket"])


def test_copies_need_the_sources_key_and_have_their_own(s3c: Any, secret: dict[str, str]) -> None:
    target = {"Bucket": secret["Bucket"], "Key": "copy", "CopySource": secret}
    assert refusal(s3c.copy_object, **target) == NEEDED
    assert refusal(s3c.copy_object, **target, **sse("x", "CopySource")) == (403, "AccessDenied")
    s3c.copy_object(**target, **sse("k", "CopySource"))
    copied = s3c.get_object(Bucket=secret["Bucket"], Key="copy")
    assert (copied["Body"].read(), copied["ServerSideEncryption"]) == (b"secret", "AES256")
    s3c.copy_object(**target, **sse("k", "CopySource"), **sse("n"))
    assert refusal(s3c.get_object, Bucket=secret["Bucket"], Key="copy", **sse()) == (403, "AccessDenied")
    assert s3c.get_object(Bucket=secret["Bucket"], Key="copy", **sse("n"))["Body"].read() == b"secret"
    # Another key for the same object.
    s3c.copy_object(**secret, CopySource=secret, **sse("k", "CopySource"), **sse("r"))
    assert s3c.get_object(**secret, **sse("r"))["Body"].read() == b"secret"


def test_all_parts_of_an_upload_have_its_key(s3c: Any, secret: dict[str, str]) -> None:
    upload = {"Bucket": secret["Bucket"], "Key": "parts"}
    upload["UploadId"] = s3c.create_multipart_upload(**upload, **sse())["UploadId"]
    part = {**upload, "PartNumber": 1, "Body": b"p"}
    for wrong in ({}, sse("x")):
        assert refusal(s3c.upload_part, **part, **wrong) == NEEDED
    from_copy = {**upload, "PartNumber": 2, "CopySource": secret}
    assert refusal(s3c.upload_part_copy, **from_copy, **sse("k", "CopySource")) == NEEDED
    assert refusal(s3c.upload_part_copy, **from_copy, **sse()) == NEEDED
    parts = [
        {"PartNumber": 1, "ETag": s3c.upload_part(**part | {"Body": b"p" * 5 * 1024**2}, **sse())["ETag"]},
        {
            "PartNumber": 2,
            "ETag": s3c.upload_part_copy(**from_copy, **sse(), **sse("k", "CopySource"))["CopyPartResult"]["ETag"],
        },
    ]
    s3c.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert refusal(s3c.get_object, Bucket=secret["Bucket"], Key="parts") == NEEDED
    assert s3c.get_object(Bucket=secret["Bucket"], Key="parts", **sse())["Body"].read().endswith(b"psecret")
    plain = {"Bucket": secret["Bucket"], "Key": "plain"}
    plain["UploadId"] = s3c.create_multipart_upload(**plain)["UploadId"]
    assert refusal(s3c.upload_part, **plain, PartNumber=1, Body=b"p", **sse()) == NEEDED


def test_half_a_key_is_refused(s3c: Any, bucket: str) -> None:
    put = {"Bucket": bucket, "Key": "k", "Body": b""}
    short = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "short"}
    for wrong in (
        {"SSECustomerAlgorithm": "AES256"},
        {"SSECustomerKey": "k" * 32},
        {**sse(), "SSECustomerKeyMD5": md5("x")},
        short,
    ):
        assert refusal(s3c.put_object, **put, **wrong) == (400, "InvalidArgument"), wrong
    assert "Contents" not in s3c.list_objects_v2(Bucket=bucket)


def test_a_job_cannot_read_it_and_says_why(s3: S3, secret: dict[str, str], tmp_path: Path) -> None:
    name = secret["Bucket"], secret["Key"]
    for read in (s3.objects.download, s3.objects.link):
        with pytest.raises(ObjectDamaged, match="SSE-C"):
            read(owner(ACCOUNT), *name, tmp_path / "got")
    assert not (tmp_path / "got").exists()
    job = training.create(job_key("one"), "id", request("one"), {}, 0)
    with pytest.raises(ClientFault, match=r"Data download failed:s3://.*stored using a form of Server Side Encryption"):
        JobObjects(s3.objects, job).download(S3Uri(*name), tmp_path / "got")
