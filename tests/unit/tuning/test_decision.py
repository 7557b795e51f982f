"""What a tuning job does next, without a clock and without a store."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagelet_engine.model.job import JobStatus
from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationKind, OrchestrationStatus, enter
from sagelet_engine.model.tuning import Ending, Trial, TrialState, TuningJob
from sagelet_engine.tuning.decision import AT_ONCE, DELETED, Decision, decide, seen, watches, winds_down
from sagelet_engine.tuning.strategies.strategy import Curve
from support.tuning import RANGES, tuning_request

T0 = 1_700_000_000_000
KEY = OrchestrationKey("123456789012", "us-east-1", "Tune", OrchestrationKind.TUNING)


def tuning(**config: Any) -> TuningJob:
    return TuningJob(KEY, "ab" * 16, tuning_request("Tune", **config), T0, T0)


def ended(trial: Trial, objective: float | None = None, status: JobStatus = JobStatus.COMPLETED, at: int = T0) -> Trial:
    return replace(trial, state=TrialState.ENDED, status=status, objective=objective, end_ms=at)


def created(*trials: Trial) -> list[Trial]:
    return [replace(one, state=TrialState.CREATED) for one in trials]


class Run:
    """A tuning job whose training jobs end as the test says."""

    def __init__(self, job: TuningJob) -> None:
        self.job = job
        self.trials: list[Trial] = []
        self.now = T0

    def decide(self, *now: Trial) -> Decision:
        seen = {one.ordinal: one for one in self.trials} | {one.ordinal: one for one in now}
        decision = decide(self.job, self.trials, list(seen.values()), self.now)
        kept = seen | {one.ordinal: one for one in decision.changed}
        for one in decision.removed:
            del kept[one.ordinal]
        self.job, self.trials = decision.job, [kept[ordinal] for ordinal in sorted(kept)]
        return decision

    def start(self) -> None:
        self.decide()
        self.decide(*created(*(one for one in self.trials if one.state is TrialState.PLANNED)))

    def end(self, *objectives: float | None, status: JobStatus = JobStatus.COMPLETED) -> None:
        """Ends the oldest running trials, then starts the next."""
        running = [one for one in self.trials if not one.ended]
        for one, objective in zip(running, objectives, strict=False):
            self.now += 1000
            self.decide(ended(one, objective, status, self.now))
        if not self.job.terminal:
            self.start()


def test_names_and_ids_follow_from_the_record() -> None:
    first, second = Run(tuning()), Run(tuning())
    first.decide()
    second.decide()
    assert first.trials == second.trials
    assert [one.name.rpartition("-")[0] for one in first.trials] == ["Tune-001", "Tune-002"]
    assert all(one.job_id.startswith(one.name.rpartition("-")[2]) for one in first.trials)


def test_a_decision_that_nothing_changes_writes_nothing() -> None:
    run = Run(tuning())
    run.start()
    again = run.decide()
    assert (again.changed, again.removed) == ((), ())
    assert again.job == run.job


def test_it_completes_with_its_last_trial() -> None:
    run = Run(tuning())
    run.start()
    for value in (0.5, 0.3, 0.4, 0.6, 0.7, 0.8):
        run.end(value)
    assert run.job.status is OrchestrationStatus.COMPLETED
    assert run.job.ended_ms == run.now
    assert len(run.trials) == 6
    assert run.job.best is not None
    assert (run.job.best.ordinal, run.job.best.objective, run.job.not_improving) == (2, 0.3, 4)
    assert (run.job.counters.completed, run.job.counters.in_progress, run.job.counters.succeeded) == (6, 0, 6)


def test_equal_objectives_keep_the_first_trial_as_the_best() -> None:
    run = Run(tuning())
    run.start()
    run.end(0.5)
    run.end(0.5)
    assert run.job.best is not None
    assert (run.job.best.ordinal, run.job.not_improving) == (1, 1)


@pytest.mark.parametrize(("kind", "value", "reached"), [("Minimize", 0.1, True), ("Maximize", 0.1, False)])
def test_a_target_ends_the_job_and_stops_the_others(kind: str, value: float, reached: bool) -> None:
    objective = {"Type": kind, "MetricName": "loss"}
    criteria = {"TargetObjectiveMetricValue": 0.2}
    run = Run(tuning(HyperParameterTuningJobObjective=objective, TuningJobCompletionCriteria=criteria))
    run.start()
    run.end(value)
    assert winds_down(run.job) is reached
    if reached:
        assert run.job.status is OrchestrationStatus.IN_PROGRESS
        run.end(None, status=JobStatus.STOPPED)
        assert run.job.status is OrchestrationStatus.COMPLETED
        assert run.job.counters.stopped == 1


def test_many_at_a_time_are_made_in_several_decisions() -> None:
    """A decision that makes a thousand trials would hold up all other tuning jobs and pipelines."""
    limits = {"MaxNumberOfTrainingJobs": 10**6, "MaxParallelTrainingJobs": 10**6}
    run = Run(tuning(ResourceLimits=limits))
    for decisions in range(1, 4):
        assert len(run.decide().changed) == AT_ONCE
        assert [one.ordinal for one in run.trials] == list(range(1, AT_ONCE * decisions + 1))


def test_it_ends_when_the_best_does_not_improve() -> None:
    criteria = {"BestObjectiveNotImproving": {"MaxNumberOfTrainingJobsNotImproving": 3}}
    run = Run(tuning(TuningJobCompletionCriteria=criteria))
    run.start()
    for value in (0.1, 0.2, 0.2, 0.2):
        run.end(value)
    assert run.job.ending is Ending.NOT_IMPROVING


def test_max_runtime_ends_it_as_completed() -> None:
    limits = {"MaxNumberOfTrainingJobs": 6, "MaxParallelTrainingJobs": 2, "MaxRuntimeInSeconds": 120}
    run = Run(tuning(ResourceLimits=limits))
    run.start()
    run.now = T0 + 119_999
    assert not winds_down(run.decide().job)
    run.now = T0 + 120_000
    assert run.decide().job.ending is Ending.MAX_RUNTIME
    run.end(0.5, None, status=JobStatus.STOPPED)
    assert (run.job.status, len(run.trials)) == (OrchestrationStatus.COMPLETED, 2)


def test_planned_trials_of_a_stopped_job_are_given_up() -> None:
    run = Run(tuning())
    run.decide()
    run.decide(*created(run.trials[0]))
    run.job = enter(run.job, OrchestrationStatus.STOPPING, run.now)
    assert [one.ordinal for one in run.decide().removed] == [2]
    assert run.job.status is OrchestrationStatus.STOPPING
    run.decide(ended(run.trials[0], 0.1, JobStatus.STOPPED))
    assert run.job.status is OrchestrationStatus.STOPPED


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (
            JobStatus.FAILED,
            "No training job succeeded after 5 attempts. Please take a look at the training job failures to get more "
            "details.",
        ),
        (
            JobStatus.COMPLETED,
            "No objective metrics found after running 5 training jobs. Please ensure that the custom algorithm is "
            "emitting the objective metric as defined by the regular expression provided.",
        ),
    ],
)
def test_it_fails_after_five_trials_without_an_objective(status: JobStatus, text: str) -> None:
    limits = {"MaxNumberOfTrainingJobs": 20, "MaxParallelTrainingJobs": 1}
    run = Run(tuning(ResourceLimits=limits))
    run.start()
    for _ in range(5):
        run.end(None, status=status)
    assert (run.job.status, run.job.failure_reason) == (OrchestrationStatus.FAILED, text)


def test_failed_trials_count_and_do_not_fail_it() -> None:
    run = Run(tuning())
    run.start()
    run.end(0.5)
    for _ in range(5):
        run.end(None, status=JobStatus.FAILED)
    assert (run.job.status, run.job.counters.non_retryable) == (OrchestrationStatus.COMPLETED, 5)


def test_a_training_job_that_is_gone_counts_as_failed_and_a_planned_one_stays_planned() -> None:
    run = Run(tuning())
    run.decide()
    planned = run.trials[0]
    assert seen(planned, None, None) == planned
    (gone,) = created(planned)
    assert (seen(gone, None, None).status, seen(gone, None, None).failure_reason) == (JobStatus.FAILED, DELETED)


def test_a_grid_ends_with_its_points() -> None:
    ranges = {"CategoricalParameterRanges": [{"Name": "k", "Values": ["a", "b"]}, {"Name": "l", "Values": ["1", "2"]}]}
    limits = {"MaxParallelTrainingJobs": 3}
    run = Run(tuning(Strategy="Grid", ParameterRanges=ranges, ResourceLimits=limits))
    run.start()
    while not run.job.terminal:
        run.end(0.5)
    points = [tuple(one.values.items()) for one in run.trials]
    assert points == [(("k", k), ("l", n)) for k in "ab" for n in "12"]


def curve(*values: float) -> Curve:
    made = Curve()
    for order, value in enumerate(values, 1):
        made.add(order, value)
    return made


def stops_early(run: Run, **reported: Curve) -> list[int]:
    """Lets the job see what trials (`t1`, `t2`, ...) have reported. Returns those that are to be stopped now."""
    curves = {int(name[1:]): one for name, one in reported.items()}
    decision = decide(run.job, run.trials, run.trials, run.now, curves)
    run.job = decision.job
    run.trials = [*({one.ordinal: one for one in (*run.trials, *decision.changed)}).values()]
    return [one.ordinal for one in decision.changed if one.halted]


def test_a_worse_trial_is_stopped_early_and_its_objective_counts() -> None:
    run = Run(tuning(TrainingJobEarlyStoppingType="Auto"))
    assert watches(run.job)
    run.start()
    run.end(0.5)
    assert [one.ordinal for one in run.trials if not one.ended] == [2, 3]
    assert stops_early(run, t1=curve(0.5), t2=curve(0.9)) == [2]
    # It is said once, and the trial runs until its training job has ended.
    assert stops_early(run, t1=curve(0.5), t2=curve(0.9, 0.9)) == []
    assert run.job.counters.in_progress == 2
    run.end(0.4, status=JobStatus.STOPPED)
    assert run.job.counters.stopped == 1
    assert run.job.best is not None
    assert (run.job.best.ordinal, run.job.best.status) == (2, JobStatus.STOPPED)


def test_without_early_stopping_nothing_is_watched_or_stopped() -> None:
    run = Run(tuning())
    assert not watches(run.job)
    run.start()
    run.end(0.5)
    assert stops_early(run, t1=curve(0.5), t2=curve(0.9)) == []


def test_a_stopping_job_marks_nothing_more() -> None:
    run = Run(tuning(TrainingJobEarlyStoppingType="Auto"))
    run.start()
    run.end(0.5)
    run.job = enter(run.job, OrchestrationStatus.STOPPING, run.now)
    assert stops_early(run, t1=curve(0.5), t2=curve(0.9)) == []


def test_each_definition_has_its_own_comparison() -> None:
    body = tuning_request("Tune", TrainingJobEarlyStoppingType="Auto")
    single, config = body.pop("TrainingJobDefinition"), body["HyperParameterTuningJobConfig"]
    own = {"TuningObjective": config.pop("HyperParameterTuningJobObjective"), "HyperParameterRanges": RANGES}
    del config["ParameterRanges"]
    body["TrainingJobDefinitions"] = [{**single, **own, "DefinitionName": name} for name in ("one", "two")]
    run = Run(TuningJob(KEY, "ab" * 16, body, T0, T0))
    run.start()
    run.end(0.5)
    assert [(one.ordinal, one.definition) for one in run.trials] == [(1, "one"), (2, "two"), (3, "one")]
    assert stops_early(run, t1=curve(0.5), t2=curve(0.9), t3=curve(0.8)) == [3]


@pytest.mark.parametrize("criterion", ["target", "patience"])
def test_the_criteria_count_trials_that_were_stopped_early(criterion: str) -> None:
    criteria = {
        "target": {"TargetObjectiveMetricValue": 0.3},
        "patience": {"BestObjectiveNotImproving": {"MaxNumberOfTrainingJobsNotImproving": 3}},
    }
    run = Run(tuning(TrainingJobEarlyStoppingType="Auto", TuningJobCompletionCriteria=criteria[criterion]))
    run.start()
    run.end(0.5)
    assert stops_early(run, t1=curve(0.5), t2=curve(0.9)) == [2]
    if criterion == "target":
        run.end(0.2, status=JobStatus.STOPPED)
        assert run.job.ending is Ending.TARGET
        return
    for _ in range(3):
        assert run.job.ending is None
        run.end(0.9, status=JobStatus.STOPPED)
    assert run.job.ending is Ending.NOT_IMPROVING


def test_max_runtime_ends_a_job_with_early_stopping() -> None:
    limits = {"MaxNumberOfTrainingJobs": 6, "MaxParallelTrainingJobs": 2, "MaxRuntimeInSeconds": 120}
    run = Run(tuning(ResourceLimits=limits, TrainingJobEarlyStoppingType="Auto"))
    run.start()
    run.end(0.5)
    run.now = T0 + 120_000
    assert stops_early(run, t1=curve(0.5), t2=curve(0.9)) == []
    assert run.job.ending is Ending.MAX_RUNTIME


def test_one_percent_or_less_is_no_improvement() -> None:
    """botocore shape HyperParameterTuningJobCompletionDetails: "not improving (1% or less)"."""
    run = Run(tuning(ResourceLimits={"MaxNumberOfTrainingJobs": 20, "MaxParallelTrainingJobs": 1}))
    run.start()
    for objective, since, best in ((1.0, 0, 1), (0.995, 1, 2), (0.991, 2, 3), (0.985, 0, 4), (1.0, 1, 4)):
        run.end(objective)
        assert run.job.not_improving == since
        assert run.job.best is not None
        assert run.job.best.ordinal == best


@pytest.mark.parametrize("enabled", [True, False])
def test_ten_trials_in_a_row_and_half_of_all_are_a_convergence(enabled: bool) -> None:
    criteria = {"ConvergenceDetected": {"CompleteOnConvergence": "Enabled" if enabled else "Disabled"}}
    limits = {"MaxNumberOfTrainingJobs": 40, "MaxParallelTrainingJobs": 1}
    run = Run(tuning(ResourceLimits=limits, TuningJobCompletionCriteria=criteria))
    run.start()
    # The twelfth trial is the last one that improves, so twelve more must pass.
    for number in range(12):
        run.end(1.0 - number / 20)
    for _ in range(11):
        run.end(0.9)
        assert run.job.converged_ms is None
    run.end(0.9)
    detected = run.now
    assert run.job.converged_ms == detected
    assert run.job.status is (OrchestrationStatus.COMPLETED if enabled else OrchestrationStatus.IN_PROGRESS)
    assert run.job.ending is (Ending.CONVERGED if enabled else None)
    if not enabled:
        run.end(0.01)
        assert (run.job.converged_ms, run.job.not_improving) == (detected, 0)


def test_trials_without_an_objective_are_no_convergence() -> None:
    criteria = {"ConvergenceDetected": {"CompleteOnConvergence": "Enabled"}}
    run = Run(tuning(TuningJobCompletionCriteria=criteria))
    run.start()
    for _ in range(4):
        run.end(None, status=JobStatus.FAILED)
    assert run.job.converged_ms is None


@settings(max_examples=40)
@given(st.data())
def test_limits_hold_whatever_happens(data: st.DataObject) -> None:
    most, parallel = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 5))
    limits = {"MaxNumberOfTrainingJobs": max(most, parallel), "MaxParallelTrainingJobs": parallel}
    run = Run(tuning(ResourceLimits=limits))
    run.start()
    stops = data.draw(st.integers(0, 20))
    for step in range(200):
        running = [one for one in run.trials if not one.ended]
        assert len(running) <= parallel
        assert len(run.trials) <= max(most, parallel)
        assert len({one.name for one in run.trials}) == len(run.trials)
        if run.job.terminal:
            break
        if step == stops and run.job.status is OrchestrationStatus.IN_PROGRESS:
            run.job = enter(run.job, OrchestrationStatus.STOPPING, run.now)
            run.decide()
            continue
        status = data.draw(st.sampled_from([JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.STOPPED]))
        run.end(data.draw(st.one_of(st.none(), st.floats(-1, 1))), status=status)
    assert run.job.terminal
    counters = run.job.counters
    total = counters.completed + counters.retryable + counters.non_retryable + counters.stopped
    assert (total, counters.in_progress) == (len(run.trials), 0)
    assert counters.succeeded + counters.failed == len(run.trials)
