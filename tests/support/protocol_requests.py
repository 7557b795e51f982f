"""Requests of every service and protocol, written by botocore's serializers, and ways to confuse their reader."""

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel
from botocore.serialize import SERIALIZERS

FORM = "application/x-www-form-urlencoded; charset=utf-8"
#: Operations that nobody may call.
TWO_NAMES = "two names"
BOUNDARY = "multipart/form-data; boundary=x"
#: How deep values go. Beyond that, required members are left out.
_DEPTH = 6
_LOADER = Loader()


@dataclass(frozen=True)
class Sent:
    """An unsigned request."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    #: The change that was made to it.
    trick: str = ""

    def tricked(self, trick: str, **changes: Any) -> "Sent":
        headers = {**self.headers, **changes.pop("headers", {})}
        return replace(self, trick=trick, headers=headers, **changes)


@cache
def service_model(name: str) -> ServiceModel:
    return ServiceModel(_LOADER.load_service_model(name, "service-2"), name)


def protocols_of(model: ServiceModel) -> list[str]:
    named: list[str] = model.metadata.get("protocols") or [model.metadata["protocol"]]
    # SQS's clients spoke Query until 2023.
    return [*named, "query"] if model.service_name == "sqs" else named


def written(operation: OperationModel, protocol: str) -> Sent:
    """Returns a request for the operation with its required members only."""
    shape = operation.input_shape
    parameters = _value(shape, 0) if shape is not None else {}
    made = SERIALIZERS[protocol]().serialize_to_request(parameters, operation)
    body, headers = made["body"], {name.lower(): str(value) for name, value in made["headers"].items()}
    if isinstance(body, dict):
        body = urlencode(body, doseq=True)
        headers["content-type"] = FORM
    query = made["query_string"]
    path, _, literal = made["url_path"].partition("?")
    fields = query if isinstance(query, str) else urlencode(query, doseq=True)
    data = body.encode() if isinstance(body, str) else bytes(body)
    return Sent(made["method"], path, "&".join(filter(None, (literal, fields))), headers, data)


def _value(shape: Any, depth: int) -> Any:
    kind = shape.type_name
    if kind == "structure":
        names = shape.required_members or (list(shape.members)[:1] if getattr(shape, "is_tagged_union", False) else [])
        return {name: _value(shape.members[name], depth + 1) for name in names} if depth < _DEPTH else {}
    if kind == "list":
        return [_value(shape.member, depth + 1)] if depth < _DEPTH else []
    if kind == "map":
        return {_value(shape.key, depth + 1): _value(shape.value, depth + 1)} if depth < _DEPTH else {}
    simple: dict[str, Any] = {
        "boolean": True, "blob": b"x", "timestamp": datetime(2026, 1, 1, tzinfo=timezone.utc),
        "integer": 1, "long": 1, "float": 1.0, "double": 1.0, "bigdecimal": "1", "biginteger": 1,
    }  # fmt: skip
    if kind in simple:
        return simple[kind]
    return (getattr(shape, "enum", None) or ["x" * max(1, shape.metadata.get("min", 1))])[0]


def confused(sent: Sent, other: str, other_target: str) -> Iterator[Sent]:
    """Yields the request with another operation's name in each place where a reader may look for one."""
    action = f"Action={other}"
    target = sent.headers.get("x-amz-target", "")
    prefix, _, name = target.rpartition(".")
    yield sent.tricked("action in the query string", query="&".join(filter(None, (sent.query, action))))
    yield sent.tricked("action first in the query string", query="&".join(filter(None, (action, sent.query))))
    yield sent.tricked("a form", body=action.encode(), headers={"content-type": FORM})
    yield sent.tricked("a form behind the body", body=sent.body + f"&{action}".encode())
    yield sent.tricked("a form before the body", body=f"{action}&".encode() + sent.body)
    yield sent.tricked("a form without a type", body=action.encode(), headers={"content-type": "text/plain"})
    yield sent.tricked("JSON like a form", body=json.dumps({"x": f"&{action}&"}).encode())
    packed = gzip.compress(f"&{action}".encode() + sent.body)
    yield sent.tricked("packed", body=packed, headers={"content-type": FORM, "content-encoding": "gzip"})
    part = f'--x\r\nContent-Disposition: form-data; name="Action"\r\n\r\n{other}\r\n--x--\r\n'.encode()
    yield sent.tricked("parts", body=part, headers={"content-type": BOUNDARY})
    yield sent.tricked("a header called Action", body=b"", headers={"action": other, "content-type": "text/plain"})
    if not target:
        yield sent.tricked(TWO_NAMES, headers={"x-amz-target": other_target})
    if target or b"Action=" in sent.body:
        yield sent.tricked(TWO_NAMES, query=action)
    yield sent.tricked("RPC", path=f"/service/x/operation/{other}", headers={"smithy-protocol": "rpc-v2-cbor"})
    yield sent.tricked("another method", headers={"x-http-method-override": "DELETE"})
    if target:
        yield sent.tricked("a dot too many", headers={"x-amz-target": f"{prefix}.{other}.{name}"})
        yield sent.tricked("as moto spells it", headers={"x-amz-target": f"{prefix}.{_snake(other)}"})
        yield sent.tricked("an old prefix", headers={"x-amz-target": f"DynamoDB_20111205.{other}.{name}"})
        yield sent.tricked("another prefix", headers={"x-amz-target": f"X.{name}"})
    if b"Action=" in sent.body:
        yield sent.tricked("spelled", body=action.replace(other, _snake(other)).encode())
        yield sent.tricked("no action", body=b"Version=1")
    if sent.path != "/":
        yield sent.tricked("a slash behind it", path=f"{sent.path}/")
        yield sent.tricked("two slashes", path=f"/{sent.path}")
        yield sent.tricked("up and down", path=f"/x/..{sent.path}")
        yield sent.tricked("escaped", path=quote(sent.path, safe="").replace("%2F", "/", 1))
        yield sent.tricked("a parameter of the path", path=f"{sent.path};x")
        for method in ("GET", "PUT", "POST", "DELETE", "PATCH", "HEAD"):
            if method != sent.method:
                yield sent.tricked(f"as {method}", method=method)
    else:
        yield sent.tricked("GET", method="GET")
        yield sent.tricked("a path", path="/2015-03-31/functions/x")


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() and i else letter.lower() for i, letter in enumerate(name))
