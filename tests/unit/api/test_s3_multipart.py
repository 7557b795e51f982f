"""Multipart uploads over S3's REST API."""

import base64
import hashlib
import io
import random
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from sagelet_api.services.s3.opening import S3
from support.s3 import refusal

MIB = 1024 * 1024
#: Three parts of 5 MiB and one that is smaller, all different.
DATA = random.Random(1).randbytes(15 * MIB + 100)
PARTS = [DATA[at : at + 5 * MIB] for at in range(0, len(DATA), 5 * MIB)]


def etag_of(parts: list[bytes]) -> str:
    digests = b"".join(hashlib.md5(part).digest() for part in parts)
    return f'"{hashlib.md5(digests).hexdigest()}-{len(parts)}"'


class Upload:
    def __init__(self, s3c: Any, bucket: str, key: str = "k", **how: Any) -> None:
        self.s3c = s3c
        self.place = {"Bucket": bucket, "Key": key}
        self.id = s3c.create_multipart_upload(**self.place, **how)["UploadId"]
        self.parts: dict[int, dict[str, Any]] = {}

    def put(self, number: int, data: bytes, **how: Any) -> None:
        answer = self.s3c.upload_part(**self.place, UploadId=self.id, PartNumber=number, Body=data, **how)
        sums = {name: value for name, value in answer.items() if name.startswith("Checksum")}
        self.parts[number] = {"PartNumber": number, "ETag": answer["ETag"], **sums}

    def complete(self, **how: Any) -> dict[str, Any]:
        parts = {"Parts": [self.parts[number] for number in sorted(self.parts)]}
        return self.s3c.complete_multipart_upload(**self.place, UploadId=self.id, MultipartUpload=parts, **how)


@pytest.mark.parametrize("order", [(1, 2, 3, 4), (3, 1, 4, 2), (4, 3, 2, 1)])
def test_parts_in_any_order(s3c: Any, bucket: str, s3: S3, order: tuple[int, ...]) -> None:
    upload = Upload(s3c, bucket)
    for number in order:
        upload.put(number, PARTS[number - 1])
    assert refusal(s3c.get_object, **upload.place)[0] == 404
    assert upload.complete()["ETag"] == etag_of(PARTS)
    got = s3c.get_object(**upload.place)
    assert (got["Body"].read(), got["ETag"]) == (DATA, etag_of(PARTS))
    assert s3.store.files.staged_ids() == []


def test_parts_that_fit_no_slot(s3c: Any, bucket: str, s3: S3) -> None:
    """Numbers with gaps, sizes that differ, a part that is sent twice."""
    upload = Upload(s3c, bucket)
    parts = {2: b"a" * (5 * MIB), 5: b"b" * (6 * MIB), 9: b"c" * (5 * MIB + 1), 10_000: b"d"}
    upload.put(5, b"wrong" * (2 * MIB))
    for number, data in parts.items():
        upload.put(number, data)
    upload.complete()
    assert s3c.get_object(**upload.place)["Body"].read() == b"".join(parts.values())
    assert s3.store.files.staged_ids() == []


def test_a_part_is_replaced_and_one_left_out(s3c: Any, bucket: str) -> None:
    upload = Upload(s3c, bucket)
    for number, data in enumerate(PARTS, 1):
        upload.put(number, data)
    upload.put(2, PARTS[0])
    left = upload.parts.pop(4)
    listed = s3c.list_parts(**upload.place, UploadId=upload.id)["Parts"]
    assert [part["PartNumber"] for part in listed] == [1, 2, 3, 4]
    assert left["ETag"] == listed[3]["ETag"]
    assert upload.complete()["ETag"] == etag_of([PARTS[0], PARTS[0], PARTS[2]])
    assert s3c.get_object(**upload.place)["Body"].read() == PARTS[0] + PARTS[0] + PARTS[2]


