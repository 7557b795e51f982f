"""A client puts line ends into what comes back as a header. Every answer must stay one answer.

The attacker makes a person follow a link, or is a job that stores an object for others to read.
"""

import http.client
import socket
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from sagelet_api.http.server import Server
from sagelet_api.protocol.calls import Environ, StartResponse
from sagelet_engine.base.clock import SystemClock
from sagelet_engine.s3.store import S3Store
from support.server import SageletProcess

SCOPE = "123456789012/20991231/us-east-1/s3/aws4_request"
#: Without `--auth` any signature is one.
SIGNED = {
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": SCOPE,
    "X-Amz-Date": "20991231T000000Z",
    "X-Amz-Expires": "60",
    "X-Amz-SignedHeaders": "host",
    "X-Amz-Signature": "0",
}
RESPONSE = (
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
)
#: What may never be part of a header's value.
BAD = ("\r\n", "\n", "\r", "\0", "\x0b", "\x1f", "\x7f")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SageletProcess]:
    process = SageletProcess(tmp_path_factory.mktemp("headers") / "data", "--runtime", "process").start()
    s3 = process.client("s3")
    s3.create_bucket(Bucket="attic")
    s3.put_object(Bucket="attic", Key="note", Body=b"harmless", ContentType="text/plain")
    yield process
    process.stop()


def asked(server: SageletProcess, method: str, path: str, **more: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and all bytes behind the head, up to the end of the connection."""
    port = int(server.endpoint.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=120) as raw:
        line = f"{method} {path}?{urlencode({**SIGNED, **more}, quote_via=quote)} HTTP/1.1"
        raw.sendall(f"{line}\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        received = b"".join(iter(lambda: raw.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, body


@pytest.mark.parametrize("name", RESPONSE)
@pytest.mark.parametrize("bad", BAD)
def test_parameters_of_the_answer_add_no_header_and_no_body(server: SageletProcess, name: str, bad: str) -> None:
    for method in ("GET", "HEAD"):
        status, headers, body = asked(
            server, method, "/attic/note", **{name: f"a{bad}X-Injected: 1{bad}{bad}<script>alert(1)</script>"}
        )
        assert status == 400
        assert "x-injected" not in headers
        assert int(headers["content-length"]) == len(body) or method == "HEAD"
    status, _, body = asked(server, "GET", "/attic/note", **{name: f"a{bad}b"})
    assert (status, b"<Code>InvalidArgument</Code>" in body) == (400, True)
    assert f"<ArgumentName>{name}</ArgumentName>".encode() in body


def test_a_character_that_no_header_has_is_refused_as_aws_does(server: SageletProcess) -> None:
    named = {"response-content-disposition": 'attachment; filename="\u5009.txt"'}
    status, _, body = asked(server, "GET", "/attic/note", **named)
    assert status == 400
    assert b"<Message>Header value cannot be represented using ISO-8859-1.</Message>" in body


def test_parameters_of_the_answer_work(server: SageletProcess) -> None:
    given = {name: "Thu, 01 Jan 2026 00:00:00 GMT" if "expires" in name else "a\u00e9/b; c" for name in RESPONSE}
    status, headers, body = asked(server, "GET", "/attic/note", **given)
    assert (status, body) == (200, b"harmless")
    for name, value in given.items():
        assert headers[name.removeprefix("response-")] == value.lower()


@pytest.mark.parametrize("bad", BAD)
def test_metadata_in_a_url_is_what_a_header_could_be(server: SageletProcess, bad: str) -> None:
    """A presigned URL may carry metadata; stored, it would strike every later reader."""
    for name, value in (
        ("x-amz-meta-a", f"b{bad}X-Injected: 1"),
        (f"x-amz-meta-a{bad}X-Injected", "1"),
        ("x-amz-meta-a: 1", "b"),
        ("x-amz-storage-class", f"STANDARD{bad}X-Injected: 1"),
        ("x-amz-website-redirect-location", f"/a{bad}X-Injected: 1"),
    ):
        status, headers, body = asked(server, "PUT", "/attic/new", **{name: value})
        assert (status, b"<Code>InvalidArgument</Code>" in body) == (400, True), name
        assert "x-injected" not in headers
    assert asked(server, "GET", "/attic/new")[0] == 404


def test_metadata_in_a_url_comes_back_as_from_a_header(server: SageletProcess) -> None:
    assert asked(server, "PUT", "/attic/euro", **{"x-amz-meta-price": "5 \u20ac"})[0] == 200
    port = int(server.endpoint.rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("PUT", f"/attic/same?{urlencode(SIGNED)}", headers={"x-amz-meta-price": "5 \u20ac".encode()})
    assert connection.getresponse().status == 200
    connection.close()
    shown = [asked(server, "HEAD", f"/attic/{key}")[1]["x-amz-meta-price"] for key in ("euro", "same")]
    assert shown == ["5 \u20ac".encode().decode("latin-1")] * 2


def test_what_a_catalogue_holds_is_read_without_it(tmp_path: Path) -> None:
    """Its metadata is counted in x-amz-missing-meta, as S3 counts what cannot be a header."""
    process = SageletProcess(tmp_path / "data", "--runtime", "process").start()
    s3 = process.client("s3")
    s3.create_bucket(Bucket="attic")
    s3.put_object(
        Bucket="attic", Key="old", Body=b"kept", ContentType="text/plain", Metadata={"good": "1", "bad": "2"},
        CacheControl="no-cache",
    )  # fmt: skip
    process.stop()
    _spoil(process.data, {"CacheControl": "a\r\nX-Injected: 1", "Metadata": {"good": "1", "bad": "2\r\nX-Injected: 1"}})
    process.start()
    try:
        for method in ("HEAD", "GET"):
            status, headers, _ = asked(process, method, "/attic/old")
            assert status == 200
            assert "x-injected" not in headers
            assert (headers["x-amz-meta-good"], headers["x-amz-missing-meta"]) == ("1", "1")
            assert {"x-amz-meta-bad", "cache-control"} & headers.keys() == set()
        found = process.client("s3").get_object(Bucket="attic", Key="old")
        assert (found["Body"].read(), found["ContentType"], found["MissingMeta"]) == (b"kept", "text/plain", 1)
        process.client("s3").copy_object(Bucket="attic", Key="copy", CopySource="attic/old")
        assert process.client("s3").head_object(Bucket="attic", Key="copy")["Metadata"] == {"good": "1"}
    finally:
        process.stop()


def _spoil(data: Path, attributes: dict[str, object]) -> None:
    """Attributes of the only object, as a version that did not look could have kept them."""
    store = S3Store(data / "s3", SystemClock())
    (stored,) = store.catalog.every_object()
    store.catalog.put(replace(stored, attributes={**stored.attributes, **attributes}))
    store.close()


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        ("200 OK", [("X-A", "a\r\nX-Injected: 1")]),
        ("200 OK", [("X-A", "a\nb")]),
        ("200 OK", [("X-A", "a\0b")]),
        ("200 OK", [("X-A", "\u20ac")]),
        ("200 OK", [("X-A\r\nX-Injected", "1")]),
        ("200 OK", [("X A", "1")]),
        ("200 OK", [("", "1")]),
        ("200 OK\r\nX-Injected: 1", []),
        ("OK", []),
    ],
)
def test_no_application_behind_the_server_writes_such_a_head(status: str, headers: list[tuple[str, str]]) -> None:
    def application(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response(status, [*headers, ("Content-Length", "4")])
        return [b"body"]

    with Server(application, "127.0.0.1", 0) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert answer.status == 500
        assert answer.getheader("X-Injected") is None
        assert b"body" not in answer.read()
        connection.close()
