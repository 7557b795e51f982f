"""What conditions compare: numbers, texts that are numbers, and texts."""

from typing import Any

import pytest

from sagelet_engine.pipelines.conditions import holds
from sagelet_engine.pipelines.expressions import Scope, Unresolved
from support.pipelines import compare


def scope() -> Scope:
    def nothing(*_names: str) -> Any:
        raise AssertionError("nothing is read")

    return Scope({}, {}, {}, {}, nothing, nothing)


@pytest.mark.parametrize(
    ("kind", "left", "right", "outcome"),
    [
        ("Equals", 1, 1.0, True),
        ("Equals", "1", 1.0, True),
        ("Equals", "1", "1.0", False),
        ("Equals", True, 1, False),
        ("LessThan", "9", 10, True),
        # Two texts are ordered by their letters, as SDK v2's local mode does. So are two that look like numbers.
        ("GreaterThan", "b", "a", True),
        ("LessThan", "B", "a", True),
        ("GreaterThanOrEqualTo", "a", "a", True),
        ("LessThanOrEqualTo", "ab", "aa", False),
        ("LessThan", "9", "10", False),
    ],
)
def test_values_are_compared(kind: str, left: Any, right: Any, outcome: bool) -> None:
    assert holds(compare(kind, left, right), scope()) is outcome


@pytest.mark.parametrize(("left", "right"), [("a", 1), (1, "a"), (True, 1), (True, False), ("a", True), ([1], 2)])
def test_what_has_no_order_fails(left: Any, right: Any) -> None:
    with pytest.raises(Unresolved, match="is not a number"):
        holds(compare("LessThan", left, right), scope())
