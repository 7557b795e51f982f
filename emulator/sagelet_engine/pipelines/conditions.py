"""The conditions of a Condition step (SDK v2's `sagemaker/workflow/conditions.py` writes them).

`NotEquals` and `NotIn`, and the members `Value` and `In`, are those of the JSON schema of definitions that the page
"Pipelines overview" of the developer guide links.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sagelet_engine.base.number_text import number_in
from sagelet_engine.pipelines.expression_rules import operand_faults
from sagelet_engine.pipelines.expressions import Scope, Unresolved, resolve, text_of

_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "GreaterThan": operator.gt,
    "GreaterThanOrEqualTo": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqualTo": operator.le,
}
_COMPARISONS = frozenset({"Equals", "NotEquals", *_ORDER})
_MEMBERSHIPS = frozenset({"In", "NotIn"})
TYPES = (*sorted(_COMPARISONS | _MEMBERSHIPS), "Not", "Or")


def faults(condition: Any, place: str) -> Iterator[str]:
    """Yields what is wrong with a condition and those inside it, each with its place, such as `Conditions[0]`."""
    if not isinstance(condition, dict):
        yield f"{place} must be an object"
        return
    kind = condition.get("Type")
    if not isinstance(kind, str) or kind not in TYPES:
        yield f"{place}.Type must be one of {', '.join(TYPES)}"
    elif kind in _COMPARISONS:
        for member in ("LeftValue", "RightValue"):
            yield from _operand(condition, member, place)
    elif kind in _MEMBERSHIPS:
        query, values = _membership(condition)
        yield from _operand(condition, query, place)
        for index, one in enumerate(_list(condition, values)):
            yield from operand_faults(one, f"{place}.{values}[{index}]")
        yield from _list_fault(condition, values, place)
    elif kind == "Not":
        yield from faults(condition.get("Condition"), f"{place}.Condition")
    else:
        for index, one in enumerate(_list(condition, "Conditions")):
            yield from faults(one, f"{place}.Conditions[{index}]")
        yield from _list_fault(condition, "Conditions", place)


def _operand(condition: Mapping[str, Any], member: str, place: str) -> Iterator[str]:
    if member in condition:
        yield from operand_faults(condition[member], f"{place}.{member}")
    else:
        yield f"{place} has the type {condition['Type']} and needs {member}"


def _list(condition: Mapping[str, Any], member: str) -> list[Any]:
    found = condition.get(member)
    return found if isinstance(found, list) else []


def _list_fault(condition: Mapping[str, Any], member: str, place: str) -> Iterator[str]:
    if not isinstance(condition.get(member), list):
        yield f"{place} has the type {condition['Type']} and needs {member}, a list"


def _membership(condition: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the members for the value and for those among which it is looked for: the SDK's, or the schema's."""
    return ("Value", "In") if "QueryValue" not in condition and "Value" in condition else ("QueryValue", "Values")


def holds(condition: Any, scope: Scope) -> bool:
    """Returns whether a condition without faults holds. Raises Unresolved if it cannot be computed."""
    kind = condition["Type"]
    if kind == "Not":
        return not holds(condition["Condition"], scope)
    if kind == "Or":
        # A condition that cannot be computed fails the step, wherever it stands. So all are computed.
        outcomes = [holds(one, scope) for one in condition["Conditions"]]
        return any(outcomes)
    if kind in _MEMBERSHIPS:
        query, values = _membership(condition)
        value = resolve(condition[query], scope)
        among = [resolve(one, scope) for one in condition[values]]
        return any(_equal(value, one) for one in among) is (kind == "In")
    left, right = resolve(condition["LeftValue"], scope), resolve(condition["RightValue"], scope)
    if kind in _ORDER:
        # SDK v2's local mode orders two texts by their letters.
        texts = isinstance(left, str) and isinstance(right, str)
        return _ORDER[kind](left, right) if texts else _ORDER[kind](_number(left), _number(right))
    return _equal(left, right) is (kind == "Equals")


def _equal(left: Any, right: Any) -> bool:
    """Text that is a number equals that number: parameters of a definition may be text."""
    if type(left) is type(right):
        return bool(left == right)
    try:
        return _number(left) == _number(right)
    except Unresolved:
        return False


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise Unresolved(f"{text_of(value)[:200]} is not a number")
    try:
        number = number_in(value) if isinstance(value, str) else float(value)
    except OverflowError:
        number = None
    if number is None:
        raise Unresolved(f"{text_of(value)[:200]} is not a number")
    return number
