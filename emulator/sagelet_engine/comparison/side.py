"""One job of a comparison."""

from dataclasses import dataclass

from sagelet_engine.comparison.facts import JobFacts
from sagelet_engine.comparison.measured import Measured


@dataclass(frozen=True)
class Side:
    """A job with its measured figures."""

    facts: JobFacts
    measured: Measured
    #: For legends.
    label: str
    #: For sentences. Jobs of several accounts may have the same name.
    name: str
