"""Where a browser gets objects: never from the origin of the pages, and elsewhere by a signed URL only.

What a browser says of itself is said here by hand; `test_objects_in_a_browser.py` has a real one.
"""

import http.client
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.config import Config

from support.server import SageletProcess

HTML = b"<script>document.title = 'owned'</script>"
ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
#: A link that was typed, or one of another program's.
TYPED = {"Accept": ACCEPT, "Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
FROM_A_PAGE = {**TYPED, "Sec-Fetch-Site": "cross-site"}
OLD_BROWSER = {"Accept": ACCEPT}
V4, V2 = "s3v4", "s3"


@pytest.fixture(scope="module", params=["open", "auth"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SageletProcess]:
    options = ["--auth"] if request.param == "auth" else []
    data = tmp_path_factory.mktemp("origin") / "data"
    process = SageletProcess(data, "--runtime", "process", *options).start()
    s3 = process.client("s3")
    s3.create_bucket(Bucket="attic")
    for key in ("page.html", "a b/\u00e9+%.html"):
        s3.put_object(Bucket="attic", Key=key, Body=HTML, ContentType="text/html")
    yield process
    process.stop()


def port_of(server: SageletProcess) -> int:
    return int(server.endpoint.rpartition(":")[2])


def presigned(
    server: SageletProcess, host: str, version: str = V4, key: str = "page.html", secret: str = "", **more: Any
) -> str:
    options = {"aws_secret_access_key": secret} if secret else {}
    client = server.client(
        "s3",
        endpoint_url=f"http://{host}:{port_of(server)}",
        config=Config(signature_version=version, s3={"addressing_style": "path"}),
        **options,
    )
    url: str = client.generate_presigned_url("get_object", {"Bucket": "attic", "Key": key, **more})
    return url


def get(
    server: SageletProcess, url: str, headers: dict[str, str], method: str = "GET"
) -> tuple[int, dict[str, str], bytes]:
    """Requests the URL by its host name, independent of name resolution on this machine."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=120)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    connection.request(method, target, headers={"Host": parts.netloc, **headers})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


@pytest.mark.parametrize("version", [V4, V2])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "s3.localhost"])
def test_programs_get_objects_where_they_ask(server: SageletProcess, host: str, version: str) -> None:
    url = presigned(server, host, version)
    for headers in ({}, {"Accept": "*/*"}, {"Accept": "text/html, image/gif, image/jpeg, */*; q=0.2"}):
        status, answered, body = get(server, url, headers)
        assert (status, answered["content-type"], body) == (200, "text/html", HTML)


@pytest.mark.parametrize("headers", [TYPED, OLD_BROWSER], ids=["typed", "old"])
@pytest.mark.parametrize("version", [V4, V2])
@pytest.mark.parametrize("key", ["page.html", "a b/\u00e9+%.html"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_a_browser_is_sent_elsewhere(
    server: SageletProcess, host: str, key: str, version: str, headers: dict[str, str]
) -> None:
    url = presigned(server, host, version, key, ResponseCacheControl="no-cache")
    status, answered, body = get(server, url, headers)
    assert (status, body) == (307, b"")
    moved = answered["location"]
    assert moved == url.replace(f"{host}:{port_of(server)}", f"s3.localhost:{port_of(server)}", 1)
    status, answered, body = get(server, moved, headers)
    assert (status, body, answered["cache-control"]) == (200, HTML, "no-cache")
    assert answered["content-security-policy"] == "sandbox; frame-ancestors 'none'"
    assert answered["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("dest", ["script", "style", "image", "iframe", "object", "embed", "empty", "worker"])
def test_nothing_on_a_page_loads_an_object_as_its_own(server: SageletProcess, dest: str) -> None:
    """The pages' content policy takes scripts from their own origin."""
    headers = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": dest}
    status, _, body = get(server, presigned(server, "localhost"), headers)
    assert (status, body) == (307, b"")


def test_an_address_that_a_browser_elsewhere_uses_has_files_only(server: SageletProcess) -> None:
    """`s3.localhost` would be the reader's own machine."""
    status, answered, body = get(server, presigned(server, "host.docker.internal"), TYPED)
    assert (status, body) == (200, HTML)
    assert answered["content-type"] == "application/octet-stream"
    assert answered["content-disposition"] == "attachment"
    assert answered["x-content-type-options"] == "nosniff"


def test_a_page_of_others_needs_a_url_that_we_signed(server: SageletProcess) -> None:
    """Also where any key opens: a page can write a URL that looks signed."""
    good, forged = presigned(server, "s3.localhost"), presigned(server, "s3.localhost", secret="forged")
    assert get(server, good, FROM_A_PAGE)[0] == 200
    status, _, body = get(server, forged, FROM_A_PAGE)
    assert (status, b"SignatureDoesNotMatch" in body) == (403, True)
    assert get(server, good.partition("?")[0], FROM_A_PAGE)[0] == 403
    assert get(server, good, {**FROM_A_PAGE, "Sec-Fetch-Mode": "cors", "Origin": "null"})[0] == 403


@pytest.mark.parametrize("host", ["s3.localhost", "attic.localhost", "attic.s3.localhost"])
def test_where_objects_are_there_is_no_page_and_nothing_to_post_to(server: SageletProcess, host: str) -> None:
    origin = f"http://{host}:{port_of(server)}"
    for path in ("/", "/_sagelet/ui/", "/_sagelet/ui/static/style.css", "/_sagelet/ui/login", "/_sagelet/health"):
        status, answered, body = get(server, f"{origin}{path}", TYPED)
        assert status == 403, path
        assert "set-cookie" not in answered
        assert b"Training jobs" not in body
    signed = {
        "Authorization": "AWS4-HMAC-SHA256 Credential=123456789012/20991231/us-east-1/sagemaker/aws4_request, "
        "SignedHeaders=host, Signature=0",
        "X-Amz-Target": "SageMaker.ListTrainingJobs",
    }
    for more in (
        {"Origin": origin},
        {"Origin": origin, "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "same-origin"},
    ):
        status, _, body = get(server, f"{origin}/", {**signed, **more}, "POST")
        assert (status, b"web pages" in body) == (403, True)


def test_a_signature_of_the_pages_names_is_one_for_the_objects_and_for_no_other(server: SageletProcess) -> None:
    for host in ("s3.localhost", "localhost", "127.0.0.1"):
        url = presigned(server, host)
        moved = url.replace(urlsplit(url).netloc, f"s3.localhost:{port_of(server)}")
        assert get(server, moved, FROM_A_PAGE)[0] == 200
        if host != "localhost":
            back = url.replace(urlsplit(url).netloc, f"attic.localhost:{port_of(server)}")
            assert get(server, back, FROM_A_PAGE)[0] == 403
        other = moved.replace("page.html", "other.html")
        assert get(server, other, FROM_A_PAGE)[0] == 403
    put = presigned(server, "localhost").replace("localhost", "s3.localhost")
    assert get(server, put, FROM_A_PAGE, "PUT")[0] == 403


def test_a_link_calls_no_operation_of_another_service(server: SageletProcess) -> None:
    """Not even a typed URL does. A user who is talked into opening it would create a user or an alarm."""
    url = server.client("iam").generate_presigned_url("create_user", {"UserName": "eve"}, HttpMethod="GET")
    assert get(server, url, TYPED)[0] == 403
    assert get(server, url, FROM_A_PAGE)[0] == 403
    assert "eve" not in [user["UserName"] for user in server.client("iam").list_users()["Users"]]
    who = server.client("sts").generate_presigned_url("get_caller_identity", HttpMethod="GET")
    assert get(server, who, {})[0] == 200
