"""Requests for every operation of S3, made from botocore's model: correct ones, and ones with one fault each."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from sagelet_api.protocol.s3.request import Route, routes, service_model

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_DEPTH = 6
#: Wrong contents of an element.
_TEXTS = ("x", "-1")
#: Right values, by the member's name, where they do not follow from the shape.
_VALUES = {
    "URI": "http://acs.amazonaws.com/groups/global/AllUsers",
    "ID": "a" * 64,
    "KMSMasterKeyID": "arn:aws:kms:us-east-1:123456789012:key/1234",
    "Role": "arn:aws:iam::123456789012:role/r",
    "Bucket": "arn:aws:s3:::{bucket}",
    "TargetBucket": "{bucket}",
    "Account": "123456789012",
    "SSEAlgorithm": "AES256",
    "Event": "s3:ObjectCreated:*",
    "QueueArn": "arn:aws:sqs:us-east-1:123456789012:q",
    "TopicArn": "arn:aws:sns:us-east-1:123456789012:t",
    "LambdaFunctionArn": "arn:aws:lambda:us-east-1:123456789012:function:f",
    "VersionId": "null",
    "LastModifiedTime": "2024-01-01T00:00:00Z",
}
#: Headers that any request of S3 may have, and wrong values of them.
_HEADERS = {
    "x-amz-acl": ("nonsense", "public-read", ""),
    "x-amz-grant-read": ("", "nonsense", "id=", 'emailAddress="a@b.c"', 'id="x", uri=', "=,=", 'id="é'),
    "x-amz-grant-full-control": ("nonsense", 'uri="http://acs.amazonaws.com/groups/global/AllUsers"'),
    "x-amz-expected-bucket-owner": ("", "nonsense"),
    "content-md5": ("", "nonsense"),
    "x-amz-sdk-checksum-algorithm": ("", "nonsense"),
    "x-amz-checksum-crc32": ("", "nonsense", "AAAAAA=="),
    "x-amz-object-ownership": ("", "nonsense"),
    "x-amz-server-side-encryption": ("", "nonsense", "aws:kms"),
    "x-amz-server-side-encryption-customer-algorithm": ("", "nonsense"),
    "x-amz-object-attributes": ("", "nonsense"),
    "x-amz-tagging": ("", "%", "a=1&a=2"),
    "x-amz-copy-source": ("", "nonsense", "/", "%"),
    "range": ("bytes=5-1", "nonsense"),
}


@dataclass(frozen=True)
class Wanted:
    """A request of an operation, and its fault."""

    operation: str
    fault: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def operations() -> list[Route]:
    """Returns all routes. Those of objects are last."""
    return [route for key in sorted(routes(), key=lambda key: key[1]) for route in routes()[key]]


def requests(route: Route, bucket: str, key: str) -> Iterator[Wanted]:
    """Yields the correct request, then one for each fault."""
    model = service_model().operation_model(route.operation)
    whole = Wanted(route.operation, "none", route.method, _path(route, bucket, key), _headers(route, bucket, key), b"")
    for document, fault in _documents(model, bucket):
        yield replace(whole, fault=fault, body=document)
    body = next((document for document, _ in _documents(model, bucket)), b"")
    shape = model.input_shape
    known = {member.serialization.get("name", "").lower() for member in (shape.members.values() if shape else ())}
    for name, values in _HEADERS.items():
        for value in values if name in known else ():
            with_header = {**whole.headers, name: value}
            yield replace(whole, fault=f"{name}: {value}", headers=with_header, body=body)


def _path(route: Route, bucket: str, key: str) -> str:
    place = "/".join(["", bucket, key][: route.depth + 1]) or "/"
    query = "&".join(f"{quote(name)}={quote(value or _query_value(name))}" for name, value in route.query)
    return f"{place}?{query}" if query else place


def _query_value(name: str) -> str:
    return {"partNumber": "1", "uploadId": "none", "id": "one"}.get(name, "")


def _headers(route: Route, bucket: str, key: str) -> dict[str, str]:
    return dict.fromkeys(route.headers, f"/{bucket}/{key}")


def _documents(model: Any, bucket: str) -> Iterator[tuple[bytes, str]]:
    shape = model.input_shape
    payload = shape.serialization.get("payload") if shape else None
    if payload is None or shape.members[payload].type_name != "structure":
        yield b"", "none"
        yield b"<", "a body that is asked for by nobody"
        return
    member = shape.members[payload]
    root = member.serialization.get("name", payload)
    small = _element(root, member, bucket, _DEPTH, required=True)
    full = _element(root, member, bucket, _DEPTH, required=False)
    empty = f'<{root} xmlns="{NAMESPACE}"/>'
    for text, fault in ((small, "none"), (full, "all members"), (empty, "no members"), ("", "no body")):
        yield text.encode(), fault
    for text, fault in (("<", "no XML"), ("x", "no XML at all"), ("<Other/>", "another root"), (full[:-3], "cut off")):
        yield text.encode(), fault
    yield small.encode("utf-16"), "UTF-16"
    yield small.encode().replace(b">", b">\xff", 1), "no UTF-8"
    yield from _with_a_fault(full)


def _with_a_fault(text: str) -> Iterator[tuple[bytes, str]]:
    """Yields the document with one element removed, doubled, emptied or with another text."""
    ElementTree.register_namespace("", NAMESPACE)
    count = len(list(ElementTree.fromstring(text).iter()))
    for place in range(1, count):
        for fault in ("gone", "twice", "emptied", *_TEXTS):
            root = ElementTree.fromstring(text)
            parent, child = [(one, two) for one in root.iter() for two in one][place - 1]
            name = child.tag.rpartition("}")[2]
            if fault == "gone":
                parent.remove(child)
            elif fault == "twice":
                parent.append(child)
            else:
                if fault != "emptied" and len(child):
                    continue
                for inner in list(child):
                    child.remove(inner)
                child.text = "" if fault == "emptied" else fault
            yield ElementTree.tostring(root), f"{name}: {fault!r}"


def _element(name: str, shape: Any, bucket: str, depth: int, *, required: bool) -> str:
    return f'<{name} xmlns="{NAMESPACE}">{_members(shape, bucket, depth, required=required)}</{name}>'


def _members(shape: Any, bucket: str, depth: int, *, required: bool) -> str:
    wanted = shape.required_members if required else shape.members
    return "".join(_member(name, shape.members[name], bucket, depth, required=required) for name in wanted)


def _member(name: str, shape: Any, bucket: str, depth: int, *, required: bool) -> str:
    wire = shape.serialization.get("name", name)
    if not depth or "location" in shape.serialization or shape.serialization.get("xmlAttribute"):
        return ""
    if shape.type_name == "list":
        flat = shape.serialization.get("flattened")
        inner = wire if flat else shape.member.serialization.get("name", "member")
        one = _value(inner, name, shape.member, bucket, depth - 1, required=required)
        return one if flat else f"<{wire}>{one}</{wire}>"
    return _value(wire, name, shape, bucket, depth, required=required)


def _value(wire: str, name: str, shape: Any, bucket: str, depth: int, *, required: bool) -> str:
    if shape.type_name == "structure":
        kind = ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="Group"' if wire == "Grantee" else ""
        return f"<{wire}{kind}>{_members(shape, bucket, depth - 1, required=required)}</{wire}>"
    return f"<{wire}>{escape(_text(wire, shape, bucket))}</{wire}>"


def _text(wire: str, shape: Any, bucket: str) -> str:
    if wire in _VALUES:
        return _VALUES[wire].format(bucket=bucket)
    if shape.type_name in ("integer", "long"):
        return "1"
    if shape.type_name == "boolean":
        return "true"
    if shape.type_name == "timestamp":
        return "2030-01-01T00:00:00Z"
    return shape.enum[0] if getattr(shape, "enum", None) else "text"
