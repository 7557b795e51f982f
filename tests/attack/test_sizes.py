"""Small requests that claim to be large: bodies that unfold, and numbers beyond any machine."""

import zlib
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
import urllib3

from support.server import ACCOUNT, SageletProcess

MIB = 1024**2
#: What the bodies of services that moto answers may have.
MOST = 32 * MIB
DIGITS = "9" * 5000
PUT_METRICS = "GraniteServiceVersion20100801.PutMetricData"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SageletProcess]:
    process = SageletProcess(tmp_path_factory.mktemp("server") / "data", "--runtime", "process").start()
    s3 = process.client("s3")
    s3.create_bucket(Bucket="tests")
    s3.put_object(Bucket="tests", Key="one", Body=b"bytes")
    yield process
    process.stop()


def send(server: SageletProcess, service: str, method: str, path: str, body: bytes = b"", **headers: str) -> Any:
    """`_` in a header's name stands for `-`."""
    scope = f"{ACCOUNT}/20260101/us-east-1/{service}/aws4_request"
    signed = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return urllib3.request(
        method, server.endpoint + path, body=body, headers={"Authorization": signed, **given}, retries=False
    )


def packed(*pieces: bytes) -> bytes:
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    return b"".join([*map(packer.compress, pieces), packer.flush()])


@pytest.mark.parametrize(
    ("service", "target"),
    [
        # What every job may do.
        ("monitoring", PUT_METRICS),
        ("sagemaker", "SageMaker.ListTrials"),
        ("ecr", "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"),
    ],
)
@pytest.mark.parametrize("encoding", ["gzip", "GZIP"])
def test_a_packed_body_is_unpacked_within_bounds(
    server: SageletProcess, service: str, target: str, encoding: str
) -> None:
    send(server, service, "POST", "/", b"{}", X_Amz_Target=target, Content_Type="application/x-amz-json-1.0")
    process = psutil.Process(server.pid)
    before = process.memory_info().rss
    bomb = packed(b'{"Namespace": "n", "more": "', *[b"a" * MIB] * 400, b'"}')
    assert len(bomb) < MIB
    answer = send(
        server, service, "POST", "/", bomb,
        X_Amz_Target=target, Content_Type="application/x-amz-json-1.0", Content_Encoding=encoding,
    )  # fmt: skip
    assert (answer.status, b"RequestEntityTooLarge" in answer.data) == (413, True)
    assert process.memory_info().rss - before < 4 * MOST


def test_a_packed_body_is_what_it_was(server: SageletProcess) -> None:
    """As botocore packs large metrics."""
    metric = b'{"Namespace": "packed", "MetricData": [{"MetricName": "m", "Value": 1}]}'
    answer = send(
        server, "monitoring", "POST", "/", packed(metric),
        X_Amz_Target=PUT_METRICS, Content_Type="application/x-amz-json-1.0", Content_Encoding="gzip",
    )  # fmt: skip
    assert answer.status == 200
    assert [one["MetricName"] for one in server.client("cloudwatch").list_metrics(Namespace="packed")["Metrics"]] == [
        "m"
    ]


def test_what_is_not_packed_as_it_says_is_refused(server: SageletProcess) -> None:
    answer = send(
        server, "monitoring", "POST", "/", b"{}",
        X_Amz_Target=PUT_METRICS, Content_Type="application/x-amz-json-1.0", Content_Encoding="gzip",
    )  # fmt: skip
    assert answer.status == 400


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        pytest.param("GET", "/tests/one", b"", {"Range": f"bytes=1-{DIGITS}"}, 206, id="the end of a range"),
        pytest.param("GET", "/tests/one", b"", {"Range": f"bytes=-{DIGITS}"}, 206, id="the length of a range"),
        pytest.param("GET", "/tests/one", b"", {"Range": f"bytes={DIGITS}-"}, 416, id="the beginning of a range"),
        pytest.param(
            "PUT", "/tests/two", b"0\r\n\r\n",
            {"Content_Encoding": "aws-chunked", "X_Amz_Decoded_Content_Length": DIGITS}, 400, id="a length",
        ),
        pytest.param(
            "POST", "/tests?delete",
            b"<Delete><Object><Key>a</Key><LastModifiedTime>Mon, 01 Jan 99999999999 00:00:00 GMT</LastModifiedTime>"
            b"</Object></Delete>",
            {}, 400, id="a year",
        ),
    ],
)  # fmt: skip
def test_a_number_that_is_too_large_is_no_fault_of_ours(
    server: SageletProcess, method: str, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert send(server, "s3", method, path, body, **headers).status == status


def test_a_range_beyond_all_bounds_is_the_rest(server: SageletProcess) -> None:
    assert send(server, "s3", "GET", "/tests/one", Range=f"bytes=1-{DIGITS}").data == b"ytes"
    assert send(server, "s3", "GET", "/tests/one", Range=f"bytes={'0' * 5000}1-2").data == b"yt"


def test_a_range_to_copy_beyond_all_bounds_is_refused(server: SageletProcess) -> None:
    upload = server.client("s3").create_multipart_upload(Bucket="tests", Key="three")["UploadId"]
    answer = send(
        server, "s3", "PUT", f"/tests/three?partNumber=1&uploadId={upload}",
        X_Amz_Copy_Source="/tests/one", X_Amz_Copy_Source_Range=f"bytes=0-{DIGITS}",
    )  # fmt: skip
    assert (answer.status, b"InvalidArgument" in answer.data) == (400, True)
