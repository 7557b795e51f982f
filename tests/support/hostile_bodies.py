"""Requests of any operation, made from a seed and botocore's model: partly right, partly what breaks parsers."""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

TEXTS = (
    "", " ", "a", "a-job", "x" * 63, "x" * 257, "x" * 5_000, "\0", "a\0b", "\r\n", "\x1b]0;title\x07", "\ufeff",
    "\u202eabc", "../../etc/passwd", "%00", "%2e%2e", "${jndi:ldap://x}", "{{7*7}}", "<script>alert(1)</script>",
    "'; DROP TABLE jobs;--", "\U0001f600" * 60, "e\u0301", "\uffff", "s3://", "s3://b", "s3://b/k", "s3:///k",
    "http://169.254.169.254/", "file:///etc/passwd", "arn:aws:sagemaker:us-east-1:123456789012:training-job/a-job",
    "arn:aws:iam::123456789012:role/r", ":" * 10, "null", "true", "0", "-1", "NaN", "1e999", "(a+)+$", "[", "(?P<",
    "*", "\\", "AAAA", "f/" + "9" * 56, "2026-01-01T00:00:00Z",
)  # fmt: skip
NUMBERS = (0, 1, -1, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 0.5, -0.0, 1e308, 1e-320)
WILD: tuple[Any, ...] = (
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"a": {"a": {"a": [1]}}},
    *TEXTS,
    *NUMBERS,
)
MOST_OPTIONAL = 6


class Bodies:
    """Makes bodies. `known`: values of members, by name, that exist, such as the name of a job."""

    def __init__(self, seed: int, known: Mapping[str, Any]) -> None:
        self._chance = random.Random(seed)
        self._known = known

    def of(self, shape: Any) -> Any:
        """Returns a value of the shape, with something wrong in places."""
        return {} if shape is None else self._value(shape, shape.name, 0)

    def encoded(self, value: Any) -> bytes:
        """Returns the value as JSON. One in four has damaged bytes."""
        data = json.dumps(value, ensure_ascii=self._chance.random() < 0.5).encode("utf-8", "surrogatepass")
        if self._chance.random() < 0.75:
            return data
        return self._chance.choice(_DAMAGES)(self._chance, data)

    def _value(self, shape: Any, name: str, depth: int) -> Any:
        chance = self._chance
        if chance.random() < 0.08:
            return chance.choice(WILD)
        if name in self._known and chance.random() < 0.8:
            return self._known[name]
        kind = shape.type_name
        if kind == "structure":
            return self._structure(shape, depth)
        if kind == "list":
            count = chance.choice((0, 1, 1, 2, 2, 101)) if depth < 2 else 1
            one = self._value(shape.member, name, depth + 1)
            return [one] * count if count > 2 else [self._value(shape.member, name, depth + 1) for _ in range(count)]
        if kind == "map":
            return {
                str(self._value(shape.key, "", depth + 1)): self._value(shape.value, "", depth + 1)
                for _ in range(chance.randrange(4))
            }
        return self._scalar(shape, kind)

    def _scalar(self, shape: Any, kind: str) -> Any:
        chance = self._chance
        if kind == "boolean":
            return chance.random() < 0.5
        if kind in ("integer", "long", "float", "double", "timestamp"):
            edges = [
                shape.metadata[edge] + by for edge in ("min", "max") for by in (-1, 0, 1) if edge in shape.metadata
            ]
            return chance.choice([*edges, *NUMBERS, 1, 1, 10])
        if kind == "string" and shape.enum and chance.random() < 0.85:
            return chance.choice(shape.enum)
        return chance.choice(TEXTS)

    def _structure(self, shape: Any, depth: int) -> dict[str, Any]:
        chance = self._chance
        optional = [name for name in shape.members if name not in shape.required_members]
        chosen = chance.sample(optional, min(len(optional), chance.randrange(MOST_OPTIONAL + 1))) if depth < 6 else []
        chosen += [name for name in shape.required_members if chance.random() < 0.97]
        body = {name: self._value(shape.members[name], name, depth + 1) for name in chosen}
        if chance.random() < 0.04:
            body[chance.choice(TEXTS)] = chance.choice(WILD)
        return body


Damage = Callable[[random.Random, bytes], bytes]


def _cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _byte(chance: random.Random, data: bytes) -> bytes:
    place = chance.randrange(len(data) + 1)
    odd = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b"\xf4\x90\x80\x80", b"\n", b'"', b"\\", b"\xef\xbb\xbf")
    return data[:place] + chance.choice(odd) + data[place:]


def _constant(chance: random.Random, _data: bytes) -> bytes:
    constant = chance.choice(
        (b"NaN", b"Infinity", b"-Infinity", b"1" * 5000, b"1e400", b"-0", b"01", b'"\\ud800"', b'"\\u0000"')
    )
    return b'{"TrainingJobName": ' + constant + b"}"


def _nested(chance: random.Random, _data: bytes) -> bytes:
    deep = chance.choice((900, 20_000, 200_000))
    opening = chance.choice((b"[", b'{"a":'))
    return b'{"Tags":' + opening * deep + b"1" + (b"]" if opening == b"[" else b"}") * chance.choice((0, deep)) + b"}"


def _doubled(_chance: random.Random, data: bytes) -> bytes:
    return b'{"TrainingJobName": "first", "TrainingJobName": "second", ' + data[1:]


def _other(chance: random.Random, _data: bytes) -> bytes:
    return chance.choice(
        (b"", b" ", b"[]", b"1", b"null", b'"a"', b"{}{}", b"<xml/>", b"a=b", b"\x1f\x8b", b"{" * 3, b"{'a': 1}")
    )


_DAMAGES: tuple[Damage, ...] = (_cut, _byte, _constant, _nested, _doubled, _other)
