"""S3: what a presigned URL says of a body does not bind, but cannot be changed. Conditions hold in a race."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import urllib3
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import REGION, ApiWorld

#: As @aws-sdk/s3-request-presigner has them in the query of a PutObject.
JAVASCRIPT = "x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32&x-id=PutObject"


@pytest.fixture(scope="module")
def bridge() -> MotoBridge:
    return MotoBridge()


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge, auth=True) as running:
        client(running).create_bucket(Bucket="mine")
        yield running


def client(world: ApiWorld) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{world.port}",
        region_name=REGION,
        aws_access_key_id=world.engine.keys.access_key,
        aws_secret_access_key=world.engine.keys.secret,
        config=Config(retries={"total_max_attempts": 1}),
    )


def presigned(world: ApiWorld, query: str) -> str:
    made = AWSRequest("PUT", f"http://127.0.0.1:{world.port}/mine/k?{query}")
    keys = Credentials(world.engine.keys.access_key, world.engine.keys.secret)
    S3SigV4QueryAuth(keys, "s3", REGION, expires=60).add_auth(made)
    return str(made.url)


def put(url: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    answer = urllib3.request("PUT", url, body=body, headers=headers)
    return answer.status, answer.data


def test_a_javascript_presigners_url_takes_any_body(world: ApiWorld) -> None:
    assert put(presigned(world, JAVASCRIPT), b"bytes")[0] == 200
    assert client(world).get_object(Bucket="mine", Key="k")["Body"].read() == b"bytes"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("AAAAAA%3D%3D", "AAAAAQ%3D%3D"),
        ("x-amz-sdk-checksum-algorithm=CRC32", "x-amz-sdk-checksum-algorithm=SHA1"),
        ("x-amz-checksum-crc32=AAAAAA%3D%3D&", ""),
        ("/mine/k", "/mine/other"),
    ],
)
def test_it_cannot_be_changed(world: ApiWorld, before: str, after: str) -> None:
    url = presigned(world, JAVASCRIPT)
    assert before in url
    status, body = put(url.replace(before, after), b"bytes")
    assert (status, b"SignatureDoesNotMatch" in body) == (403, True), body
    assert client(world).list_objects_v2(Bucket="mine")["KeyCount"] == 0


def test_an_object_that_changes_meanwhile_is_not_deleted(world: ApiWorld) -> None:
    """The condition is checked under exclusion. Each rival's object survives, or is the one that was named."""
    s3 = client(world)
    first = s3.put_object(Bucket="mine", Key="k", Body=b"first")["ETag"]
    deleted: list[bool] = []

    def delete() -> None:
        answer = client(world).delete_objects(Bucket="mine", Delete={"Objects": [{"Key": "k", "ETag": first}]})
        deleted.append("Deleted" in answer)

    rivals = [threading.Thread(target=delete) for _ in range(4)]
    writer = threading.Thread(target=lambda: client(world).put_object(Bucket="mine", Key="k", Body=b"second"))
    for thread in (*rivals, writer):
        thread.start()
    for thread in (*rivals, writer):
        thread.join(120)
    assert len(deleted) == 4
    assert sum(deleted) <= 1
    assert s3.get_object(Bucket="mine", Key="k")["Body"].read() == b"second"
