"""S3 as bytes on the wire: chunked bodies and trailers, presigned URLs, virtual hosts, what SDKs hide."""

import hashlib
import socket
import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from support.front import Front

SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=k/20261121/us-east-1/s3/aws4_request, Signature=0"}
STREAMING = {
    **SIGNED,
    "Content-Encoding": "aws-chunked",
    "X-Amz-Trailer": "x-amz-checksum-crc32",
    "X-Amz-Content-SHA256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
}
Ask = Callable[..., tuple[int, bytes, Any]]


@pytest.fixture
def ask(server: Front) -> Ask:
    def ask(method: str, path: str, data: Any = None, headers: dict[str, str] = SIGNED) -> tuple[int, bytes, Any]:
        request = Request(f"{server.endpoint}{path}", data=data, headers=headers, method=method)
        try:
            with urlopen(request, timeout=120) as response:
                return response.status, response.read(), response.headers
        except HTTPError as error:
            return error.code, error.read(), error.headers

    return ask


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize(("crc32", "status"), [("NhCmhg==", 200), ("AAAAAA==", 400)])
def test_trailing_checksums(ask: Ask, s3c: Any, bucket: str, framing: str, crc32: str, status: int) -> None:
    payload = f"2\r\nhe\r\n3;chunk-signature=0\r\nllo\r\n0\r\nx-amz-checksum-crc32:{crc32}\r\n\r\n".encode()
    headers = {**STREAMING, "X-Amz-Decoded-Content-Length": "5"}
    if framing == "chunked":
        headers["Transfer-Encoding"] = "chunked"
    got = ask("PUT", f"/{bucket}/k", payload if framing == "length" else iter([payload[:9], payload[9:]]), headers)
    assert got[0] == status
    if status == 200:
        answer = s3c.get_object(Bucket=bucket, Key="k")
        assert answer["Body"].read() == b"hello"
        assert "ContentEncoding" not in answer
    else:
        assert b"<Code>BadDigest</Code>" in got[1]
        assert s3c.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


@pytest.mark.parametrize(
    ("payload", "length", "code"),
    [
        (b"5\r\nhel", "5", b"IncompleteBody"),
        (b"zz\r\nhello\r\n0\r\n\r\n", "5", b"IncompleteBody"),
        (b"5\r\nhello world\r\n0\r\n\r\n", "5", b"IncompleteBody"),
        (b"5\r\nhello\r\n0\r\n\r\n", "6", b"IncompleteBody"),
        (b"5\r\nhello\r\n0\r\n\r\n", "4", b"IncompleteBody"),
        (b"5\r\nhello\r\n0\r\n\r\n", "5", b"MalformedTrailerError"),
    ],
)
def test_garbled_chunks_leave_no_object(
    ask: Ask, s3c: Any, bucket: str, payload: bytes, length: str, code: bytes
) -> None:
    status, body, _ = ask("PUT", f"/{bucket}/k", payload, {**STREAMING, "X-Amz-Decoded-Content-Length": length})
    assert (status, code in body) == (400, True), body
    assert s3c.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_the_hash_that_was_signed_is_checked(ask: Ask, bucket: str) -> None:
    right = {**SIGNED, "X-Amz-Content-SHA256": hashlib.sha256(b"x").hexdigest()}
    assert ask("PUT", f"/{bucket}/k", b"x", right)[0] == 200
    status, body, _ = ask("PUT", f"/{bucket}/k", b"y", right)
    assert (status, b"XAmzContentSHA256Mismatch" in body) == (400, True)


def test_a_connection_that_breaks_leaves_the_object_as_it_was(server: Front, s3c: Any, bucket: str) -> None:
    s3c.put_object(Bucket=bucket, Key="k", Body=b"before")
    head = f"PUT /{bucket}/k HTTP/1.1\r\nHost: localhost\r\nAuthorization: {SIGNED['Authorization']}\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(f"{head}Content-Length: 1000\r\n\r\n".encode() + b"half")
    assert s3c.get_object(Bucket=bucket, Key="k")["Body"].read() == b"before"


