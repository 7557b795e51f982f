"""The result of one check of the machine."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    name: str
    good: bool
    #: What was seen, for people.
    found: str
    #: What to do; empty where all is good.
    remedy: str = ""
    #: False: all works without it, only something is missing that some want.
    needed: bool = True