def test_what_cannot_be_completed(s3c: Any, bucket: str) -> None:
    upload = Upload(s3c, bucket)
    upload.put(1, b"small")
    upload.put(2, PARTS[0])
    complete = {**upload.place, "UploadId": upload.id}
    with_parts = {number: {"MultipartUpload": {"Parts": [part]}} for number, part in upload.parts.items()}
    assert refusal(upload.complete) == (400, "EntityTooSmall")
    wrong = {"MultipartUpload": {"Parts": [{"PartNumber": 2, "ETag": '"0"'}]}}
    assert refusal(s3c.complete_multipart_upload, **complete, **wrong) == (400, "InvalidPart")
    absent = {"MultipartUpload": {"Parts": [{**upload.parts[2], "PartNumber": 3}]}}
    assert refusal(s3c.complete_multipart_upload, **complete, **absent) == (400, "InvalidPart")
    disorder = {"MultipartUpload": {"Parts": [upload.parts[2], upload.parts[1]]}}
    assert refusal(s3c.complete_multipart_upload, **complete, **disorder) == (400, "InvalidPartOrder")
    assert refusal(s3c.complete_multipart_upload, **complete) == (400, "MalformedXML")
    other = {**complete, "UploadId": "none"}
    assert refusal(s3c.complete_multipart_upload, **other, **with_parts[2]) == (404, "NoSuchUpload")
    assert refusal(s3c.upload_part, **other, PartNumber=1, Body=b"") == (404, "NoSuchUpload")
    assert refusal(s3c.upload_part, **complete, PartNumber=10_001, Body=b"") == (400, "InvalidArgument")
    s3c.put_object(**upload.place, Body=b"there")
    none = refusal(s3c.complete_multipart_upload, **complete, **with_parts[2], IfNoneMatch="*")
    assert none == (412, "PreconditionFailed")
    assert s3c.get_object(**upload.place)["Body"].read() == b"there"
    s3c.complete_multipart_upload(**complete, **with_parts[2])
    assert s3c.get_object(**upload.place)["Body"].read() == PARTS[0]


def test_aborting_leaves_nothing(s3c: Any, bucket: str, s3: S3) -> None:
    upload, other = Upload(s3c, bucket), Upload(s3c, bucket, "a/b")
    upload.put(1, PARTS[0])
    upload.put(1, PARTS[1])
    listed = s3c.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert [(found["Key"], found["UploadId"]) for found in listed] == [("a/b", other.id), ("k", upload.id)]
    grouped = s3c.list_multipart_uploads(Bucket=bucket, Delimiter="/")
    assert [found["Prefix"] for found in grouped["CommonPrefixes"]] == ["a/"]
    assert len(s3c.list_multipart_uploads(Bucket=bucket, MaxUploads=1)["Uploads"]) == 1
    for one in (upload, other):
        s3c.abort_multipart_upload(**one.place, UploadId=one.id)
    assert s3.store.files.staged_ids() == []
    assert "Uploads" not in s3c.list_multipart_uploads(Bucket=bucket)
    assert refusal(s3c.abort_multipart_upload, **upload.place, UploadId=upload.id) == (404, "NoSuchUpload")


def test_parts_copied_from_objects(s3c: Any, bucket: str) -> None:
    s3c.put_object(Bucket=bucket, Key="source", Body=DATA)
    upload = Upload(s3c, bucket)
    source = {"CopySource": {"Bucket": bucket, "Key": "source"}, "UploadId": upload.id}
    ranges = [f"bytes={5 * MIB}-{10 * MIB - 1}", None]
    for number, span in enumerate(ranges, 1):
        how = {"CopySourceRange": span} if span else {}
        copied = s3c.upload_part_copy(**upload.place, **source, PartNumber=number, **how)["CopyPartResult"]
        upload.parts[number] = {"PartNumber": number, "ETag": copied["ETag"]}
    beyond = {"CopySourceRange": f"bytes=0-{len(DATA)}"}
    assert refusal(s3c.upload_part_copy, **upload.place, **source, PartNumber=3, **beyond) == (400, "InvalidArgument")
    upload.complete()
    assert s3c.get_object(**upload.place)["Body"].read() == PARTS[1] + DATA


def test_checksums_of_the_whole(s3c: Any, bucket: str) -> None:
    for algorithm, kind in (("SHA256", "COMPOSITE"), ("CRC32C", "COMPOSITE"), ("CRC32", "FULL_OBJECT")):
        upload = Upload(s3c, bucket, ChecksumAlgorithm=algorithm, ChecksumType=kind)
        for number, data in enumerate(PARTS, 1):
            upload.put(number, data, ChecksumAlgorithm=algorithm)
        done = upload.complete(ChecksumType=kind)
        head = s3c.head_object(**upload.place, ChecksumMode="ENABLED")
        assert (head["ChecksumType"], head[f"Checksum{algorithm}"]) == (kind, done[f"Checksum{algorithm}"])
    whole = base64.b64encode(zlib.crc32(DATA).to_bytes(4, "big")).decode()
    assert head["ChecksumCRC32"] == whole
    upload = Upload(s3c, bucket, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    upload.put(1, DATA, ChecksumAlgorithm="CRC32")
    assert refusal(upload.complete, ChecksumType="FULL_OBJECT", ChecksumCRC32="AAAAAA==") == (400, "BadDigest")
    assert upload.complete(ChecksumType="FULL_OBJECT", ChecksumCRC32=whole)["ChecksumCRC32"] == whole


def test_parts_are_remembered(s3c: Any, bucket: str) -> None:
    upload = Upload(s3c, bucket, Metadata={"a": "b"}, ContentType="text/x", Tagging="t=1")
    for number, data in enumerate(PARTS, 1):
        upload.put(number, data)
    upload.complete()
    second = s3c.get_object(**upload.place, PartNumber=2)
    assert (second["Body"].read(), second["PartsCount"]) == (PARTS[1], 4)
    assert refusal(s3c.get_object, **upload.place, PartNumber=5) == (416, "InvalidPartNumber")
    attributes = s3c.get_object_attributes(**upload.place, ObjectAttributes=["ObjectParts"], MaxParts=1)
    assert attributes["ObjectParts"]["TotalPartsCount"] == 4
    head = s3c.head_object(**upload.place)
    assert (head["Metadata"], head["ContentType"]) == ({"a": "b"}, "text/x")


def test_the_transfer_managers_way(s3c: Any, bucket: str) -> None:
    config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=8)
    s3c.upload_fileobj(io.BytesIO(DATA), bucket, "big", Config=config)
    out = io.BytesIO()
    s3c.download_fileobj(bucket, "big", out, Config=config)
    assert out.getvalue() == DATA
    s3c.copy({"Bucket": bucket, "Key": "big"}, bucket, "copy", Config=config)
    assert s3c.head_object(Bucket=bucket, Key="copy")["ContentLength"] == len(DATA)


