"""What a tuning job does next: pure functions of its record, its trials and the time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sagelet_engine.model import aws_texts
from sagelet_engine.model.job import JobStatus
from sagelet_engine.model.orchestration import OrchestrationStatus, enter
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.model.tuning import Counters, Definition, Ending, Trial, TrialState, TuningJob, trial_of
from sagelet_engine.tuning.strategies import StrategyUnavailable, early_stopping, strategy
from sagelet_engine.tuning.strategies.space import space_of
from sagelet_engine.tuning.strategies.strategy import Course, Curve, EarlyStopping, PastTrial, Settings
from sagelet_engine.tuning.warm_start import past_trials

#: If none of so many trials has succeeded, AWS gives up (its text "No training job succeeded after 5 attempts").
HOPELESS_TRIALS = 5
#: An objective that is better by this share or less does not count (botocore shape ConvergenceDetected).
INSIGNIFICANT = 0.01
#: The least number of trials in a row without an improvement that is a convergence.
CONVERGED_AFTER = 10
#: The most trials that one decision makes; the next look makes more. Otherwise thousands of proposals would hold up all
#: other orchestrations.
AT_ONCE = 20
DELETED = "The training job was deleted before its tuning job knew how it ended"


@dataclass(frozen=True)
class Decision:
    """What is to be written. What is to be done outside follows from what was written."""

    job: TuningJob
    #: Trials that are new or have changed, and planned ones that are given up.
    changed: tuple[Trial, ...] = ()
    removed: tuple[Trial, ...] = ()


def seen(trial: Trial, job: TrainingJob | None, objective: float | None) -> Trial:
    """Returns the trial as its training job shows it. `job` None: there is no such job."""
    if trial.ended:
        return trial
    if job is None:
        if trial.state is TrialState.PLANNED:
            return trial
        return replace(trial, state=TrialState.ENDED, status=JobStatus.FAILED, failure_reason=DELETED)
    known = replace(trial, state=TrialState.CREATED, created_ms=job.created_ms)
    if not job.terminal:
        return known
    reason = job.failure_reason or ""
    return replace(
        known,
        state=TrialState.ENDED,
        status=job.status,
        start_ms=job.training_start_ms,
        end_ms=job.training_end_ms,
        failure_reason=job.failure_reason,
        # AWS has none of a training job that failed.
        objective=None if job.status is JobStatus.FAILED else objective,
        internal=reason.startswith("InternalServerError"),
        billable_seconds=job.billable_seconds,
    )


def decide(
    job: TuningJob,
    before: Sequence[Trial],
    trials: Sequence[Trial],
    now_ms: int,
    curves: Mapping[int, Curve] | None = None,
) -> Decision:
    """Returns what to write, given the trials as they were written (`before`) and as they are now.

    `curves`: what the trials have reported, by their ordinals, for a job with early stopping.
    """
    now = _with_results(job, trials)
    given_up: list[Trial] = []
    new: list[Trial] = []
    if job.status is OrchestrationStatus.IN_PROGRESS and now.ending is None:
        now = replace(now, ending=_ending(now, trials, now_ms))
    if winds_down(now):
        given_up = [one for one in trials if one.state is TrialState.PLANNED]
    else:
        trials = _halted(now, trials, curves or {})
        new = _new_trials(now, trials)
        if not new and all(one.ended for one in trials):
            now = replace(now, ending=Ending.DONE)
    kept = [*(one for one in trials if one not in given_up), *new]
    now = _with_results(now, kept)
    if winds_down(now) and all(one.ended for one in kept):
        now = _ended(now, kept, now_ms)
    old = {one.ordinal: one for one in before}
    changed = tuple(one for one in kept if old.get(one.ordinal) != one)
    if now != job:
        now = replace(now, modified_ms=max(now.modified_ms, now_ms))
    return Decision(now, changed, tuple(given_up))


def broken(job: TuningJob, error: Exception) -> TuningJob:
    """Returns a job for which no decision can be made, with the reason. It stops its trials, and is then Failed."""
    reason = str(error) if isinstance(error, StrategyUnavailable) else aws_texts.INTERNAL_ERROR
    return replace(job, ending=Ending.BROKEN, failure_reason=reason)


def winds_down(job: TuningJob) -> bool:
    """True if the job makes no more trials, and stops those that run."""
    return job.ending is not None or job.status is not OrchestrationStatus.IN_PROGRESS


def stops_trials(job: TuningJob, before: Sequence[Trial], decision: Decision) -> bool:
    """True if a decision stops trials that run because of what trials have reported, by early stopping or at a goal."""
    if job.ending is None and decision.job.ending not in (None, Ending.DONE, Ending.BROKEN):
        return True
    halted = {one.ordinal for one in before if one.halted}
    return any(one.halted and one.ordinal not in halted for one in decision.changed)


def _halted(job: TuningJob, trials: Sequence[Trial], curves: Mapping[int, Curve]) -> list[Trial]:
    """Returns the trials with a mark on those that are to be stopped early."""
    stopping = _early_stopping(job)
    if stopping is None:
        return list(trials)
    losers: set[int] = set()
    for definition in job.spec.definitions:
        own = [one for one in trials if one.definition == definition.name]
        courses = [_course(one, curves.get(one.ordinal, Curve())) for one in own]
        losers |= {own[place].ordinal for place in stopping.losers(_settings(job, definition), courses)}
    return [replace(one, halted=True) if one.ordinal in losers else one for one in trials]


def _course(trial: Trial, curve: Curve) -> Course:
    running = trial.state is TrialState.CREATED and not trial.halted
    return Course(curve, running, completed=trial.status is JobStatus.COMPLETED)


def watches(job: TuningJob) -> bool:
    """True if decisions need what running trials report."""
    return _early_stopping(job) is not None


def _early_stopping(job: TuningJob) -> EarlyStopping | None:
    return early_stopping(job.spec.strategy, auto=job.spec.early_stopping)


def _with_results(job: TuningJob, trials: Sequence[Trial]) -> TuningJob:
    """Returns the job with its counters, its best trial, and whether it has converged. Trials count in the order in
    which they ended.

    AWS does not say how it detects convergence. Here it is a row of trials without an improvement: ten, and at least
    as many as there were before.
    """
    best: Trial | None = None
    improved: Trial | None = None
    since, converged_ms = 0, None
    ended = sorted((one for one in trials if one.ended), key=lambda one: (one.end_ms or 0, one.ordinal))
    for number, one in enumerate(ended, 1):
        if is_better(job, one, best):
            best = one
        if _improves(job, one, improved):
            improved, since = one, 0
        else:
            since += 1
        if converged_ms is None and improved is not None and since >= max(CONVERGED_AFTER, number - since):
            converged_ms = one.end_ms
    return replace(job, counters=_counters(trials), best=best, not_improving=since, converged_ms=converged_ms)


def _improves(job: TuningJob, one: Trial, other: Trial | None) -> bool:
    """True if a trial is significantly better than the last one that was."""
    if not is_better(job, one, other):
        return False
    if other is None or one.objective is None or other.objective is None:
        return True
    return abs(one.objective - other.objective) > INSIGNIFICANT * abs(other.objective)


def is_better(job: TuningJob, one: Trial, other: Trial | None) -> bool:
    if not one.succeeded or one.objective is None:
        return False
    if other is None or other.objective is None:
        return True
    return job.spec.definition(one.definition).objective.better(one.objective, other.objective)


def _counters(trials: Sequence[Trial]) -> Counters:
    def having(status: JobStatus) -> list[Trial]:
        return [one for one in trials if one.status is status]

    failed = having(JobStatus.FAILED)
    internal = sum(one.internal for one in failed)
    ended = sum(one.ended for one in trials)
    succeeded = sum(one.succeeded for one in trials)
    return Counters(
        completed=len(having(JobStatus.COMPLETED)),
        in_progress=len(trials) - ended,
        retryable=internal,
        non_retryable=len(failed) - internal,
        stopped=len(having(JobStatus.STOPPED)),
        succeeded=succeeded,
        pending=len(trials) - ended,
        failed=ended - succeeded,
    )


def _ending(job: TuningJob, trials: Sequence[Trial], now_ms: int) -> Ending | None:
    spec, best = job.spec, job.best
    if job.deadline_ms is not None and now_ms >= job.deadline_ms:
        return Ending.MAX_RUNTIME
    if spec.target is not None and best is not None and best.objective is not None:
        objective = spec.definition(best.definition).objective
        if best.objective == spec.target or objective.better(best.objective, spec.target):
            return Ending.TARGET
    if spec.patience is not None and best is not None and job.not_improving >= spec.patience:
        return Ending.NOT_IMPROVING
    if spec.until_convergence and job.converged_ms is not None:
        return Ending.CONVERGED
    tried = [one for one in trials if one.status in (JobStatus.COMPLETED, JobStatus.FAILED)]
    return Ending.HOPELESS if best is None and len(tried) >= HOPELESS_TRIALS else None


def _new_trials(job: TuningJob, trials: Sequence[Trial]) -> list[Trial]:
    """Returns the trials that there is room for. Definitions take turns, those with points left."""
    spec = job.spec
    room = min(AT_ONCE, spec.max_parallel - sum(not one.ended for one in trials))
    if spec.max_trials is not None:
        room = min(room, spec.max_trials - len(trials))
    every = list(trials)
    exhausted: set[str] = set()
    while room > 0 and len(exhausted) < len(spec.definitions):
        turn = spec.definitions[len(every) % len(spec.definitions) :] + spec.definitions
        definition = next(one for one in turn if one.name not in exhausted)
        values = _propose(job, definition.name, every)
        if values is None:
            exhausted.add(definition.name)
            continue
        ordinal = max((one.ordinal for one in every), default=0) + 1
        every.append(trial_of(job, ordinal, definition.name, values))
        room -= 1
    return every[len(trials) :]


def _propose(job: TuningJob, definition: str, trials: Sequence[Trial]) -> Mapping[str, str] | None:
    spec, one = job.spec, job.spec.definition(definition)
    past = past_trials(job, definition) + [
        PastTrial(trial.values, trial.ended, trial.objective if trial.succeeded else None)
        for trial in trials
        if trial.definition == definition
    ]
    # Definitions with the same ranges search different points.
    seed = job.seed + spec.definitions.index(one)
    found = strategy(spec.strategy).propose(space_of(one.ranges), _settings(job, one), seed, past, 1)
    return found[0] if found else None


def _settings(job: TuningJob, definition: Definition) -> Settings:
    return Settings(definition.objective.maximize, job.spec.strategy_config, job.spec.max_trials, definition.static)


def _ended(job: TuningJob, trials: Sequence[Trial], now_ms: int) -> TuningJob:
    if job.status is OrchestrationStatus.STOPPING:
        return enter(job, OrchestrationStatus.STOPPED, now_ms)
    if job.ending is Ending.BROKEN:
        return enter(job, OrchestrationStatus.FAILED, now_ms)
    reason = _failure(trials) if job.ending in (Ending.DONE, Ending.HOPELESS) else None
    if reason is None:
        return enter(job, OrchestrationStatus.COMPLETED, now_ms)
    return enter(job, OrchestrationStatus.FAILED, now_ms, failure_reason=reason)


def _failure(trials: Sequence[Trial]) -> str | None:
    """Returns FailureReason of a job none of whose trials has an objective, or None if one has."""
    if any(one.succeeded for one in trials):
        return None
    failed = sum(one.status is JobStatus.FAILED for one in trials)
    completed = sum(one.status is JobStatus.COMPLETED for one in trials)
    if completed:
        return aws_texts.no_objective(completed + failed)
    return aws_texts.no_training_job_succeeded(failed) if failed else None
