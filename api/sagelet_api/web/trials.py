"""The trials of a tuning job as a page shows them: those that run, then the others by their objective."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sagelet_api.display import since
from sagelet_engine.base.number_text import number_in
from sagelet_engine.engine import Engine
from sagelet_engine.instances.bill import Bill
from sagelet_engine.model.job import JobStatus
from sagelet_engine.model.spec import unquoted
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.model.tuning import Trial, TuningJob


def counted(job: TuningJob) -> str:
    """Returns `2 of 4 completed, 1 running`."""
    counters = job.counters
    limit = f" of {job.spec.max_trials}" if job.spec.max_trials else ""
    failed = counters.retryable + counters.non_retryable
    others = ((counters.in_progress, "running"), (failed, "failed"), (counters.stopped, "stopped"))
    words = [f"{count} {word}" for count, word in others if count]
    return ", ".join([f"{counters.completed}{limit} completed", *words])


@dataclass(frozen=True)
class Row:
    """One trial. `job`: its training job, or None if it is not created yet or was deleted."""

    trial: Trial
    job: TrainingJob | None
    #: The final objective. While the training job runs, the last value so far.
    objective: float | None
    bill: Bill | None
    #: One for each tuned hyperparameter of the tuning job, in short and in full.
    values: tuple[tuple[str, str], ...]
    best: bool

    @property
    def status(self) -> str:
        if self.trial.status is not None:
            return self.trial.status.value
        return "InProgress" if self.job is None else self.job.status.value

    @property
    def doing(self) -> str:
        """Returns the secondary status of a training job that has not ended, or that it was stopped early."""
        if self.trial.ended:
            return "early" if self.trial.halted and self.trial.status is JobStatus.STOPPED else ""
        return "" if self.job is None else self.job.secondary.value

    @property
    def ran(self) -> str:
        if self.trial.ended:
            return since(self.trial.start_ms, self.trial.end_ms)
        return since(None if self.job is None else self.job.training_start_ms, None)


@dataclass(frozen=True)
class Trials:
    #: Names of the tuned hyperparameters: the columns of the table.
    tuned: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def trials(self) -> list[Trial]:
        return [row.trial for row in self.rows]

    @property
    def jobs(self) -> list[TrainingJob]:
        return [row.job for row in self.rows if row.job is not None]

    @property
    def best_names(self) -> list[str]:
        """Returns the names of training jobs with an objective that still exist, the best first."""
        return [row.trial.name for row in self.rows if row.trial.succeeded and row.job is not None]


def trials_of(engine: Engine, job: TuningJob) -> Trials:
    kept = [trial for trial, _ in engine.tuning.trials(job)]
    jobs = engine.jobs.by_ids([one.job_id for one in kept])
    tuned = tuple(dict.fromkeys(name for one in kept for name in one.values))
    rows = [_row(engine, job, one, jobs.get(one.job_id), tuned) for one in kept]
    order = _order(job)
    return Trials(tuned, tuple(sorted(rows, key=order)))


def state_of(engine: Engine, job: TuningJob) -> str:
    """Returns a text that changes when the page of the tuning job does."""
    running = [(trial, found) for trial, found in engine.tuning.trials(job) if found is not None]
    parts = [f"{found.id[:8]}{found.version}{_so_far(engine, job, trial, found)}" for trial, found in running]
    return "-".join([job.id, str(job.version), *parts])


def _row(engine: Engine, job: TuningJob, trial: Trial, found: TrainingJob | None, tuned: Sequence[str]) -> Row:
    return Row(
        trial,
        found,
        trial.objective if trial.ended or found is None else _so_far(engine, job, trial, found),
        None if found is None else engine.reports.bill(found),
        tuple(_value(trial.values, name) for name in tuned),
        job.best is not None and job.best.ordinal == trial.ordinal,
    )


def _value(values: Mapping[str, str], name: str) -> tuple[str, str]:
    """Returns a value in short, numbers with up to six digits, and in full."""
    whole = unquoted(values.get(name, ""))
    number = number_in(whole)
    return whole if number is None else f"{number:.6g}", whole


def _so_far(engine: Engine, job: TuningJob, trial: Trial, found: TrainingJob) -> float | None:
    metric = job.spec.definition(trial.definition).objective.metric
    return next((one.value for one in engine.metrics.final(found) if one.name == metric), None)


def _order(job: TuningJob) -> Callable[[Row], tuple[int, float, int]]:
    maximize = job.spec.definitions[0].objective.maximize

    def place(row: Row) -> tuple[int, float, int]:
        trial = row.trial
        if not trial.ended:
            return 0, 0.0, trial.ordinal
        if not trial.succeeded or trial.objective is None or math.isnan(trial.objective):
            return 2, 0.0, trial.ordinal
        return 1, -trial.objective if maximize else trial.objective, trial.ordinal

    return place
