"""zip(strict=True) for Python 3.9, which lacks it. The image for scripts of 2021 to 2023 runs this package on 3.9."""

from collections.abc import Collection, Iterator
from typing import TypeVar

First = TypeVar("First")
Second = TypeVar("Second")


def paired(first: Collection[First], second: Collection[Second]) -> Iterator[tuple[First, Second]]:
    """Pairs two collections. Raises ValueError if their lengths differ."""
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} elements do not pair up")
    return zip(first, second)
