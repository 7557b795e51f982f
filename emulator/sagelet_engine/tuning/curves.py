"""What the trials of tuning jobs have reported so far, for early stopping."""

from collections.abc import Sequence

from sagelet_engine.model.tuning import Trial, TrialState, TuningJob
from sagelet_engine.store.jobs import Store
from sagelet_engine.tuning.strategies.strategy import Curve


class Curves:
    """Reads each value of the objective metric once. A new server reads them again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: By tuning job, then by the trial's ordinal.
        self._read: dict[str, dict[int, Curve]] = {}
        #: Training jobs that have ended, and whose values are all read.
        self._complete: dict[str, set[int]] = {}

    def of(self, record: TuningJob, trials: Sequence[Trial]) -> dict[int, Curve]:
        """Returns the curves of the trials that have training jobs, by ordinal. They are valid until the next call."""
        curves = self._read.setdefault(record.id, {})
        complete = self._complete.setdefault(record.id, set())
        for trial in trials:
            if trial.state is TrialState.PLANNED or trial.ordinal in complete:
                continue
            curve = curves.setdefault(trial.ordinal, Curve())
            metric = record.spec.definition(trial.definition).objective.metric
            for order, value in self._store.points.beyond(trial.job_id, metric, curve.orders[-1] if curve else 0):
                curve.add(order, value)
            if trial.ended:
                complete.add(trial.ordinal)
        return curves

    def forget(self, record_id: str) -> None:
        self._read.pop(record_id, None)
        self._complete.pop(record_id, None)
