"""A line of a user's source: where a finding points."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's source. `file` is relative to the source directory."""

    file: str
    line: int
