"""A place in a user's source."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A line of the user's source. `file` is relative to the source directory."""

    file: str
    line: int
