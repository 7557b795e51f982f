"""`sagelet up --tls`: a certificate of its own, renewed in time, that strict clients take."""

import http.client
import socket
import ssl
import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from cryptography import x509

from sagelet_api.http.server import Server
from sagelet_api.http.tls import LIFETIME, RENEW_BEFORE, server_certificate
from sagelet_api.protocol.calls import Environ, StartResponse
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.base.keys import ca_file
from sagelet_engine.runtimes.slurm.file_sync.s3 import Batches, EndpointAway, Ticket

NOW = datetime.now(timezone.utc)


def scheme(environ: Environ, start_response: StartResponse) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["wsgi.url_scheme"].encode()]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(data: Path) -> Server:
    with Server(scheme, "127.0.0.1", 0, ["127.0.0.2"], server_certificate(data, ["127.0.0.1", "127.0.0.2"])) as running:
        yield running


def strict(data: Path) -> ssl.SSLContext:
    """As Python 3.13 does without being told."""
    context = ssl.create_default_context(cafile=str(ca_file(data)))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


@pytest.mark.parametrize(
    "name", ["localhost", "127.0.0.1", "127.0.0.2", "host.docker.internal", "s3.localhost", "bucket.s3.localhost"]
)
def test_our_names_are_vouched_for(server: Server, data: Path, name: str) -> None:
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as plain,
        strict(data).wrap_socket(plain, server_hostname=name) as secure,
    ):
        secure.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"https" in b"".join(iter(lambda: secure.recv(4096), b""))


@pytest.mark.parametrize("name", ["evil.example", "127.0.0.3", "localhost.evil.example"])
def test_other_names_are_not(server: Server, data: Path, name: str) -> None:
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        strict(data).wrap_socket(plain, server_hostname=name)


def test_a_client_that_speaks_plain_http_is_told(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert (answer.status, b"https://" in answer.read()) == (400, True)
    connection.close()


def test_a_client_that_says_nothing_keeps_nobody_out(server: Server, data: Path) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(3)]
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=20, context=strict(data))
    for _ in range(2):
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"https"
    connection.close()
    for one in silent:
        one.close()


def test_boto3_with_the_bundle(server: Server, data: Path) -> None:
    assert server.endpoint.startswith("https://127.0.0.1:")
    s3 = boto3.client(
        "s3", endpoint_url=server.endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x",
        verify=str(ca_file(data)), config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip
    assert s3.head_bucket(Bucket="any")["ResponseMetadata"]["HTTPStatusCode"] == 200


def serial(data: Path) -> int:
    return x509.load_pem_x509_certificate((data / "tls" / "server.pem").read_bytes()).serial_number


def test_files_and_their_modes(tmp_path: Path) -> None:
    files = server_certificate(tmp_path, ["127.0.0.1"])
    assert files.key.stat().st_mode & 0o777 == 0o600
    assert ca_file(tmp_path).stat().st_mode & 0o777 == 0o644
    assert b"PRIVATE" not in ca_file(tmp_path).read_bytes() + files.certificate.read_bytes()
    assert sorted(path.name for path in (tmp_path / "tls").iterdir()) == ["ca.pem", "server.key", "server.pem"]


def test_it_is_kept_until_shortly_before_its_end(tmp_path: Path) -> None:
    server_certificate(tmp_path, ["127.0.0.1"], NOW)
    first, authority = serial(tmp_path), ca_file(tmp_path).read_bytes()
    server_certificate(tmp_path, ["127.0.0.1"], NOW + LIFETIME - RENEW_BEFORE - timedelta(hours=1))
    assert (serial(tmp_path), ca_file(tmp_path).read_bytes()) == (first, authority)
    server_certificate(tmp_path, ["127.0.0.1"], NOW + LIFETIME - RENEW_BEFORE)
    assert serial(tmp_path) != first


@pytest.mark.parametrize("missing", ["ca.pem", "server.key", "server.pem"])
def test_what_is_missing_or_garbled_is_made_again(tmp_path: Path, missing: str) -> None:
    server_certificate(tmp_path, ["127.0.0.1"])
    for damage in (lambda path: path.unlink(), lambda path: path.write_text("garbage")):
        damage(tmp_path / "tls" / missing)
        files = server_certificate(tmp_path, ["127.0.0.1"])
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(files.certificate, files.key)
        strict(tmp_path)


def test_another_address_needs_another_certificate(tmp_path: Path) -> None:
    server_certificate(tmp_path, ["127.0.0.1"])
    first = serial(tmp_path)
    server_certificate(tmp_path, ["127.0.0.1", "172.17.0.1"])
    assert serial(tmp_path) != first
    second = serial(tmp_path)
    server_certificate(tmp_path, ["127.0.0.1"])
    assert serial(tmp_path) == second


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "tls").write_text("in the way")
    with pytest.raises(SettingsError, match="--tls"):
        server_certificate(tmp_path, ["127.0.0.1"])


def test_many_clients_at_once(server: Server, data: Path) -> None:
    answers: list[bytes] = []

    def call() -> None:
        connection = http.client.HTTPSConnection("localhost", server.port, timeout=60, context=strict(data))
        connection.request("GET", "/")
        answers.append(connection.getresponse().read())
        connection.close()

    threads = [threading.Thread(target=call) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [b"https"] * 40


def test_a_node_of_a_cluster_trusts_the_servers_authority_and_no_other(server: Server, data: Path) -> None:
    ticket = Ticket(
        f"https://127.0.0.2:{server.port}", "us-east-1", "b", "p/", "AKIA", "s", "t", ca_file(data).read_text()
    )
    answer = Batches(ticket).get("name")
    assert answer is not None
    assert answer.read() == b"https"
    with pytest.raises(EndpointAway, match="certificate verify failed"):
        Batches(replace(ticket, authority="")).get("name")
