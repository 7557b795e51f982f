"""The result of one check of the machine."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    name: str
    good: bool
    #: What was seen, for people.
    found: str
    #: What to do. Empty if all is well.
    remedy: str = ""
    #: False if everything works without it, and only an optional feature is missing.
    needed: bool = True
