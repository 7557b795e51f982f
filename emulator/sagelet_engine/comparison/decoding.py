"""Reads JSON of another sagelet server into dataclasses. What does not fit comes from another version."""

from collections.abc import Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from sagelet_engine.base.errors import SageletError

T = TypeVar("T")


class OtherVersion(SageletError):
    """The server has another version of sagelet than the program that asks it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: the server is another version of sagelet; start it again with this one")


def build(kind: type[T], value: object) -> T:
    """Makes an instance of a dataclass of scalars, tuples, mappings and dataclasses. Unknown names are left out.

    Raises OtherVersion.
    """
    made: T = _fit(kind, value)
    return made


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _fit(hint: Any, value: object) -> Any:
    if is_dataclass(hint):
        return _dataclass(hint, value)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is UnionType:
        return None if value is None else _fit(next(part for part in parts if part is not type(None)), value)
    if origin is tuple and isinstance(value, list):
        return tuple(_fit(parts[0], entry) for entry in value)
    if origin is not None and issubclass(origin, Mapping) and isinstance(value, dict):
        return {str(name): _fit(parts[1], entry) for name, entry in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and isinstance(value, hint) and (hint is bool) == isinstance(value, bool):
        return value
    raise OtherVersion(f"{value!r:.80} is not {hint}")


def _dataclass(kind: Any, value: object) -> Any:
    if not isinstance(value, Mapping):
        raise OtherVersion(f"{value!r:.80} is not a {kind.__name__}")
    hints = _hints(cast(Hashable, kind))
    given = {one.name: _fit(hints[one.name], value[one.name]) for one in fields(kind) if one.name in value}
    missing = [one.name for one in fields(kind) if one.name not in given and one.default is MISSING]
    if missing:
        raise OtherVersion(f"{kind.__name__} without {', '.join(missing)}")
    return kind(**given)
