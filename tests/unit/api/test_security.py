"""Who comes in at the request guard: the security rows of a server that can start containers."""

import http.client
from collections.abc import Mapping
from typing import Any

import pytest

from sagelet_api.auth.request_guard import RequestGuard
from sagelet_api.protocol.calls import HEADERS, parse_call
from support.fake_jobs import FakeJobs
from support.front import Front

pytestmark = pytest.mark.usefixtures("jobs")

SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=any/20261121/us-east-1/sagemaker/aws4_request, Signature=0",
    "X-Amz-Target": "SageMaker.StopTrainingJob",
}
BODY = b'{"TrainingJobName": "a-job"}'


def ask(
    server: Front, headers: Mapping[str, str], method: str = "POST", path: str = "/", body: bytes = BODY
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    connection.request(method, path, body=body, headers=dict(headers))
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, text


def test_a_signed_request_comes_in(server: Front, jobs: FakeJobs) -> None:
    status, _, _ = ask(server, SIGNED)
    assert status == 200
    assert len(jobs.seen) == 1


@pytest.mark.parametrize("host", ["localhost:{}", "127.0.0.1:{}", "[::1]:{}", "host.docker.internal:{}", "LOCALHOST"])
def test_our_own_names(server: Front, host: str) -> None:
    assert ask(server, {**SIGNED, "Host": host.format(server.port)})[0] == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "evillocalhost", "", "[", "a@b"],
)
def test_a_foreign_host_is_refused(server: Front, jobs: FakeJobs, host: str) -> None:
    status, _, text = ask(server, {**SIGNED, "Host": host})
    assert status == 403
    assert "is not a name of this sagelet server" in text
    assert jobs.seen == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_web_pages_of_others_are_refused(server: Front, jobs: FakeJobs, headers: dict[str, str]) -> None:
    for path, extra in (("/", SIGNED), ("/_sagelet/health", {})):
        status, _, text = ask(server, {**extra, **headers}, path=path)
        assert status == 403
        assert "web pages" in text
    assert jobs.seen == []


def test_our_own_page_may_call(server: Front) -> None:
    own = {"Origin": server.endpoint, "Sec-Fetch-Site": "same-origin"}
    assert ask(server, {**SIGNED, **own})[0] == 200
    assert ask(server, own, "GET", "/_sagelet/health", b"")[0] == 200


def test_a_preflight_gets_no_leave(server: Front) -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    status, headers, _ = ask(server, asked, "OPTIONS", body=b"")
    assert status == 403
    assert not [name for name in headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"X-Amz-Target": "SageMaker.StopTrainingJob"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {**SIGNED, "Authorization": "Basic dXNlcjpwYXNz"},
        {**SIGNED, "Authorization": "AWS4-HMAC-SHA256 garbage"},
    ],
)
def test_unsigned_requests_are_refused(server: Front, jobs: FakeJobs, headers: dict[str, str]) -> None:
    status, _, text = ask(server, headers)
    assert status == 403
    assert "sign the request" in text
    assert jobs.seen == []


@pytest.mark.parametrize(
    "path", ["/moto-api/reset", "/moto-api/data.json", "/latest/meta-data/iam/security-credentials/"]
)
def test_moto_keeps_no_back_door(server: Front, path: str) -> None:
    assert ask(server, {}, "GET", path, b"")[0] == 403
    assert ask(server, SIGNED, "POST", path)[0] == 400


def test_a_signed_request_without_a_target_starts_nothing(server: Front, jobs: FakeJobs) -> None:
    unlabelled = {"Authorization": SIGNED["Authorization"], "Content-Type": "text/plain"}
    status, _, text = ask(server, unlabelled)
    assert 400 <= status < 500, text
    assert jobs.seen == []


def test_cors_rules_of_a_bucket_open_nothing(server: Front, client: Any) -> None:
    s3 = client("s3")
    s3.create_bucket(Bucket="with-cors")
    rule = {"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}
    s3.put_bucket_cors(Bucket="with-cors", CORSConfiguration={"CORSRules": [rule]})
    s3.put_object(Bucket="with-cors", Key="k", Body=b"x")
    auth = SIGNED["Authorization"].replace("sagemaker", "s3")
    status, headers, _ = ask(server, {"Authorization": auth, "Origin": server.endpoint}, "GET", "/with-cors/k", b"")
    assert status == 200
    assert not [name for name in headers if name.startswith("access-control")]


def guard_admits(guard: RequestGuard, host: str) -> bool:
    call = parse_call({"REQUEST_METHOD": "GET", HEADERS: {"host": host}})
    try:
        guard.check_origin(call)
    except Exception:
        return False
    return True


def test_names_given_at_start() -> None:
    guard = RequestGuard(["172.17.0.1", "[fd00::1]", "Sagelet.Lan."])
    for host in ("172.17.0.1:4599", "[fd00::1]:4599", "sagelet.lan", "bucket.sagelet.lan:1", "my.bucket.localhost"):
        assert guard_admits(guard, host), host
    for host in ("172.17.0.2", "x.172.17.0.1", "lan"):
        assert not guard_admits(guard, host), host


def test_who_listens_everywhere_is_reached_by_any_address_but_no_foreign_name() -> None:
    guard = RequestGuard(["0.0.0.0"])
    assert guard_admits(guard, "192.168.1.20:4599")
    assert not guard_admits(guard, "evil.example")


def test_a_refused_name_is_told_how_it_is_allowed(server: Front) -> None:
    _, _, text = ask(server, {**SIGNED, "Host": f"sagelet:{server.port}"})
    assert "--allow-host sagelet (SAGELET_ALLOW_HOST)" in text
    _, _, text = ask(server, {**SIGNED, "Host": "--data=/"})
    assert "--allow-host NAME (" in text


def test_other_services_bodies_have_a_limit(server: Front) -> None:
    """Refused by its length, before any of it is read."""
    for service, target in (("sqs", "AmazonSQS.ListQueues"), ("sagemaker", "SageMaker.ListModels")):
        headers = {"Authorization": SIGNED["Authorization"].replace("sagemaker", service)}
        headers |= {"Content-Length": str(40 * 1024 * 1024), "X-Amz-Target": target}
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.putrequest("POST", "/")
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(b"x" * (40 * 1024 * 1024))
        answer = connection.getresponse()
        assert (answer.status, "RequestEntityTooLarge" in answer.read().decode()) == (413, True)
        connection.close()


@pytest.mark.parametrize("service", ["sqs", "iam", "s3", "sts", "sagemaker", "logs", "nonsense"])
def test_every_answer_has_a_request_id(server: Front, service: str) -> None:
    auth = SIGNED["Authorization"].replace("sagemaker", service)
    for method, path in (("GET", "/"), ("POST", "/"), ("GET", "/nothing/here"), ("OPTIONS", "/")):
        _, headers, _ = ask(server, {"Authorization": auth}, method, path, b"")
        assert {"x-amzn-requestid", "x-amz-request-id"} & headers.keys(), (method, path)
        assert not [name for name in headers if name.startswith("access-control")]


def test_the_control_endpoints_answers_have_one_too(server: Front) -> None:
    for path in ("/_sagelet/health", "/_sagelet/none"):
        assert ask(server, {}, "GET", path, b"")[1]["x-amzn-requestid"]
