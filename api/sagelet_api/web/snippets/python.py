"""Writes values as Python source."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

_STEP = "    "
#: The most columns of a list or map on one line.
_WIDTH = 100


def literal(value: Any, indent: str = "") -> str:
    """Returns JSON-like values as source, on one line if they fit."""
    if isinstance(value, Mapping):
        return _joined("{", [f"{literal(key)}: {{}}" for key in value], list(value.values()), "}", indent)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _joined("[", ["{}"] * len(value), list(value), "]", indent)
    # JSON's escapes are Python's. Only these three names differ.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def call(name: str, arguments: Mapping[str, str], indent: str = "") -> str:
    """Returns a call with keywords, one on each line. Its values are source already."""
    inner = "".join(f"{indent}{_STEP}{key}={value},\n" for key, value in arguments.items())
    return f"{name}(\n{inner}{indent})" if arguments else f"{name}()"


def _joined(opening: str, heads: list[str], values: list[Any], closing: str, indent: str) -> str:
    flat = (
        opening + ", ".join(_filled(head, literal(value)) for head, value in zip(heads, values, strict=True)) + closing
    )
    if "\n" not in flat and len(flat) + len(indent) <= _WIDTH:
        return flat
    inner = indent + _STEP
    lines = "".join(
        f"{inner}{_filled(head, literal(value, inner))},\n" for head, value in zip(heads, values, strict=True)
    )
    return f"{opening}\n{lines}{indent}{closing}"


def _filled(head: str, value: str) -> str:
    """Puts the value into the pair of braces at the end of `head`. A key may hold braces, too."""
    return head[:-2] + value
