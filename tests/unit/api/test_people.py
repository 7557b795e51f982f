"""What a person gets who looks at the server with a browser or curl, and what AWS's clients get still."""

import http.client
import json
from typing import Any, NoReturn

import pytest

from sagelet_api.protocol.calls import Environ, StartResponse
from sagelet_api.web import PREFIX
from sagelet_engine.base.errors import SageletError
from support.api_world import ApiWorld
from support.front import Front

CURL = {"User-Agent": "curl/8.5.0", "Accept": "*/*"}
BROWSER = {"User-Agent": "Mozilla/5.0", "Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=any/20261121/us-east-1/s3/aws4_request, Signature=0",
}
FOR_SAGEMAKER = {name: value.replace("/s3/", "/sagemaker/") for name, value in SIGNED.items()}


def ask(port: int, path: str, headers: dict[str, str], method: str = "GET") -> tuple[int, str, str]:
    """Status, type and text."""
    connection = http.client.HTTPConnection("localhost", port, timeout=120)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers.get("Content-Type", ""), text


@pytest.mark.parametrize("who", [CURL, BROWSER, {"User-Agent": "Wget/1.21.3"}])
@pytest.mark.parametrize("path", ["/nowhere", "/bucket/key.html", "/ui", "/favicon.ico"])
def test_a_path_where_nothing_is_tells_the_way_to_the_page(server: Front, who: dict[str, str], path: str) -> None:
    status, kind, text = ask(server.port, path, who)
    assert (status, kind) == (404, "text/plain; charset=utf-8")
    assert text.startswith(f"sagelet has no page at {path}.\n")
    assert f"http://localhost:{server.port}/\n" in text


def test_curl_at_the_root_learns_that_sagelet_runs(server: Front) -> None:
    status, kind, text = ask(server.port, "/", CURL)
    assert (status, kind) == (200, "text/plain; charset=utf-8")
    assert f"http://localhost:{server.port}/_sagelet/health" in text


def test_a_head_has_no_body(server: Front) -> None:
    assert ask(server.port, "/nowhere", CURL, "HEAD")[::2] == (404, "")


def test_the_origin_of_objects_stays_closed_and_says_so_as_text(server: Front) -> None:
    status, kind, text = ask(server.port, "/x", {**BROWSER, "Host": f"s3.localhost:{server.port}"})
    assert (status, kind) == (403, "text/plain; charset=utf-8")
    assert text.startswith("AccessDeniedException: Access Denied: sign the request")


def test_what_a_terminal_obeys_is_not_repeated(server: Front) -> None:
    _, _, text = ask(server.port, "/%1b]0;x%07%E2%80%AE%0aa" + "b" * 1000, CURL)
    assert text.isascii()
    assert "/[U+001B]]0;x[U+0007][U+202E][U+000A]abbb" in text
    assert "b... " not in text
    assert len(text) < 1000


def test_a_refusal_is_text_for_a_person(server: Front) -> None:
    status, kind, text = ask(server.port, "/", {**CURL, "Host": "sagelet:4599"})
    assert (status, kind) == (403, "text/plain; charset=utf-8")
    assert "--allow-host sagelet" in text
    assert "{" not in text


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({}, ""),
        ({"User-Agent": "aws-cli/2.15 Python/3.11"}, ""),
        ({"User-Agent": "Boto3/1.44 Botocore/1.44", "amz-sdk-request": "attempt=1"}, ""),
        # Java says so for everything.
        ({"User-Agent": "aws-sdk-java/2.20", "Accept": "text/html, image/gif, */*; q=.2", "amz-sdk-request": "1"}, ""),
        ({**CURL, "Authorization": "AWS4-HMAC-SHA256 garbage"}, ""),
        (CURL, "?X-Amz-Signature=garbled"),
    ],
)
def test_aws_clients_keep_s3s_error(server: Front, headers: dict[str, str], query: str) -> None:
    status, kind, text = ask(server.port, f"/nowhere{query}", headers)
    assert (status, kind) == (403, "application/xml")
    assert "<Code>AccessDenied</Code>" in text


@pytest.mark.parametrize(
    ("headers", "method", "path"),
    [
        ({**CURL, "X-Amz-Target": "SageMaker.ListTrainingJobs"}, "GET", "/nowhere"),
        (CURL, "POST", "/"),
        (CURL, "POST", "/2015-03-31/functions/f/invocations"),
        ({"Content-Type": "application/json"}, "PUT", "/2015-03-31/functions/f/code"),
        ({}, "GET", "/2015-03-31/functions"),
        ({}, "DELETE", "/2015-03-31/functions/f?Qualifier=1"),
        ({}, "GET", "/2015-02-01/file-systems"),
        ({}, "GET", "/v1/tags/arn"),
        ({}, "GET", "/v2/apis"),
        ({"Accept": "application/json"}, "GET", "/restapis"),
    ],
)
def test_clients_of_other_services_keep_their_error(
    server: Front, headers: dict[str, str], method: str, path: str
) -> None:
    status, kind, text = ask(server.port, path, headers, method)
    assert (status, kind) == (403, "application/x-amz-json-1.1")
    assert json.loads(text)["__type"] == "MissingAuthenticationTokenException"


