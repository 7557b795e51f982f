"""JSON of our own server back into dataclasses. What does not fit raises ValueError: it is another version's."""

from collections.abc import Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def build(kind: type[T], value: object) -> T:
    """An instance of a dataclass of scalars, tuples, mappings and dataclasses. Unknown names are left out."""
    made: T = _fit(kind, value)
    return made


@cache
def _hints(kind: Any) -> dict[str, Any]:
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
    raise ValueError(f"{value!r:.80} is no {hint}: another version of sagelet made it")


def _dataclass(kind: Any, value: object) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r:.80} is no {kind.__name__}: another version of sagelet made it")
    hints = _hints(cast(Hashable, kind))
    given = {one.name: _fit(hints[one.name], value[one.name]) for one in fields(kind) if one.name in value}
    missing = [one.name for one in fields(kind) if one.name not in given and one.default is MISSING]
    if missing:
        raise ValueError(f"{kind.__name__} without {', '.join(missing)}: another version of sagelet made it")
    return kind(**given)
