"""One job of a comparison."""

from dataclasses import dataclass

from sagelet_engine.comparison.facts import JobFacts
from sagelet_engine.comparison.measured import Measured


@dataclass(frozen=True)
class Side:
    """A job with what was measured of it."""

    facts: JobFacts
    measured: Measured
    #: For legends.
    label: str
    #: For sentences: jobs of several accounts may have one name.
    name: str
