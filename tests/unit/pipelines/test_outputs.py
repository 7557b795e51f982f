"""Outputs of Lambda steps."""

import json
from typing import Any

import pytest

from sagelet_engine.pipelines.outputs import BadOutput, read


def wanted(**types: str) -> list[dict[str, str]]:
    return [{"OutputName": name, "OutputType": kind} for name, kind in types.items()]


def test_members_of_what_the_function_returned() -> None:
    returned = {"statusCode": 200, "a": "x", "b": 3, "c": False, "d": 1, "e": 0.5}
    outputs = wanted(a="String", b="Integer", c="Boolean", d="Float", e="Float")
    assert read(json.dumps(returned), outputs) == {"a": "x", "b": 3, "c": False, "d": 1, "e": 0.5}
    assert read(json.dumps({"a": "x"}), [{"OutputName": "a"}]) == {"a": "x"}
    assert read("null", []) == {}


@pytest.mark.parametrize(
    ("returned", "kind", "why"),
    [
        ({"a": 1}, "String", "a must be of type String, and it returned 1"),
        ({"a": "1"}, "Integer", 'a must be of type Integer, and it returned "1"'),
        ({"a": 1.5}, "Integer", "of type Integer"),
        ({"a": True}, "Integer", "of type Integer"),
        ({"a": True}, "Float", "of type Float"),
        ({"a": 1}, "Boolean", "of type Boolean"),
        ({"a": float("nan")}, "Float", "of type Float"),
        ({"a": {"b": 1}}, "String", "of type String"),
        ({"a": None}, "String", "of type String"),
        ({"a": "x" * 1025}, "String", "more than 1024 characters"),
        ({}, "String", "it returned no a"),
        (None, "String", "it returned no object"),
        ([1], "String", "it returned no object"),
    ],
)
def test_other_values_fail_the_step(returned: Any, kind: str, why: str) -> None:
    with pytest.raises(BadOutput, match=why.replace('"', ".")):
        read(json.dumps(returned), wanted(a=kind))
