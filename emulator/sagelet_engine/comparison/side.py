"""One job of a comparison."""

from dataclasses import dataclass

from sagelet_engine.comparison.facts import JobFacts
from sagelet_engine.comparison.measured import Measured
from sagelet_engine.telemetry.compiler.one_run import Trust

#: Figures that AWS gives in whole seconds, and how many seconds that hides.
_WHOLE_SECONDS = {"training_seconds": 0.5, "billable_seconds": 0.5}


@dataclass(frozen=True)
class Side:
    """A job with its measured figures."""

    facts: JobFacts
    measured: Measured
    #: For legends.
    label: str
    #: For sentences. Jobs of several accounts may have the same name.
    name: str
    #: How far its speed can be compared with the first job's.
    trust: Trust

    def tells_apart(self, baseline: "Side", key: str) -> bool:
        """True if one run of each job says that a figure of speed differs."""
        before, after = (getattr(side.measured, key).number for side in (baseline, self))
        return self.trust.tells_apart(before, after, _WHOLE_SECONDS.get(key, 0.0))
