"""`sagelet.connect`: a boto3 session for one server, whatever the environment says of AWS."""

import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

import sagelet
from sagelet.connection import NoServer
from sagelet.testing import Server
from sagelet_engine.base.errors import SettingsError

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def session(server: Server) -> boto3.Session:
    return sagelet.connect(server.endpoint, data=server.data)


def test_importing_sagelet_loads_nothing_heavy() -> None:
    heavy = "boto3 botocore moto flask torch docker sagelet_api pytest"
    program = f"import sys, sagelet, sagelet.testing; print([m for m in '{heavy}'.split() if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    assert said.stdout.strip() == "[]"


def test_clients_and_resources_go_to_the_server(session: boto3.Session, server: Server) -> None:
    bucket = session.resource("s3").create_bucket(Bucket="connected")
    bucket.put_object(Key="a/b", Body=b"content")
    assert session.client("s3").get_object(Bucket="connected", Key="a/b")["Body"].read() == b"content"
    assert (server.data / "s3/connected/a/b").read_bytes() == b"content"


def test_a_client_with_an_endpoint_of_aws_goes_to_the_server_too(session: boto3.Session) -> None:
    sts = session.client("sts", endpoint_url="https://sts.us-east-1.amazonaws.com")
    assert sts.get_caller_identity()["Account"] == "123456789012"


def test_a_client_with_an_endpoint_of_its_own_keeps_it(session: boto3.Session) -> None:
    assert session.client("s3", endpoint_url=NOWHERE).meta.endpoint_url == NOWHERE


def test_account_and_region(server: Server) -> None:
    session = sagelet.connect(server.endpoint, account="999999999999", region="eu-west-1", data=server.data)
    assert session.region_name == "eu-west-1"
    assert session.client("sts").get_caller_identity()["Account"] == "999999999999"


def test_the_callers_configuration_is_kept(session: boto3.Session) -> None:
    config = Config(retries={"total_max_attempts": 7}, s3={"payload_signing_enabled": True})
    client = session.client("s3", config=config)
    assert client.meta.config.retries["total_max_attempts"] == 7
    assert client.meta.config.s3 == {"addressing_style": "path", "payload_signing_enabled": True}


def test_nothing_of_the_users_aws_configuration_gets_in(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_PROFILE": "not-there",
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SESSION_TOKEN": "a-token",
        "AWS_ENDPOINT_URL_S3": NOWHERE,
        "AWS_USE_FIPS_ENDPOINT": "true",
        "HTTP_PROXY": NOWHERE,
        "http_proxy": NOWHERE,
        "NO_PROXY": "",
        "no_proxy": "",
    }.items():
        monkeypatch.setenv(name, value)
    session = sagelet.connect(server.endpoint, data=server.data)
    assert session.client("sts").get_caller_identity()["Account"] == "123456789012"
    assert "Buckets" in session.client("s3").list_buckets()


def test_the_environment_says_where_the_server_is(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGELET_DATA", str(server.data))
    monkeypatch.delenv("SAGELET_ENDPOINT", raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    assert sagelet.connect().client("s3").meta.endpoint_url == server.endpoint
    monkeypatch.setenv("SAGELET_ENDPOINT", NOWHERE)
    with pytest.raises(NoServer, match=r"127\.0\.0\.1:9"):
        sagelet.connect()
    assert sagelet.connect(server.endpoint).client("s3").meta.endpoint_url == server.endpoint


def test_no_server_is_an_error_that_names_the_remedy() -> None:
    with pytest.raises(
        NoServer, match=r"No sagelet server answers at http://127.0.0.1:9: Connection refused\. .*`sagelet up`"
    ):
        sagelet.connect(NOWHERE)


@pytest.fixture
def another_server() -> Iterator[str]:
    """Some web server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{other.server_address[1]}"
        other.shutdown()


def test_another_server_is_told_from_sagelet(another_server: str) -> None:
    with pytest.raises(NoServer, match="`sagelet up`"):
        sagelet.connect(another_server)


@pytest.mark.parametrize("endpoint", ["127.0.0.1:4599", "ftp://host", "http://"])
def test_what_is_no_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(SettingsError, match="endpoint"):
        sagelet.connect(endpoint)


def test_what_is_no_account_is_refused(server: Server) -> None:
    with pytest.raises(SettingsError, match="12 digits"):
        sagelet.connect(server.endpoint, account="me", data=server.data)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with HTTPS that checks signatures."""
    with Server(tmp_path_factory.mktemp("guarded"), tls=True, auth=True) as server:
        yield server


def test_https_and_signatures_need_the_servers_data_directory(guarded: Server, server: Server, tmp_path: Path) -> None:
    assert guarded.endpoint.startswith("https://")
    session = sagelet.connect(guarded.endpoint, data=guarded.data)
    assert session.client("sts").get_caller_identity()["Account"] == "123456789012"
    assert "Buckets" in session.client("s3").list_buckets()
    with pytest.raises(NoServer, match=r"connect\(data=...\)"):
        sagelet.connect(guarded.endpoint, data=tmp_path)


def test_a_server_that_checks_signatures_needs_a_key(guarded: Server, tmp_path: Path) -> None:
    (tmp_path / "tls").mkdir()
    (tmp_path / "tls/ca.pem").write_bytes((guarded.data / "tls/ca.pem").read_bytes())
    with pytest.raises(SettingsError, match=r"checks signatures.*connect\(data=...\)"):
        sagelet.connect(guarded.endpoint, data=tmp_path)
