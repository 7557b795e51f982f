"""The conditions of a Condition step (SDK v2's `sagemaker/workflow/conditions.py` writes them)."""

from collections.abc import Callable, Mapping
from typing import Any

from sagelet_engine.pipelines.expressions import Scope, Unresolved, resolve

_ORDER: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThan": lambda left, right: left > right,
    "GreaterThanOrEqualTo": lambda left, right: left >= right,
    "LessThan": lambda left, right: left < right,
    "LessThanOrEqualTo": lambda left, right: left <= right,
}


_OPERANDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Equals", *_ORDER), ("LeftValue", "RightValue")),
    "In": ("QueryValue", "Values"),
    "Not": ("Condition",),
    "Or": ("Conditions",),
}


def is_whole(condition: Any) -> bool:
    """True if a condition has a known type and its operands, and so have those inside it."""
    operands = _OPERANDS.get(condition.get("Type", "")) if isinstance(condition, dict) else None
    if operands is None or any(name not in condition for name in operands):
        return False
    inner = condition.get("Conditions", []) if condition["Type"] == "Or" else []
    inner = [condition["Condition"]] if condition["Type"] == "Not" else inner
    return isinstance(inner, list) and all(map(is_whole, inner))


def holds(condition: Any, scope: Scope) -> bool:
    """Returns whether a condition holds. Raises Unresolved if it cannot be computed."""
    kind = condition.get("Type")
    if kind == "Not":
        return not holds(condition["Condition"], scope)
    if kind == "Or":
        # A condition that cannot be computed fails the step, wherever it stands. So all are computed.
        outcomes = [holds(one, scope) for one in condition["Conditions"]]
        return any(outcomes)
    if kind == "In":
        value = resolve(condition["QueryValue"], scope)
        return any(_equal(value, resolve(one, scope)) for one in condition["Values"])
    left, right = resolve(condition["LeftValue"], scope), resolve(condition["RightValue"], scope)
    if kind == "Equals":
        return _equal(left, right)
    if kind in _ORDER:
        return _ORDER[kind](_number(left), _number(right))
    raise Unresolved(f"There is no condition of type {kind}")


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
        raise Unresolved(f"{value!r} is not a number")
    try:
        return float(value)
    except ValueError as error:
        raise Unresolved(f"{value!r} is not a number") from error
