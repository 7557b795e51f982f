import io
from typing import Any

import pytest

from sagelet_api.protocol.aws_errors import IncompleteBody, RequestEntityTooLarge, SerializationException
from sagelet_api.protocol.calls import HEADERS, Call, Protocol, parse_call, parse_json, read_body, rewind
from sagelet_api.protocol.operation_names import name_operation

V4 = "AWS4-HMAC-SHA256 Credential={}, SignedHeaders=host;x-amz-date, Signature=00"


def environ(**extra: Any) -> dict[str, Any]:
    names = {name: name.removeprefix("HTTP_").replace("_", "-").lower() for name in extra}
    headers = {names[key]: value for key, value in extra.items() if key.startswith(("HTTP_", "CONTENT_"))}
    return {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "QUERY_STRING": "", HEADERS: headers, **extra}


def named(call: Call, request: dict[str, Any] | None = None) -> Call:
    return name_operation(call, request or environ(), {}, lambda _models, _environ: None)


def test_scope_names_service_region_and_default_account() -> None:
    auth = V4.format("AKIDEXAMPLE/20261121/eu-west-1/sagemaker/aws4_request")
    call = parse_call(environ(HTTP_AUTHORIZATION=auth, HTTP_X_AMZ_TARGET="SageMaker.CreateTrainingJob"))
    assert (call.service, call.region, call.account) == ("sagemaker", "eu-west-1", "123456789012")
    assert (named(call).operation, call.protocol) == ("CreateTrainingJob", Protocol.JSON)


def test_twelve_digit_key_is_the_account() -> None:
    auth = V4.format("000011112222/20261121/us-east-1/logs/aws4_request")
    call = parse_call(environ(HTTP_AUTHORIZATION=auth, HTTP_X_AMZ_TARGET="Logs_20140328.GetLogEvents"))
    assert call.account == "000011112222"


def test_access_key_may_hold_slashes() -> None:
    call = parse_call(environ(HTTP_AUTHORIZATION=V4.format("a/b/20261121/us-west-2/s3/aws4_request")))
    assert call.credential is not None
    assert (call.credential.access_key, call.region) == ("a/b", "us-west-2")


def test_sigv4a_scope_has_no_region() -> None:
    auth = "AWS4-ECDSA-P256-SHA256 Credential=AKID/20261121/s3/aws4_request, SignedHeaders=host, Signature=0"
    call = parse_call(environ(HTTP_AUTHORIZATION=auth))
    assert (call.service, call.region) == ("s3", "us-east-1")


def test_presigned_v4() -> None:
    scope = "AKID%2F20261121%2Fus-east-2%2Fs3%2Faws4_request"
    query = f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={scope}&X-Amz-Signature=0"
    call = parse_call(environ(REQUEST_METHOD="GET", PATH_INFO="/b/k", QUERY_STRING=query))
    assert (call.service, call.region, call.protocol) == ("s3", "us-east-2", Protocol.S3)


@pytest.mark.parametrize(
    "extra", [{"QUERY_STRING": "AWSAccessKeyId=AK&Signature=x&Expires=1"}, {"HTTP_AUTHORIZATION": "AWS AK:c2ln"}]
)
def test_s3_signature_v2(extra: dict[str, str]) -> None:
    call = parse_call(environ(PATH_INFO="/b/k", **extra))
    assert call.credential is not None
    assert (call.credential.access_key, call.service) == ("AK", "s3")


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Basic dXNlcjpwYXNz",
        "Bearer token",
        "AWS4-HMAC-SHA256 Credential=AKID, Signature=0",
        V4.format("AKID/20261121/us-east-1/sagemaker/aws5_request"),
        V4.format("/20261121/us-east-1/sagemaker/aws4_request"),
        V4.format("AKID/20261121/../../sagemaker/aws4_request"),
        V4.format("AKID/20261121/us east/sagemaker/aws4_request"),
    ],
)
def test_no_credential_in_other_authorizations(authorization: str) -> None:
    call = parse_call(environ(HTTP_AUTHORIZATION=authorization))
    assert call.credential is None
    assert call.service == ""


def test_query_and_cbor_protocols() -> None:
    iam = V4.format("AKID/20261121/us-east-1/iam/aws4_request")
    query = environ(HTTP_AUTHORIZATION=iam, QUERY_STRING="Action=ListRoles")
    assert named(parse_call(query), query).operation == "ListRoles"
    form = parse_call(environ(HTTP_AUTHORIZATION=iam, CONTENT_TYPE="application/x-www-form-urlencoded; charset=utf-8"))
    assert form.protocol is Protocol.QUERY
    path = "/service/GraniteServiceVersion20100801/operation/PutMetricData"
    monitoring = V4.format("AKID/20261121/us-east-1/monitoring/aws4_request")
    cbor = parse_call(environ(HTTP_AUTHORIZATION=monitoring, PATH_INFO=path, HTTP_SMITHY_PROTOCOL="rpc-v2-cbor"))
    assert (named(cbor).operation, cbor.protocol) == ("PutMetricData", Protocol.CBOR)


def test_body_within_and_above_the_limit() -> None:
    assert read_body(environ(CONTENT_LENGTH="3", **{"wsgi.input": io.BytesIO(b"abcdef")}), 3) == b"abc"
    with pytest.raises(RequestEntityTooLarge, match="3 bytes"):
        read_body(environ(CONTENT_LENGTH="4", **{"wsgi.input": io.BytesIO(b"abcd")}), 3)
    chunked = environ(**{"wsgi.input": io.BytesIO(b"abcd"), "wsgi.input_terminated": True})
    with pytest.raises(RequestEntityTooLarge):
        read_body(chunked, 3)
    assert read_body(environ(), 3) == b""


def test_rewound_body_reads_again() -> None:
    request = environ(CONTENT_LENGTH="3", **{"wsgi.input": io.BytesIO(b"abc")})
    rewind(request, read_body(request, 10))
    assert read_body(request, 10) == b"abc"


def test_stalled_body() -> None:
    class Stalled(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise TimeoutError("timed out")

    with pytest.raises(IncompleteBody, match="timed out"):
        read_body(environ(CONTENT_LENGTH="3", **{"wsgi.input": Stalled()}), 10)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'"x"',
        b"nil",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b"\xff\xfe",
        b'{"a": "\\ud800"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_what_is_no_structure_of_json(body: bytes) -> None:
    with pytest.raises(SerializationException):
        parse_json(body)


def test_json() -> None:
    assert parse_json(b"") == {}
    assert parse_json('{"a": "é", "b": [1, 2.5, null, true]}'.encode()) == {"a": "é", "b": [1, 2.5, None, True]}
