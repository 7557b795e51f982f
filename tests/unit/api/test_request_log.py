"""`sagelet up --log-level info`: one line a request, with nothing in it that opens anything."""

import http.client
import logging
import re
import socket
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from sagelet_api.http import request_log
from sagelet_api.http.server import Server
from sagelet_api.protocol.calls import Environ, StartResponse
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.hub import access
from support.front import Front
from support.server import until

pytestmark = pytest.mark.usefixtures("jobs")

LINE = re.compile(r"(\S+) (\S+) (\S+) (\S+) (\S+) (\d+\.\d) ms (\S+)")


class Lines:
    """What the request log has said since the test began."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def all(self, start: str = "") -> list[str]:
        messages = [one.getMessage() for one in self._caplog.records if one.name == request_log.__name__]
        return [one for one in messages if one.startswith(start)]

    def next(self, count: int = 1, start: str = "") -> list[str]:
        """The lines, once there are `count`: a client has its answer before the line is written."""
        until(lambda: len(self.all(start)) >= count)
        found = self.all(start)
        assert len(found) == count, found
        return found


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Lines]:
    with caplog.at_level(logging.INFO, request_log.__name__):
        yield Lines(caplog)


def raw(port: int, *request: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall("\r\n".join([*request, "", ""]).encode("latin-1"))
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_line_tells_what_was_asked_and_how_it_ended(client: Any, lines: Lines) -> None:
    answer = client("sagemaker").stop_training_job(TrainingJobName="a-job")
    (line,) = lines.next()
    found = LINE.fullmatch(line)
    assert found is not None, line
    assert found.groups()[:5] == ("POST", "sagemaker", "StopTrainingJob", "/", "200")
    assert found[7] == answer["ResponseMetadata"]["RequestId"]


def test_objects_have_their_path_and_the_request_id_that_the_client_has(s3c: Any, bucket: str, lines: Lines) -> None:
    answer = s3c.put_object(Bucket=bucket, Key="a key\nwith \x1b[31m and é", Body=b"x")
    (line,) = lines.next(start="PUT s3 PutObject ")
    path = f"/{bucket}/a%20key%0Awith%20%1B%5B31m%20and%20%C3%A9"
    assert line.startswith(f"PUT s3 PutObject {path} 200 ")
    assert line.endswith(answer["ResponseMetadata"]["RequestId"])


def test_neither_signatures_nor_tokens_nor_keys_are_in_it(server: Front, s3c: Any, bucket: str, lines: Lines) -> None:
    url = s3c.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "nothing"})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    connection.request("GET", url.partition(str(server.port))[2], headers={"X-Amz-Security-Token": "TOP-SECRET"})
    connection.getresponse().read()
    connection.close()
    (line,) = lines.next(start=f"GET s3 GetObject /{bucket}/nothing 4")
    for word in ("Signature", "TOP-SECRET", "AWSAccessKeyId", "X-Amz", "?"):
        assert word not in line


def test_the_part_of_a_path_that_shows_a_job_to_the_hub_is_left_out(server: Front, lines: Lines) -> None:
    part = access.reader(KeyPair("AKIA", "secret"), "job-1")
    for path in (f"/_sagelet/hub/{part}/api/models/gpt2", f"/_sagelet/hub/%7E{part[1:]}/x", f"//{part}"):
        raw(server.port, f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close")
    for line in lines.next(3):
        assert part.rpartition(".")[2] not in line
        assert "~job-1.***" in line


def test_no_client_adds_a_line_or_a_word(server: Front, lines: Lines) -> None:
    signed = (
        "Authorization: AWS4-HMAC-SHA256 Credential=any/20261121/us-east-1/sage%0Amaker x/aws4_request, Signature=0"
    )
    target = "X-Amz-Target: SageMaker.Stop 200 1.0 ms\tTrainingJob\x9b"
    raw(server.port, "POST /a%0d%0aINFO%20b HTTP/1.1", "Host: localhost", signed, target, "Connection: close")
    (line,) = lines.next()
    assert LINE.fullmatch(line), line
    assert line.isascii()
    assert line.isprintable()


def test_a_long_path_is_cut(server: Front, lines: Lines) -> None:
    raw(server.port, f"GET /{'a' * 5000} HTTP/1.1", "Host: localhost", "Connection: close")
    (line,) = lines.next()
    assert len(line) < 400
    assert "aaa... 403 " in line


def test_what_is_no_request_has_a_line_without_its_words(server: Front, lines: Lines) -> None:
    raw(server.port, "GET / HTTP/1.1", "Host: localhost", "Authorization : secret")
    raw(server.port, "secret words")
    assert [LINE.fullmatch(line)[5] for line in lines.next(2)] == ["400", "400"]  # type: ignore[index]
    assert "secret" not in "".join(lines.all())


def test_an_application_that_fails_has_one_line(lines: Lines) -> None:
    def broken(_environ: Environ, _start: StartResponse) -> Iterable[bytes]:
        raise RuntimeError("broken")

    with Server(broken, "127.0.0.1", 0) as server:
        assert b" 500 " in raw(server.port, "GET / HTTP/1.1", "Host: localhost", "Connection: close")
        assert lines.next()[0].startswith("GET - - - 500 ")


def test_at_the_level_warning_nothing_is_written(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, request_log.__name__):
        client("sagemaker").stop_training_job(TrainingJobName="a-job")
    assert request_log.__name__ not in {one.name for one in caplog.records}
