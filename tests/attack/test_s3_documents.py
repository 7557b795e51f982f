"""S3: a document runs nothing. Entities that are made of entities would be gigabytes of a few kilobytes."""

from collections.abc import Iterator
from typing import Any

import psutil
import pytest
import urllib3

from support.server import ACCOUNT, SageletProcess

MIB = 1024**2
#: Of a document that expat lets through: it grows a hundredfold at most.
ENTITY, TIMES, FILLER = 100_000, 900, 900_000
SCOPE = f"AWS4-HMAC-SHA256 Credential={ACCOUNT}/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
REFERENCE = b"&a;"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SageletProcess]:
    process = SageletProcess(tmp_path_factory.mktemp("server") / "data", "--runtime", "process").start()
    process.client("s3").create_bucket(Bucket="tests")
    yield process
    process.stop()


def deletion(server: SageletProcess, prologue: bytes, key: bytes) -> Any:
    body = prologue + b"<Delete><Object><Key>" + key + b"</Key></Object></Delete>"
    return urllib3.request("POST", f"{server.endpoint}/tests?delete", headers={"Authorization": SCOPE}, body=body)


def test_entities_of_a_document_are_not_unfolded(server: SageletProcess) -> None:
    process = psutil.Process(server.pid)
    before = process.memory_info().rss
    bomb = b'<!DOCTYPE a [<!ENTITY a "' + b"a" * ENTITY + b'">]><!--' + b"x" * FILLER + b"-->"
    answer = deletion(server, bomb, REFERENCE * TIMES)
    assert (answer.status, b"MalformedXML" in answer.data) == (400, True)
    assert process.memory_info().rss - before < 64 * MIB


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    "declaration",
    [
        '<!DOCTYPE a [<!ENTITY a "x">]>',
        '<!DOCTYPE a SYSTEM "file:///etc/hostname">',
        '<!DOCTYPE a [<!ENTITY % b SYSTEM "http://127.0.0.1:9/"> %b;]>',
        "<!DOCTYPE a>",
    ],
)
def test_a_document_declares_nothing(server: SageletProcess, declaration: str, encoding: str) -> None:
    body = f'<?xml version="1.0" encoding="{encoding}"?>{declaration}<Delete><Object><Key>x</Key></Object></Delete>'
    answer = urllib3.request(
        "POST", f"{server.endpoint}/tests?delete", headers={"Authorization": SCOPE}, body=body.encode(encoding)
    )
    assert (answer.status, b"MalformedXML" in answer.data) == (400, True)


def test_characters_that_have_names_are_what_they_were(server: SageletProcess) -> None:
    answer = deletion(server, b"", b"a&lt;&#65;&quot;")
    assert answer.status == 200
    assert b"<Key>a&lt;A&quot;</Key>" in answer.data