def test_a_client_without_checksums(client: Any, bucket: str) -> None:
    """As boto3 before 1.36 does: it sends no checksum except the signature's."""
    old = client("s3", request_checksum_calculation="when_required", response_checksum_validation="when_required")
    upload = Upload(old, bucket)
    upload.put(1, DATA)
    upload.complete()
    assert old.get_object(**upload.place)["Body"].read() == DATA


def test_a_completion_may_be_repeated(s3c: Any, bucket: str, s3: S3) -> None:
    """A client that lost the answer gets it again, also when somebody wrote the key anew since; others get none."""
    upload = Upload(s3c, bucket, ChecksumAlgorithm="CRC32")
    upload.put(1, b"whole", ChecksumAlgorithm="CRC32")
    first = upload.complete()
    assert "ChecksumCRC32" in first
    for _ in range(2):
        assert {**upload.complete(), "ResponseMetadata": None} == {**first, "ResponseMetadata": None}
    assert s3c.get_object(**upload.place)["Body"].read() == b"whole"
    s3c.put_object(**upload.place, Body=b"newer")
    assert upload.complete()["ETag"] == first["ETag"]
    assert s3c.get_object(**upload.place)["Body"].read() == b"newer"
    other = {"Parts": [{"PartNumber": 2, "ETag": upload.parts[1]["ETag"]}]}
    for call, arguments in (
        (s3c.complete_multipart_upload, {"MultipartUpload": other}),
        (s3c.abort_multipart_upload, {}),
        (s3c.list_parts, {}),
        (s3c.upload_part, {"PartNumber": 1, "Body": b"late"}),
    ):
        assert refusal(call, **upload.place, UploadId=upload.id, **arguments)[:2] == (404, "NoSuchUpload")
    assert s3.store.files.staged_ids() == []
    s3c.delete_object(**upload.place)
    s3c.delete_bucket(Bucket=bucket)
    s3c.create_bucket(Bucket=bucket)
    assert refusal(upload.complete)[:2] == (404, "NoSuchUpload")


def test_one_end_wins_and_what_was_acknowledged_can_be_read(s3c: Any, bucket: str, s3: S3) -> None:
    """Completions and an abort at once. One 200 and its object, or one 204 and none; losers get NoSuchUpload."""

    def status(call: Callable[[], Any]) -> int:
        try:
            return int(call()["ResponseMetadata"]["HTTPStatusCode"])
        except ClientError as error:
            return 404 if error.response["Error"]["Code"] == "NoSuchUpload" else 500

    completed = 0
    with ThreadPoolExecutor(3) as pool:
        for number in range(40):
            upload = Upload(s3c, bucket, f"k{number}")
            upload.put(1, b"acknowledged")
            abort = partial(s3c.abort_multipart_upload, **upload.place, UploadId=upload.id)
            ends = list(pool.map(status, [upload.complete, abort, upload.complete]))
            assert ends in ([200, 404, 200], [404, 204, 404]), ends
            if ends[0] == 200:
                completed += 1
                assert s3c.get_object(**upload.place)["Body"].read() == b"acknowledged"
    assert len(s3c.list_objects_v2(Bucket=bucket).get("Contents", [])) == completed
    assert s3.store.files.staged_ids() == []


def test_an_aborted_upload_is_over(s3c: Any, bucket: str) -> None:
    upload = Upload(s3c, bucket)
    upload.put(1, b"whole")
    s3c.abort_multipart_upload(**upload.place, UploadId=upload.id)
    assert refusal(upload.complete)[:2] == (404, "NoSuchUpload")
    assert refusal(s3c.abort_multipart_upload, **upload.place, UploadId=upload.id)[:2] == (404, "NoSuchUpload")
    assert refusal(s3c.get_object, **upload.place)[:2] == (404, "NoSuchKey")
