"""Headers that two readers could read differently: a header sent twice, and a Host that only looks like sagelet's."""

import socket
from collections.abc import Iterator

import pytest

from support.server import SageletProcess

SIGNATURE = "AWS4-HMAC-SHA256 Credential=any/20991231/us-east-1/sagemaker/aws4_request, SignedHeaders=host, Signature=0"
SIGNED = (f"Authorization: {SIGNATURE}", "X-Amz-Target: SageMaker.ListTrainingJobs")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SageletProcess]:
    process = SageletProcess(tmp_path_factory.mktemp("door") / "data", "--runtime", "process").start()
    yield process
    process.stop()


def asked(server: SageletProcess, *headers: str, host: str | None = None, path: str = "/") -> tuple[int, str]:
    """Status and text of a POST with these headers as they stand. `{port}` in them is the server's."""
    port = int(server.endpoint.rpartition(":")[2])
    lines = [f"Host: {host or 'localhost:{port}'}", *headers, "Content-Length: 2", "Connection: close"]
    head = "\r\n".join([f"POST {path} HTTP/1.1", *lines, "", "{}"]).replace("{port}", str(port))
    with socket.create_connection(("127.0.0.1", port), timeout=120) as raw:
        raw.sendall(head.encode("latin-1"))
        received = b"".join(iter(lambda: raw.recv(65536), b""))
    head, _, body = received.decode("latin-1").partition("\r\n\r\n")
    return int(head.split()[1]), body


def test_one_of_each_comes_in(server: SageletProcess) -> None:
    own = ("Origin: http://localhost:{port}", "Sec-Fetch-Site: same-origin")
    assert asked(server, *SIGNED, *own)[0] == 200


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Origin: http://evil.test", "Origin: http://localhost:{port}"),
        ("Origin: http://localhost:{port}", "Origin: http://evil.test"),
        ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: none"),
        ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Mode: cors"),
        ("Sec-Fetch-Dest: document", "Sec-Fetch-Dest: empty"),
        ("Host: evil.test", "Host: localhost:{port}"),
        ("Authorization: Basic eA==", f"Authorization: {SIGNATURE}"),
        ("X-Amz-Target: SageMaker.StopTrainingJob", "x-amz-target: SageMaker.ListTrainingJobs"),
        ("X-Amz-Security-Token: a", "X-Amz-Security-Token: b"),
        ("X-Amz-Date: 20260101T000000Z", "X-Amz-Date: 20991231T000000Z"),
        ("X-Amz-Content-Sha256: a", "X-Amz-Content-Sha256: b"),
        ("X-Amz-Copy-Source: a/b", "X-Amz-Copy-Source: c/d"),
        ("Smithy-Protocol: rpc-v2-cbor", "Smithy-Protocol: none"),
        ("Content-Type: application/json", "Content-Type: application/x-www-form-urlencoded"),
        ("Content-MD5: a", "Content-MD5: b"),
        ("Content-Length: 2", "Content-Length: 2"),
        ("Expect: 100-continue", "Expect: 100-continue"),
        ("Range: bytes=0-1", "Range: bytes=2-3"),
        ("Cookie: a=1", "Cookie: b=2"),
        ("X-Anything-New: 1", "X-Anything-New: 2"),
    ],
)
def test_two_of_a_kind_are_refused(server: SageletProcess, first: str, second: str) -> None:
    names = {line.partition(":")[0].lower() for line in (first, second)}
    others = [line for line in SIGNED if line.partition(":")[0].lower() not in names]
    status, text = asked(server, *others, first, second)
    assert status == 400, text
    assert "occurs twice" in text


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SageletProcess]:
    process = SageletProcess(tmp_path_factory.mktemp("guest") / "data", "--runtime", "process")
    process.environment["SAGELET_ALLOW_HOST"] = "sagelet,ci.example"
    yield process.start()
    process.stop()


@pytest.mark.parametrize("host", ["sagelet:{port}", "SAGELET", "ci.example:1", "bucket.sagelet:{port}", "localhost"])
def test_allowed_hosts_come_in(guest: SageletProcess, host: str) -> None:
    assert asked(guest, *SIGNED, host=host)[0] == 200


@pytest.mark.parametrize("host", ["sagelet.evil.test", "evilsagelet", "example", "x.example", "sagelet@evil.test"])
def test_what_only_looks_like_an_allowed_host_is_refused(guest: SageletProcess, host: str) -> None:
    status, text = asked(guest, *SIGNED, host=host)
    assert status == 403, text


def test_the_origin_of_another_site_stays_refused_under_an_allowed_host(guest: SageletProcess) -> None:
    assert asked(guest, *SIGNED, "Origin: http://evil.test", host="sagelet:{port}")[0] == 403


def test_metadata_of_one_name_is_joined_as_s3_does(server: SageletProcess) -> None:
    server.client("s3").create_bucket(Bucket="twice")
    port = int(server.endpoint.rpartition(":")[2])
    scope = SIGNATURE.replace("sagemaker", "s3")
    lines = ("Host: localhost", f"Authorization: {scope}", "X-Amz-Meta-A: 1", "x-amz-meta-a: 2", "Content-Length: 0")
    with socket.create_connection(("127.0.0.1", port), timeout=120) as raw:
        raw.sendall("\r\n".join(["PUT /twice/key HTTP/1.1", *lines, "Connection: close", "", ""]).encode())
        assert b" 200 " in b"".join(iter(lambda: raw.recv(65536), b""))[:16]
    assert server.client("s3").head_object(Bucket="twice", Key="key")["Metadata"] == {"a": "1,2"}


def test_lists_may_come_in_several(server: SageletProcess) -> None:
    assert asked(server, *SIGNED, "Accept: text/plain", "Accept: */*", "Via: 1.1 a", "Via: 1.1 b")[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "[::1].evil.test", "[::1].evil.test:{port}", "[::1]evil.test", "[::1", "::1", "a@localhost", "a:b@localhost",
        "localhost:80.evil.test", "localhost:evil", "localhost/evil.test", "localhost#evil.test", "localhost?evil.test",
        "localhost\\evil.test", "localhost evil.test", "localhost,evil.test", "localhost:1:2", "127.0.0.1.evil.test",
        "localhost..", ".localhost", "a..localhost", "[127.0.0.1]", "[::1%25evil]", "[::ffff:127.0.0.1]x",
    ],
)  # fmt: skip
def test_a_host_that_only_looks_like_ours_is_refused(server: SageletProcess, host: str) -> None:
    for path, more in (("/", SIGNED), ("/_sagelet/health", ()), ("/_sagelet/ui/", ())):
        status, text = asked(server, *more, host=host, path=path)
        assert status == 403, text
        assert "is not a name of this sagelet server" in text


@pytest.mark.parametrize(
    "origin",
    [
     "http://a@localhost:{port}", "http://localhost:{port}/", "http://localhost:{port}.evil.test", "ftp://localhost:{port}",
     "//localhost:{port}", "http:///localhost:{port}", "http://[::1].evil.test", "", "null",
     "http://evil.test http://localhost:{port}"],
)  # fmt: skip
def test_an_origin_is_the_hosts_to_the_letter(server: SageletProcess, origin: str) -> None:
    status, text = asked(server, *SIGNED, f"Origin: {origin}")
    assert status == 403, text
    assert "other origins" in text
