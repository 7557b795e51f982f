"""Settings of a test's server, from plain values."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from sagelet_engine.base.errors import SettingsError
from sagelet_engine.settings import Settings


def check_names(names: Iterable[str]) -> None:
    """Raises SettingsError for a name that is not a setting."""
    known = [field.name for field in fields(Settings)]
    for name in names:
        if name not in known:
            raise SettingsError(f"{name} is not a setting{_similar(name, known)} (sagelet_engine.settings.Settings)")


def settings_from(values: Mapping[str, Any]) -> Settings:
    """Makes settings of values that JSON has: texts for paths and choices, lists for tuples. Raises SettingsError."""
    check_names(values)
    kinds = get_type_hints(Settings)
    return Settings(**{name: _converted(name, kinds[name], value) for name, value in values.items()})


def _converted(name: str, kind: Any, value: Any) -> Any:
    origin = get_origin(kind)
    if origin is tuple:
        if isinstance(value, str):
            raise SettingsError(f"{name}: {value!r} must be a list")
        return tuple(value)
    if origin is Mapping:
        return {key: Path(path) for key, path in value.items()}
    # One type, or one and None.
    members = get_args(kind) or (kind,)
    if value is None and NoneType in members:
        return None
    wanted = members[0]
    if issubclass(wanted, Enum):
        return _choice(name, wanted, value)
    if wanted is Path and isinstance(value, (str, Path)):
        return Path(value)
    number = wanted is float and isinstance(value, int)
    if not (isinstance(value, wanted) or number) or (isinstance(value, bool) and wanted is not bool):
        raise SettingsError(f"{name}: {value!r} must be of the type {wanted.__name__}")
    return value


def _choice(name: str, kind: type[Enum], value: Any) -> Enum:
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(str(one.value) for one in kind)
        raise SettingsError(f"{name}: {value!r} must be one of {choices}") from None


def _similar(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # Loaded late: for a mistyped name only.

    like = get_close_matches(name, known, 1)
    return f"; did you mean {like[0]}?" if like else ""
