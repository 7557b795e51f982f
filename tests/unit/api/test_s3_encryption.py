"""Encryption as it is said back: of the request, or of the bucket."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

from sagelet_api.services.s3.opening import S3
from sagelet_engine.model.principal import owner
from support.s3 import refusal

ACCOUNT = "123456789012"
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
NAMES = ("ServerSideEncryption", "SSEKMSKeyId", "BucketKeyEnabled")


def said(answer: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(answer.get(name) for name in NAMES)


def rules(**by_default: Any) -> dict[str, Any]:
    return {"Rules": [{"ApplyServerSideEncryptionByDefault": by_default, "BucketKeyEnabled": True}]}


def answers(s3c: Any, bucket: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yields the answer of every operation that makes or reads an object, without a request for encryption."""
    place = {"Bucket": bucket, "Key": "k"}
    yield "put", said(s3c.put_object(**place, Body=b"x"))
    yield "get", said(s3c.get_object(**place))
    yield "head", said(s3c.head_object(**place))
    yield "copy", said(s3c.copy_object(Bucket=bucket, Key="copy", CopySource=place))
    yield "head of the copy", said(s3c.head_object(Bucket=bucket, Key="copy"))
    upload = {"Bucket": bucket, "Key": "u"}
    made = s3c.create_multipart_upload(**upload)
    yield "create", said(made)
    upload["UploadId"] = made["UploadId"]
    yield "part copy", said(s3c.upload_part_copy(**upload, PartNumber=1, CopySource=place))
    part = s3c.upload_part(**upload, PartNumber=1, Body=b"x")
    yield "part", said(part)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    yield "complete", said(s3c.complete_multipart_upload(**upload, MultipartUpload=parts))
    yield "head of the upload", said(s3c.head_object(Bucket=bucket, Key="u"))


def test_sse_s3_is_every_buckets_default(s3c: Any, bucket: str) -> None:
    found = s3c.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert found == [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}, "BucketKeyEnabled": False}]
    assert {how: one for how, one in answers(s3c, bucket) if one != ("AES256", None, None)} == {}


def test_a_default_that_was_set_is_said_back(s3c: Any, bucket: str) -> None:
    s3c.put_object(Bucket=bucket, Key="before", Body=b"")
    wanted = rules(SSEAlgorithm="aws:kms", KMSMasterKeyID=KEY)
    s3c.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=wanted)
    assert s3c.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"] == wanted
    assert {how: one for how, one in answers(s3c, bucket) if one != ("aws:kms", KEY, True)} == {}
    # An object keeps what it came with, and a request may say otherwise.
    assert said(s3c.head_object(Bucket=bucket, Key="before")) == ("AES256", None, None)
    assert said(s3c.put_object(Bucket=bucket, Key="o", Body=b"", ServerSideEncryption="AES256"))[0] == "AES256"
    s3c.delete_bucket_encryption(Bucket=bucket)
    assert said(s3c.head_object(Bucket=bucket, Key="k")) == ("aws:kms", KEY, True)
    assert {how: one for how, one in answers(s3c, bucket) if one != ("AES256", None, None)} == {}


def test_a_new_bucket_of_the_name_has_no_default_of_the_old(s3c: Any, bucket: str) -> None:
    s3c.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=rules(SSEAlgorithm="aws:kms"))
    s3c.delete_bucket(Bucket=bucket)
    s3c.create_bucket(Bucket=bucket)
    assert said(s3c.put_object(Bucket=bucket, Key="k", Body=b"")) == ("AES256", None, None)


def test_what_a_job_writes_has_the_buckets_default(s3c: Any, bucket: str, s3: S3) -> None:
    s3c.put_bucket_encryption(
        Bucket=bucket, ServerSideEncryptionConfiguration=rules(SSEAlgorithm="aws:kms", KMSMasterKeyID=KEY)
    )
    with s3.objects.create(owner(ACCOUNT), bucket, "model.tar.gz") as out:
        out.write(b"x")
    head = s3c.head_object(Bucket=bucket, Key="model.tar.gz")
    assert (said(head), head["ContentType"]) == (("aws:kms", KEY, True), "binary/octet-stream")


def test_keys_are_said_by_their_arns(s3c: Any, client: Callable[..., Any], bucket: str) -> None:
    def key(**named: str) -> Any:
        put = s3c.put_object(Bucket=bucket, Key="k", Body=b"", ServerSideEncryption="aws:kms", **named)
        assert s3c.head_object(Bucket=bucket, Key="k")["SSEKMSKeyId"] == put["SSEKMSKeyId"]
        return put["SSEKMSKeyId"]

    made = client("kms").create_key()["KeyMetadata"]
    alias = f"alias/{uuid.uuid4()}"
    client("kms").create_alias(AliasName=alias, TargetKeyId=made["KeyId"])
    for name in (made["KeyId"], made["Arn"], alias, f"arn:aws:kms:us-east-1:{ACCOUNT}:{alias}"):
        assert key(SSEKMSKeyId=name) == made["Arn"]
    assert key(SSEKMSKeyId=KEY) == key(SSEKMSKeyId=KEY.rpartition("/")[2]) == KEY
    own = client("kms").describe_key(KeyId="alias/aws/s3")["KeyMetadata"]["Arn"]
    assert key() == own


def test_a_copy_has_not_its_sources_encryption(s3c: Any, bucket: str) -> None:
    s3c.put_object(Bucket=bucket, Key="k", Body=b"", ServerSideEncryption="aws:kms", SSEKMSKeyId=KEY)
    s3c.copy_object(Bucket=bucket, Key="c", CopySource=f"{bucket}/k")
    assert said(s3c.head_object(Bucket=bucket, Key="c")) == ("AES256", None, None)


def test_what_is_no_encryption_is_refused(s3c: Any, bucket: str) -> None:
    put = {"Bucket": bucket, "Key": "k", "Body": b""}
    for wrong in (
        {"ServerSideEncryption": "nonsense"},
        {"ServerSideEncryption": "AES256", "SSEKMSKeyId": KEY},
        {"SSEKMSKeyId": KEY},
        {"ServerSideEncryption": "AES256", "SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32},
    ):
        assert refusal(s3c.put_object, **put, **wrong) == (400, "InvalidArgument")
    wrong_algorithm = {"SSECustomerAlgorithm": "DES", "SSECustomerKey": "k" * 32}
    assert refusal(s3c.put_object, **put, **wrong_algorithm) == (400, "InvalidEncryptionAlgorithmError")
    assert "Contents" not in s3c.list_objects_v2(Bucket=bucket)
    for wrong_rules, code in (
        (rules(SSEAlgorithm="nonsense"), "MalformedXML"),
        (rules(SSEAlgorithm="aws:kms", KMSMasterKeyID=""), "MalformedXML"),
        (rules(SSEAlgorithm="AES256", KMSMasterKeyID=KEY), "InvalidArgument"),
        ({"Rules": []}, "MalformedXML"),
        ({"Rules": 2 * rules(SSEAlgorithm="AES256")["Rules"]}, "MalformedXML"),
    ):
        refused = refusal(s3c.put_bucket_encryption, Bucket=bucket, ServerSideEncryptionConfiguration=wrong_rules)
        assert refused == (400, code)
    found = s3c.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert found["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
