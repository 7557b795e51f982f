"""zip(strict=True), which Python 3.9 does not have: the image of scripts of 2021 to 2023 runs this package on it."""

from collections.abc import Collection, Iterator
from typing import TypeVar

First = TypeVar("First")
Second = TypeVar("Second")


def paired(first: Collection[First], second: Collection[Second]) -> Iterator[tuple[First, Second]]:
    """Pairs of two collections of equal length. Raises ValueError where the lengths differ."""
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} elements do not pair up")
    return zip(first, second)
