"""Values of parameters: PipelineParameters are texts, and each type reads its own."""

from typing import Any

import pytest

from sagelet_engine.pipelines.definition import InvalidDefinition, parse
from support.pipelines import definition, fail, parameter


def value(kind: str, text: str) -> Any:
    read = parse(definition(fail("F", "x"), parameters=[parameter("P", kind)]))
    return read.values([{"Name": "P", "Value": text}])["P"]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("Integer", "007", 7),
        ("Integer", "-5", -5),
        ("Integer", "000000000000000000000000000001", 1),
        ("Float", "1e-3", 0.001),
        ("Float", ".5", 0.5),
        ("Float", "3", 3.0),
        ("Boolean", "true", True),
        ("Boolean", "False", False),
        ("String", "007", "007"),
        ("String", "true", "true"),
        ("String", "日本 \U0001f600 \u202e", "日本 \U0001f600 \u202e"),
        ("String", "x" * 1024, "x" * 1024),
        ("String", "", ""),
    ],
)
def test_a_value_in_its_type(kind: str, text: str, expected: Any) -> None:
    found = value(kind, text)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Integer", "1_000"),
        ("Integer", " 7"),
        ("Integer", "7\n"),
        ("Integer", "٣"),
        ("Integer", "1.0"),
        ("Integer", "9" * 1024),
        ("Integer", ""),
        ("Float", "nan"),
        ("Float", "Infinity"),
        ("Float", "1e999"),
        ("Float", "1_0"),
        ("Float", "0x1"),
        ("Boolean", "1"),
        ("Boolean", "yes"),
        ("Boolean", ""),
    ],
)
def test_a_value_of_another_type_is_refused(kind: str, text: str) -> None:
    with pytest.raises(InvalidDefinition, match=f"^Parameter P must be of type {kind}, not ") as refused:
        value(kind, text)
    assert len(str(refused.value)) < 200
