"""The numbers of nested lists, in their order."""

from collections.abc import Iterator
from typing import Any


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, list):
        for one in value:
            yield from numbers(one)
    else:
        yield value
