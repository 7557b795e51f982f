"""Every operation of S3's model, whole and with a fault: an answer, or AWS's own error."""

import http.client
import uuid
from typing import Any
from xml.etree import ElementTree

import pytest

from sagelet_api.protocol.s3.request import Route
from support.front import Front
from support.s3_documents import Wanted, operations, requests

SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=k/20261121/us-east-1/s3/aws4_request, Signature=0"}
ROUTES = operations()


@pytest.mark.parametrize("route", ROUTES, ids=[route.operation for route in ROUTES])
def test_no_request_breaks_it(server: Front, s3c: Any, route: Route) -> None:
    bucket = f"bucket-{uuid.uuid4()}"
    s3c.create_bucket(Bucket=bucket)
    s3c.put_object(Bucket=bucket, Key="k", Body=b"x")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    asked = list(requests(route, bucket, "k"))
    assert asked[0].fault == "none"
    assert [problem for wanted in asked if (problem := _problem(connection, wanted))] == []
    connection.close()


def _problem(connection: http.client.HTTPConnection, wanted: Wanted) -> str:
    headers = {**SIGNED, **{name: value.encode().decode("latin-1") for name, value in wanted.headers.items()}}
    connection.request(wanted.method, wanted.path, wanted.body, headers)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status < 300:
        return ""
    said = f"{wanted.fault}: {answer.status} {body.decode()}"
    if answer.status >= 500 and answer.status != 501:
        return said
    if wanted.method == "HEAD":
        return ""
    error = ElementTree.fromstring(body)
    code, fine = error.findtext("Code"), error.tag == "Error" and error.find("Message") is not None
    return "" if fine and code and (answer.status == 501) == (code == "NotImplemented") else said