def test_expect_continue(server: Front, s3c: Any, bucket: str) -> None:
    head = f"PUT /{bucket}/k HTTP/1.1\r\nHost: localhost\r\nAuthorization: {SIGNED['Authorization']}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as connection:
        connection.sendall(f"{head}Content-Length: 2\r\nExpect: 100-continue\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"ok")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
    assert s3c.get_object(Bucket=bucket, Key="k")["Body"].read() == b"ok"


def test_a_body_needs_a_length(server: Front, bucket: str) -> None:
    head = f"PUT /{bucket}/k HTTP/1.1\r\nHost: localhost\r\nAuthorization: {SIGNED['Authorization']}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as connection:
        connection.sendall(head.encode())
        assert connection.recv(2000).startswith(b"HTTP/1.1 411 ")


def test_presigned_urls(ask: Ask, server: Front, s3c: Any, bucket: str) -> None:
    def presigned(operation: str, seconds: int = 60, **parameters: str) -> str:
        place = {"Bucket": bucket, "Key": "a b"}
        url: str = s3c.generate_presigned_url(operation, Params={**place, **parameters}, ExpiresIn=seconds)
        return url.removeprefix(server.endpoint)

    assert ask("PUT", presigned("put_object"), b"data", {})[0] == 200
    said = {"ResponseContentType": "text/x", "ResponseContentDisposition": "attachment", "ResponseCacheControl": "n"}
    status, body, headers = ask("GET", presigned("get_object", **said), None, {})
    assert (status, body) == (200, b"data")
    found = (headers["Content-Type"], headers["Content-Disposition"], headers["Cache-Control"])
    assert found == ("text/x", "attachment", "n")
    status, body, _ = ask("GET", presigned("get_object", seconds=-1), None, {})
    assert (status, b"Request has expired" in body) == (403, True)
    assert ask("GET", f"/{bucket}/a%20b", None, {})[0] == 403


#: Of @aws-sdk/s3-request-presigner 3.729 and newer, in the URL of a PutObject or UploadPart: it has no body yet.
JAVASCRIPT = "&x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32"


@pytest.mark.parametrize("body", [b"data", b""])
def test_a_checksum_in_a_presigned_query_is_not_heeded(ask: Ask, s3c: Any, bucket: str, body: bytes) -> None:
    presigned = (
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD"
        "&X-Amz-Credential=test%2F20260101%2Fus-east-1%2Fs3%2Faws4_request"
        f"&X-Amz-Date={datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}&X-Amz-Expires=900&X-Amz-Signature=0"
        f"&X-Amz-SignedHeaders=host{JAVASCRIPT}"
    )
    status, answer, _ = ask("PUT", f"/{bucket}/k?{presigned}&x-amz-meta-by=me&x-id=PutObject", body, {})
    assert status == 200, answer
    head = s3c.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert (head["ContentLength"], head["Metadata"]) == (len(body), {"by": "me"})
    assert ("ChecksumCRC64NVME" in head, "ChecksumCRC32" in head) == (True, False)
    upload = s3c.create_multipart_upload(Bucket=bucket, Key="u")["UploadId"]
    number = f"partNumber=1&uploadId={upload}&x-id=UploadPart"
    status, _, headers = ask("PUT", f"/{bucket}/u?{presigned}&{number}", body, {})
    assert status == 200
    parts = {"Parts": [{"PartNumber": 1, "ETag": headers["ETag"]}]}
    s3c.complete_multipart_upload(Bucket=bucket, Key="u", UploadId=upload, MultipartUpload=parts)
    assert s3c.get_object(Bucket=bucket, Key="u")["Body"].read() == body
    # A header is another thing.
    wrong = ask("PUT", f"/{bucket}/k?{presigned}", b"other", {"x-amz-checksum-crc32": "AAAAAA=="})
    assert (wrong[0], b"<Code>BadDigest</Code>" in wrong[1]) == (400, True)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_is_not_modified_says_what_a_cache_needs(ask: Ask, s3c: Any, bucket: str, method: str) -> None:
    expires = "Thu, 01 Jan 2032 00:00:00 GMT"
    s3c.put_object(Bucket=bucket, Key="k", Body=b"x", CacheControl="max-age=60", Expires=expires, Metadata={"a": "b"})
    _, _, whole = ask("HEAD", f"/{bucket}/k")
    for condition in ({"If-None-Match": whole["ETag"]}, {"If-Modified-Since": whole["Last-Modified"]}):
        status, body, headers = ask(method, f"/{bucket}/k", None, {**SIGNED, **condition})
        assert (status, body) == (304, b"")
        for name in ("ETag", "Last-Modified", "Cache-Control", "Expires"):
            assert headers[name] == whole[name]
        assert headers["Cache-Control"] == "max-age=60"
        assert headers["x-amz-request-id"]
        for name in ("Content-Type", "Content-Length", "x-amz-meta-a"):
            assert headers[name] is None


@pytest.mark.parametrize("suffix", ["localhost", "s3.localhost", "s3.us-east-1.localhost"])
@pytest.mark.parametrize("dotted", [False, True])
def test_virtual_hosts(ask: Ask, server: Front, s3c: Any, suffix: str, dotted: bool) -> None:
    bucket = f"{'a.b' if dotted else 'ab'}-{uuid.uuid4()}"
    s3c.create_bucket(Bucket=bucket)
    host = {**SIGNED, "Host": f"{bucket}.{suffix}:{server.port}"}
    assert ask("PUT", "/deep/k", b"x", host)[0] == 200
    assert ask("GET", "/deep/k", None, host)[1] == b"x"
    assert b"<Key>deep/k</Key>" in ask("GET", "/?list-type=2", None, host)[1]
    assert s3c.get_object(Bucket=bucket, Key="deep/k")["Body"].read() == b"x"
    service = {**SIGNED, "Host": f"s3.localhost:{server.port}"}
    assert ask("GET", f"/{bucket}/deep/k", None, service)[1] == b"x"


def test_errors_as_documents(ask: Ask, bucket: str) -> None:
    status, body, headers = ask("GET", f"/{bucket}/none")
    assert (status, headers["Content-Type"]) == (404, "application/xml")
    assert b"<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message><Key>none</Key>" in body
    assert ask("HEAD", f"/{bucket}/none")[:2] == (404, b"")
    assert ask("POST", f"/{bucket}/none", b"")[0] == 405
    assert b"MalformedXML" in ask("POST", f"/{bucket}?delete", b"<Delete><Object>")[1]
    assert b"MissingRequestBodyError" in ask("POST", f"/{bucket}?delete", b"")[1]
    assert b"InvalidArgument" in ask("GET", f"/{bucket}?max-keys=many")[1]
    assert b"InvalidURI" in ask("GET", f"/{bucket}/%ff")[1]
    bomb = b'<!DOCTYPE d [<!ENTITY a "' + b"a" * 1000 + b'"><!ENTITY b "' + b"&a;" * 1000 + b'">]><Delete>&b;</Delete>'
    assert ask("POST", f"/{bucket}?delete", bomb)[0] == 400


def test_a_listing_as_a_document(ask: Ask, s3c: Any, bucket: str) -> None:
    s3c.put_object(Bucket=bucket, Key="<k>&\r", Body=b"")
    body = ask("GET", f"/{bucket}?list-type=2&prefix=%3C")[1]
    assert b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">' in body
    assert b"<Key>&lt;k&gt;&amp;&#xD;</Key>" in body
    location = ask("GET", f"/{bucket}?location")[1]
    assert b'<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></LocationConstraint>' in location


def test_names_of_metadata_are_kept(ask: Ask, bucket: str) -> None:
    assert ask("PUT", f"/{bucket}/k", b"", {**SIGNED, "x-amz-meta-a_b": "1", "X-Amz-Meta-C-D": "2"})[0] == 200
    headers = ask("HEAD", f"/{bucket}/k")[2]
    assert {name: headers[name] for name in headers if "meta" in name} == {"x-amz-meta-a_b": "1", "x-amz-meta-c-d": "2"}


@pytest.mark.parametrize("style", ["path", "virtual"])
def test_a_client_that_does_not_sign_gets_s3s_error(server: Front, style: str) -> None:
    """As AWS answers a request for something that is not public."""
    config = Config(signature_version=UNSIGNED, s3={"addressing_style": style})
    s3 = boto3.client("s3", endpoint_url=server.endpoint, region_name="us-east-1", config=config)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get_object", {"Key": "k"}),
        ("put_object", {"Key": "k", "Body": b"data"}),
        ("delete_objects", {"Delete": {"Objects": [{"Key": "k"}]}}),
        ("list_objects_v2", {}),
        ("create_multipart_upload", {"Key": "k"}),
    ]
    for operation, more in calls:
        with pytest.raises(ClientError) as found:
            getattr(s3, operation)(Bucket="a-bucket", **more)
        error = found.value.response
        assert (error["Error"]["Code"], error["ResponseMetadata"]["HTTPStatusCode"]) == ("AccessDenied", 403)
        assert "sign the request" in error["Error"]["Message"]
    with pytest.raises(ClientError, match="AccessDenied"):
        s3.list_buckets()
    with pytest.raises(ClientError, match="403"):
        s3.head_object(Bucket="a-bucket", Key="k")
