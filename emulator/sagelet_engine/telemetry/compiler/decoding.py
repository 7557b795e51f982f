"""Turns JSON that a container wrote into dataclasses. What does not fit keeps its default; nothing raises."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints, is_typeddict

from sagelet_engine.base.wire import JsonObject

T = TypeVar("T")

#: The most entries of a list or a dictionary.
MOST_ENTRIES = 512
MOST_CHARACTERS = 512
#: The largest number. A double holds it exactly, so that sums stay numbers of JSON.
LARGEST = 2**53
#: A smaller number is 0: no clock shows it, and a quotient by it may be beyond a double.
SMALLEST = 1e-30


def decode(kind: type[T], value: object) -> T:
    """Makes an instance of the dataclass `kind` from any JSON value. Numbers are finite and not negative."""
    made: T = _dataclass(kind, value)
    return made


def _dataclass(kind: type[Any], value: object) -> Any:
    if not isinstance(value, Mapping):
        return kind()
    given = {}
    for name, hint in _hints(cast(Hashable, kind)).items():
        fitted = _fit(hint, value.get(name))
        if fitted is not None:
            given[name] = fitted
    return kind(**given)


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {one.name: hints[one.name] for one in fields(kind)}


def _fit(hint: Any, value: object) -> Any:
    """Returns the value as this type, or None if it is not of this type."""
    if is_dataclass(hint):
        return _dataclass(hint, value) if isinstance(hint, type) else None
    if get_origin(hint) is tuple:
        return _sequence(get_args(hint)[0], value)
    if get_origin(hint) is dict:
        return _mapping(get_args(hint)[1], value)
    if is_typeddict(hint):
        return _mapping(Any, value)
    return _scalar(hint, value)


def _sequence(hint: Any, value: object) -> tuple[Any, ...] | None:
    if not isinstance(value, list):
        return None
    fitted = (_fit(hint, entry) for entry in value[:MOST_ENTRIES])
    return tuple(entry for entry in fitted if entry is not None)


def _mapping(hint: Any, value: object) -> JsonObject | None:
    if not isinstance(value, Mapping):
        return None
    fitted = {
        _printable(name[:MOST_CHARACTERS]): _fit(hint, entry) for name, entry in list(value.items())[:MOST_ENTRIES]
    }
    return {name: entry for name, entry in fitted.items() if entry is not None}


def _scalar(hint: Any, value: object) -> Any:
    if hint is Any:
        return value
    if hint is bool:
        return value if isinstance(value, bool) else None
    if hint is str:
        return _printable(value[:MOST_CHARACTERS]) if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    return hint(min(value, LARGEST) if value >= SMALLEST else 0) if abs(value) != math.inf else None


def _printable(text: str) -> str:
    """Removes control characters, which a terminal would obey, and lone surrogates, which no file can hold."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