@pytest.mark.parametrize("path", ["/2020-05-31/distribution", "/2013-04-01/hostedzone/Z1"])
def test_clients_of_cloudfront_and_route_53_get_their_xml(server: Front, path: str) -> None:
    status, kind, text = ask(server.port, path, {})
    assert (status, kind) == (403, "text/xml")
    assert "<ErrorResponse><Error><Type>Sender</Type><Code>MissingAuthenticationToken</Code>" in text


@pytest.mark.parametrize(
    ("path", "host"),
    [
        # No service has these.
        ("/2024-02-29/functions", "localhost"),
        ("/2015-03-31/photos", "localhost"),
        ("/2015-03-31", "localhost"),
        ("/restapis", "localhost"),
        ("/2015-02-01/file-systems", "photos.localhost"),
        ("/2015-02-01/file-systems", "s3.localhost"),
    ],
)
def test_what_may_be_a_bucket_keeps_s3s_error(server: Front, path: str, host: str) -> None:
    status, kind, text = ask(server.port, path, {"Host": f"{host}:{server.port}"})
    assert (status, kind) == (403, "application/xml")
    assert "<Code>AccessDenied</Code>" in text


def test_a_bucket_that_is_called_like_a_version_keeps_s3s_error(server: Front, s3c: Any) -> None:
    assert ask(server.port, "/2015-03-31/functions", {})[1] == "application/x-amz-json-1.1"
    s3c.create_bucket(Bucket="2015-03-31")
    assert ask(server.port, "/2015-03-31/functions", {})[1] == "application/xml"
    s3c.delete_bucket(Bucket="2015-03-31")


def test_a_signed_curl_gets_s3s_answers(server: Front) -> None:
    status, kind, text = ask(server.port, "/no-such-bucket/key", {**CURL, **SIGNED})
    assert (status, kind) == (404, "application/xml")
    assert "NoSuchBucket" in text


def test_a_control_endpoint_that_is_none_tells_the_way_to_the_page(server: Front) -> None:
    status, kind, text = ask(server.port, "/_sagelet/nothing", CURL)
    assert (status, kind) == (404, "application/json")
    assert json.loads(text)["message"].endswith(f"The web page is http://localhost:{server.port}/")
    assert "has no training job" in ask(server.port, "/_sagelet/jobs/x/compilation", CURL)[2]


@pytest.mark.parametrize("path", ["/_sagelet/nothing", "/_sagelet/jobs/a/nothing"])
def test_a_browser_at_an_unknown_control_path_learns_the_way_to_the_page(server: Front, path: str) -> None:
    status, kind, text = ask(server.port, path, BROWSER)
    assert (status, kind) == (404, "text/plain; charset=utf-8")
    assert text.startswith(f"sagelet has no page at {path}.\n")
    assert f"http://localhost:{server.port}/\n" in text
    status, kind, text = ask(server.port, path, CURL)
    assert (status, kind) == (404, "application/json")
    assert f"{path} is not a control endpoint (`sagelet docs control-api`)" in json.loads(text)["message"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ZeroDivisionError(), "sagelet failed; its log has the traceback"),
        (SageletError("free some space"), "free some"),
    ],
)
@pytest.mark.parametrize(
    ("method", "path", "headers", "kind"),
    [
        ("GET", "/", BROWSER, "text/plain; charset=utf-8"),
        ("GET", f"{PREFIX}/jobs", CURL, "text/plain; charset=utf-8"),
        ("POST", f"{PREFIX}/login", {**BROWSER, **FORM}, "text/plain; charset=utf-8"),
        ("POST", f"{PREFIX}/stop", {**FORM, "Accept": "application/json"}, "application/x-amz-json-1.1"),
        ("POST", "/", {**FOR_SAGEMAKER, "X-Amz-Target": "SageMaker.ListTrainingJobs"}, "application/x-amz-json-1.1"),
        ("GET", "/bucket", SIGNED, "application/xml"),
    ],
)
def test_what_fails_is_told_in_the_words_of_who_called(
    method: str, path: str, headers: dict[str, str], kind: str, error: Exception, words: str,
    whole: ApiWorld, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def fail(_environ: Environ, _start: StartResponse) -> list[bytes]:
        raise error

    def s3() -> NoReturn:
        raise error

    parts = {"_pages": fail, "_control": fail, "_fallback": fail, "_services": {}, "_protocols": {"s3": s3}}
    for part, broken in parts.items():
        monkeypatch.setattr(whole.sagelet.application, part, broken)
    own = {"Origin": f"http://localhost:{whole.port}"} if "Content-Type" in headers else {}
    status, answered, text = ask(whole.port, path, {**headers, **own}, method)
    assert (status, answered) == (500, kind)
    assert words in text
    assert ("{" in text) == ("json" in kind)
