"""S3: a request runs one operation, and it is the one that was signed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
import urllib3
from botocore.auth import HmacV1Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import REGION, ApiWorld


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge, auth=True) as running:
        s3 = client(running)
        s3.create_bucket(Bucket="mine")
        s3.put_object(Bucket="mine", Key="secret", Body=b"secret")
        s3.put_object(Bucket="mine", Key="shared", Body=b"shared")
        yield running


@pytest.fixture(scope="module")
def bridge() -> MotoBridge:
    return MotoBridge()


def client(world: ApiWorld, **config: Any) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{world.port}",
        region_name=REGION,
        aws_access_key_id=world.engine.keys.access_key,
        aws_secret_access_key=world.engine.keys.secret,
        config=Config(retries={"total_max_attempts": 1}, **config),
    )


def signed(world: ApiWorld, method: str, path: str, added: str = "", body: bytes = b"") -> urllib3.BaseHTTPResponse:
    """A request in version 2, in a header, and what somebody on the way adds to its query."""
    url = f"http://127.0.0.1:{world.port}{path}"
    made = AWSRequest(method, url, {"Host": f"127.0.0.1:{world.port}"}, body)
    HmacV1Auth(Credentials(world.engine.keys.access_key, world.engine.keys.secret)).add_auth(made)
    more = f"{'&' if urlsplit(url).query else '?'}{added}" if added else ""
    return urllib3.request(method, url + more, headers=dict(made.headers.items()), body=body)


@pytest.mark.parametrize("name", ["x-amz-copy-source", "X-Amz-Copy-Source"])
def test_version_2_copies_only_what_was_signed(world: ApiWorld, name: str) -> None:
    assert signed(world, "PUT", "/mine/new", body=b"new").status == 200
    added = f"{name}=%2Fmine%2Fsecret"
    signed(world, "PUT", "/mine/new", added, b"new")
    assert client(world).get_object(Bucket="mine", Key="new")["Body"].read() == b"new"


@pytest.mark.parametrize("header", ["x-amz-meta-by", "x-amz-acl", "x-amz-tagging", "x-amz-website-redirect-location"])
def test_version_2_keeps_only_the_headers_that_were_signed(world: ApiWorld, header: str) -> None:
    signed(world, "PUT", "/mine/new", f"{header}=eve%3Dx", b"new")
    found = client(world).head_object(Bucket="mine", Key="new")
    assert found["Metadata"] == {}
    assert "WebsiteRedirectLocation" not in found
    assert client(world).get_object_tagging(Bucket="mine", Key="new")["TagSet"] == []


@pytest.mark.parametrize(
    ("method", "path", "added"),
    [
        ("GET", "/mine", "encryption"),
        ("GET", "/mine", "publicAccessBlock"),
        ("PUT", "/mine", "ownershipControls"),
        ("DELETE", "/mine", "encryption"),
        ("GET", "/mine/secret", "attributes"),
        ("PUT", "/mine/secret", "legal-hold"),
        ("PUT", "/mine/secret", "retention"),
    ],
)
def test_version_2_runs_only_the_operation_that_was_signed(world: ApiWorld, method: str, path: str, added: str) -> None:
    answer = signed(world, method, path, added)
    assert (answer.status, b"not signed" in answer.data) == (403, True), answer.data


def test_version_2_still_does_what_its_clients_do(world: ApiWorld) -> None:
    old = client(world, signature_version="s3")
    assert signed(world, "GET", "/mine?list-type=2").status == 200
    old.copy_object(Bucket="mine", Key="copy", CopySource="mine/shared")
    url = old.generate_presigned_url(
        "copy_object", Params={"Bucket": "mine", "Key": "copy-2", "CopySource": "mine/shared"}
    )
    source = {"x-amz-copy-source": "mine/secret"}
    assert urllib3.request("PUT", url, headers=source).status == 403
    assert b"NoSuchBucketPolicy" in signed(world, "GET", "/mine?policy").data


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/mine?acl&policy"),
        ("GET", "/mine?policy&tagging"),
        ("PUT", "/mine?acl&policy"),
        ("DELETE", "/mine?policy&tagging"),
        ("GET", "/mine/secret?acl&tagging"),
        ("PUT", "/mine/secret?tagging&acl"),
        ("PUT", "/mine/secret?partNumber=1&uploadId=x&acl"),
        ("POST", "/mine/secret?uploads&uploadId=x"),
    ],
)
def test_two_subresources_are_two_operations(world: ApiWorld, method: str, path: str) -> None:
    """An owner's request, too."""
    answer = signed(world, method, path)
    assert (answer.status, b"Conflicting query string parameters" in answer.data) == (400, True), answer.data


def test_an_operation_that_moto_lacks_is_no_other(world: ApiWorld) -> None:
    """It would list, make or delete the bucket."""
    s3 = client(world)
    for call, parameters in (
        (s3.get_bucket_metrics_configuration, {"Id": "x"}),
        (s3.list_bucket_analytics_configurations, {}),
        (s3.delete_bucket_metrics_configuration, {"Id": "x"}),
        (s3.put_bucket_request_payment, {"RequestPaymentConfiguration": {"Payer": "Requester"}}),
    ):
        with pytest.raises(s3.exceptions.ClientError, match="NotImplemented"):
            call(Bucket="mine", **parameters)
    assert s3.head_bucket(Bucket="mine")
