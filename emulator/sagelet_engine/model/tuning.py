"""The record of a hyperparameter tuning job, and of each of its trials."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from sagelet_engine.model.job import JobKey, JobStatus
from sagelet_engine.model.orchestration import Child, Orchestration

#: The static hyperparameter by which AWS tells a training job its objective metric.
OBJECTIVE_PARAMETER = "_tuning_objective_metric"
#: WarmStartType of a job whose OverallBestTrainingJob AWS shows.
IDENTICAL = "IdenticalDataAndAlgorithm"
_NAMESPACE = uuid.UUID("5a4c1c8e-3c1b-4a57-8f0e-7a0d1b1f6e42")


class Ending(str, Enum):
    """Why a tuning job makes no more trials, although it may still wait for those that run."""

    #: All trials of its limit, or all points of its space.
    DONE = "done"
    TARGET = "target-reached"
    NOT_IMPROVING = "not-improving"
    CONVERGED = "converged"
    MAX_RUNTIME = "max-runtime"
    #: Its first trials all failed, or had no objective.
    HOPELESS = "hopeless"
    #: The search cannot go on: its strategy is not installed, or has an error.
    BROKEN = "broken"


@dataclass(frozen=True)
class Objective:
    """HyperParameterTuningJobObjective, or TuningObjective of one definition."""

    metric: str
    maximize: bool

    @property
    def type(self) -> str:
        return "Maximize" if self.maximize else "Minimize"

    def better(self, one: float, other: float) -> bool:
        return one > other if self.maximize else one < other


@dataclass(frozen=True)
class Definition:
    """One training job definition: what all its trials have in common."""

    #: DefinitionName. Empty if the request has none.
    name: str
    objective: Objective
    #: ParameterRanges of the request.
    ranges: Mapping[str, Any]
    #: TrainingJobDefinition as it came.
    request: Mapping[str, Any]

    @property
    def static(self) -> Mapping[str, str]:
        """StaticHyperParameters: values that all trials have."""
        static: Mapping[str, str] = self.request.get("StaticHyperParameters", {})
        return static


@dataclass(frozen=True)
class TuningSpec:
    """What a CreateHyperParameterTuningJob body asks for."""

    strategy: str
    strategy_config: Mapping[str, Any]
    definitions: tuple[Definition, ...]
    max_trials: int | None
    max_parallel: int
    max_runtime_seconds: int | None
    target: float | None
    #: MaxNumberOfTrainingJobsNotImproving.
    patience: int | None
    #: True if TrainingJobEarlyStoppingType is Auto, and if CompleteOnConvergence is Enabled.
    early_stopping: bool
    until_convergence: bool
    #: RandomSeed. None if the request has none.
    seed: int | None

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> "TuningSpec":
        config = request["HyperParameterTuningJobConfig"]
        limits, criteria = config["ResourceLimits"], config.get("TuningJobCompletionCriteria", {})
        given = request.get("TrainingJobDefinitions") or [request["TrainingJobDefinition"]]
        return cls(
            strategy=config["Strategy"],
            strategy_config=config.get("StrategyConfig", {}),
            definitions=tuple(_definition(one, config) for one in given),
            max_trials=limits.get("MaxNumberOfTrainingJobs"),
            max_parallel=limits["MaxParallelTrainingJobs"],
            max_runtime_seconds=limits.get("MaxRuntimeInSeconds"),
            target=criteria.get("TargetObjectiveMetricValue"),
            patience=criteria.get("BestObjectiveNotImproving", {}).get("MaxNumberOfTrainingJobsNotImproving"),
            early_stopping=config.get("TrainingJobEarlyStoppingType") == "Auto",
            until_convergence=criteria.get("ConvergenceDetected", {}).get("CompleteOnConvergence") == "Enabled",
            seed=config.get("RandomSeed"),
        )

    def definition(self, name: str) -> Definition:
        return next(one for one in self.definitions if one.name == name)


def _definition(given: Mapping[str, Any], config: Mapping[str, Any]) -> Definition:
    objective = given.get("TuningObjective") or config["HyperParameterTuningJobObjective"]
    return Definition(
        given.get("DefinitionName", ""),
        Objective(objective["MetricName"], objective["Type"] == "Maximize"),
        given.get("HyperParameterRanges") or config.get("ParameterRanges", {}),
        given,
    )


class TrialState(str, Enum):
    #: It is decided, and its training job may not exist yet.
    PLANNED = "planned"
    #: Its training job exists.
    CREATED = "created"
    #: Its training job has ended, and the fields below say how.
    ENDED = "ended"


@dataclass(frozen=True)
class Trial(Child):
    """One training job of a tuning job; times in ms since the epoch. What the training job did outlives it here."""

    #: Id and name of the training job. Both follow from the tuning job, so that a repeat finds it.
    job_id: str
    name: str
    #: Name of its definition.
    definition: str
    #: TunedHyperParameters.
    values: Mapping[str, str]
    state: TrialState = TrialState.PLANNED
    #: The status of the ended training job.
    status: JobStatus | None = None
    created_ms: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    failure_reason: str | None = None
    #: The last value of the objective metric. None if there was none.
    objective: float | None = None
    #: True if the failure was InternalServerError: AWS counts it as retryable.
    internal: bool = False
    #: BillableTimeInSeconds of the ended training job. None if it did not begin to train.
    billable_seconds: int | None = None
    #: True once it is decided that its training job is to be stopped early.
    halted: bool = False

    @property
    def ended(self) -> bool:
        return self.state is TrialState.ENDED

    @property
    def succeeded(self) -> bool:
        """True if it has an objective that counts. AWS takes those of stopped jobs, too."""
        return self.ended and self.objective is not None and self.status is not JobStatus.FAILED


@dataclass(frozen=True)
class Inherited:
    """What a search needs of an ended trial of a parent: its hyperparameters, all in the ranges, and its objective."""

    #: Name of the definition that it tells about.
    definition: str
    values: Mapping[str, str]
    #: None for a trial without an objective.
    objective: float | None


@dataclass(frozen=True)
class WarmStart:
    """What a tuning job has of its parents. It is kept with the job, so parents may be deleted."""

    inherited: tuple[Inherited, ...] = ()
    #: The best trial of all parents, and the name of its tuning job. None if no trial has an objective.
    best: Trial | None = None
    best_of: str = ""


@dataclass(frozen=True)
class Counters:
    """TrainingJobStatusCounters and ObjectiveStatusCounters."""

    completed: int = 0
    in_progress: int = 0
    retryable: int = 0
    non_retryable: int = 0
    stopped: int = 0
    succeeded: int = 0
    pending: int = 0
    failed: int = 0


@dataclass(frozen=True)
class TuningJob(Orchestration):
    """All durable data of one tuning job, except its trials. `request` is its CreateHyperParameterTuningJob body."""

    counters: Counters = field(default_factory=Counters)
    #: The best of the trials that have ended, and how many ended after it without a better objective.
    best: Trial | None = None
    not_improving: int = 0
    #: When convergence was detected, ms since the epoch.
    converged_ms: int | None = None
    ending: Ending | None = None
    #: None if the request has no WarmStartConfig.
    warm_start: WarmStart | None = None

    @cached_property
    def spec(self) -> TuningSpec:
        return TuningSpec.of(self.request)

    @property
    def overall_best(self) -> tuple[Trial, str] | None:
        """Returns the best trial of the job and its parents, and the name of its tuning job. None if there is none, or
        if AWS does not show it.
        """
        if self.request.get("WarmStartConfig", {}).get("WarmStartType") != IDENTICAL:
            return None
        own, warm = self.best, self.warm_start
        if own is not None and (warm is None or warm.best is None or self._is_better(own, warm.best)):
            return own, self.key.name
        return None if warm is None or warm.best is None else (warm.best, warm.best_of)

    def _is_better(self, own: Trial, other: Trial) -> bool:
        """True if a trial of the job is better than one of a parent. Parents have the same objective."""
        if own.objective is None or other.objective is None:
            return other.objective is None
        return self.spec.definition(own.definition).objective.better(own.objective, other.objective)

    @property
    def seed(self) -> int:
        """Returns RandomSeed, or a seed that follows from the job's id."""
        return int(self.id[:8], 16) if self.spec.seed is None else self.spec.seed

    @property
    def deadline_ms(self) -> int | None:
        seconds = self.spec.max_runtime_seconds
        return None if seconds is None else self.created_ms + seconds * 1000


def trial_of(job: TuningJob, ordinal: int, definition: str, values: Mapping[str, str]) -> Trial:
    """Returns a new trial. AWS names its training job `TUNING-001-` and eight hexadecimal digits."""
    job_id = uuid.uuid5(_NAMESPACE, f"{job.id} {ordinal}").hex
    return Trial(ordinal, job_id, f"{job.key.name}-{ordinal:03d}-{job_id[:8]}", definition, values)


def child_key(job: TuningJob, trial: Trial) -> JobKey:
    return JobKey(job.key.account, job.key.region, trial.name)
