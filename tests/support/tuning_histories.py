"""Histories of one tuning job each, a function of their seeds: kills, faults and stops at any step, and what must hold.

The store, the strategies, the decisions and the ways to create and stop a training job are the engine's. Only what runs
a training job is played here, in the same thread, on a clock that stands still. So hundreds of histories take seconds.
"""

import math
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.base.failpoints import Failpoint, listen
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.execution.supervisors import Supervisors
from sagelet_engine.facets import Jobs
from sagelet_engine.model import lifecycle
from sagelet_engine.model.job import Job, JobStatus, SecondaryStatus
from sagelet_engine.model.log_events import LogEvent
from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationKind, OrchestrationStatus
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.model.training import TrainingJob, as_training
from sagelet_engine.model.tuning import Ending, Trial, TrialState, TuningJob, child_key
from sagelet_engine.retention.gc import Collector
from sagelet_engine.scheduling.contract import Scheduler
from sagelet_engine.store.jobs import Store
from sagelet_engine.store.orchestrations import StaleOrchestration
from sagelet_engine.tuning.decision import HOPELESS_TRIALS, is_better
from sagelet_engine.tuning.facet import TuningJobs
from sagelet_engine.tuning.strategies.space import space_of
from sagelet_engine.tuning.work import TuningWork
from support.fakes import FakeClock
from support.tuning import definition, tuning_request
from support.world import request as job_request

S = SecondaryStatus
KEY = OrchestrationKey("123456789012", "us-east-1", "tune", OrchestrationKind.TUNING)
#: Steps while things break, and steps in which all must end afterwards.
STEPS, LAST_STEPS = 120, 3000


class Killed(BaseException):
    """The server was killed at a failpoint. Not an Exception, so that no handler of the engine takes it."""


class _Nothing:
    """Stands in for the scheduler and the supervisors, which the history plays."""

    def submit(self, job: TrainingJob) -> None: ...
    def wake(self) -> None: ...
    def load(self) -> None: ...
    def notify(self, job: TrainingJob) -> None: ...
    def withdraw(self, job_id: str) -> bool:
        return False


class BrokenRule(AssertionError):
    """The message has the seed."""


class History:
    """One tuning job, from its creation to its end."""

    def __init__(self, seed: int, database: Path) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self._database = database
        self._clock = FakeClock()
        #: Training jobs that somebody else has made or deleted.
        self.foreign: set[str] = set()
        self.deleted: set[str] = set()
        #: Training jobs that a user or the history has stopped, so that nobody else need have.
        self.stopped: set[str] = set()
        self.events: Counter[str] = Counter()
        self.quiet = False
        self._stop_asked = False
        self._boot()
        self._orchestrations.create(KEY, random_request(self.chance), {})
        self.record = self._orchestrations.get(KEY)

    # --- the server -------------------------------------------------------------------------------------------

    def _boot(self) -> None:
        self._store = Store(self._database)
        nothing = _Nothing()
        self._jobs = Jobs(
            self._store, self._clock, cast(Scheduler, nothing), cast(Supervisors, nothing), cast(Collector, None),
            cast(KeyPair, None), spot_discount=0.0,
        )  # fmt: skip
        self._orchestrations = TuningJobs(self._store, self._clock, lambda record_id: None)
        self._work = TuningWork(self._store, self._clock, self._jobs.create, self._jobs.stop)

    def close(self) -> None:
        self._store.close()

    def _restart(self) -> None:
        self.events["kills"] += 1
        self._store.close()
        self._boot()

    def look(self) -> None:
        """Lets the orchestrator look once. It may be killed at any failpoint, or find that the store is unavailable."""
        left = self.chance.choice([1, 1, 2, 3, 5, 8]) if not self.quiet and self.chance.random() < 0.25 else 0

        def killer(_name: Failpoint) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed

        listen(killer if left else None)
        kept = self._work._kept
        update = kept.update
        if not self.quiet and self.chance.random() < 0.05:
            kept.update = self._unavailable  # type: ignore[assignment, method-assign]
        try:
            self.record = self._orchestrations.get(KEY)
            if not self.record.terminal:
                self._work.step(self.record)
        except Killed:
            self._restart()
        except StaleOrchestration:
            self.events["name taken"] += 1
        except StoreUnavailable:
            self.events["store unavailable"] += 1
        finally:
            listen(None)
            if kept.update == self._unavailable:
                kept.update = update  # type: ignore[method-assign]
        self.record = self._orchestrations.get(KEY)
        # Nobody else makes or stops training jobs, except the user of the history.
        self._check()

    def _unavailable(self, *_given: Any) -> TuningJob:
        raise StoreUnavailable("the disk is full")

    # --- training jobs ----------------------------------------------------------------------------------------

    def children(self) -> list[TrainingJob]:
        """Returns the training jobs of the tuning job that exist."""
        every = self._store.by_ids([job_id for *_, job_id in self._store.job_places()])
        return [as_training(job) for job in every.values() if self._is_child(job)]

    def running(self) -> list[TrainingJob]:
        return [as_training(job) for job in self._store.unfinished() if self._is_child(job)]

    def _is_child(self, job: Job) -> bool:
        return job.parent is not None and job.parent.id == self.record.id

    def trials(self) -> list[Trial]:
        return self._work._kept.children(self.record.id)

    def train(self, job: TrainingJob) -> None:
        """Lets a training job take one step."""
        self._clock.turn(self.chance.choice([0, 1, 30]))
        now = self._clock.now_ms()
        if job.secondary is S.STARTING:
            job = lifecycle.advance(job, S.DOWNLOADING, now, placed_ms=now, launched=True)
            self._store.update(lifecycle.advance(job, S.TRAINING, now))
        elif job.secondary is S.TRAINING and (luck := self.chance.random()) < 0.8:
            self._report(job, now) if luck < 0.6 else self._end(job, S.COMPLETED, None)
        elif job.secondary is S.TRAINING:
            reason = self.chance.choice(["AlgorithmError: exit code 1", "InternalServerError: lost"])
            self.events["faults"] += 1
            self._end(job, S.FAILED, reason)
        elif job.secondary is S.STOPPING:
            if self.chance.random() < 0.3:
                self._report(job, now)
            self._store.update(lifecycle.advance(self._store.get(job.key), S.STOPPED, now))

    def _report(self, job: TrainingJob, now: int) -> None:
        stream = self._store.open_stream(job, "algo-1", f"{job.key.name}/algo-1-{now // 1000}", now)
        value = self.chance.choice([0.1, 0.5, 0.9, 1.0]) + self.chance.random() / 100
        point = MetricPoint("loss", value, now)
        self._store.append_output(stream, [LogEvent(now, f"loss={value}")], str(stream.events), [point], now)

    def _end(self, job: TrainingJob, status: SecondaryStatus, reason: str | None) -> None:
        now = self._clock.now_ms()
        job = lifecycle.advance(job, S.UPLOADING, now)
        self._store.update(lifecycle.advance(job, status, now, failure_reason=reason))

    # --- the history ------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Raises BrokenRule."""
        try:
            for _ in range(STEPS):
                if self.record.terminal:
                    break
                self._something_happens()
            self.quiet = True
            for _ in range(LAST_STEPS):
                if self.record.terminal:
                    break
                self.look()
                running = self.running()
                if running:
                    self.train(self.chance.choice(running))
            self._check_end()
        except AssertionError as error:
            raise BrokenRule(f"seed {self.seed}: {error}\n{self.record.request}") from error

    def _something_happens(self) -> None:
        luck = self.chance.random()
        running = self.running()
        if luck < 0.4 or not running:
            self.look()
        elif luck < 0.93:
            self.train(self.chance.choice(running))
        elif luck < 0.95:
            job = self.chance.choice(running)
            self.stopped.add(job.id)
            self.events["stops"] += 1
            self._jobs.stop(job.key)
        elif luck < 0.97:
            self._delete_one()
        elif luck < 0.98:
            self._take_the_next_name()
        elif luck < 0.996:
            self._clock.turn(self.chance.choice([60, 600]))
        else:
            self.events["stops"] += 1
            self._stop_asked = True
            self._orchestrations.stop(KEY)

    def _delete_one(self) -> None:
        ended = [job for job in self.children() if job.terminal]
        if ended:
            job = self.chance.choice(ended)
            self._store.delete(job)
            self.deleted.add(job.id)

    def _take_the_next_name(self) -> None:
        planned = [one for one in self.trials() if one.state is TrialState.PLANNED]
        if planned and not self._store.by_ids([planned[0].job_id]):
            key = child_key(self.record, planned[0])
            self._jobs.create(key, job_request(key.name), {})
            self.foreign.add(planned[0].job_id)

    def outcome(self) -> Counter[str]:
        """Returns how it ended, and with what."""
        ending = self.record.ending.value if self.record.ending else "asked to stop"
        trials = self.trials()
        return Counter(
            {self.record.status.value: 1, ending: 1, "trials": len(trials), "halted": sum(one.halted for one in trials)}
        )

    # --- the rules --------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """What must hold at any moment."""
        spec, trials, jobs = self.record.spec, self.trials(), self.children()
        limits = self.record.request["HyperParameterTuningJobConfig"]["ResourceLimits"]
        parallel, most = limits["MaxParallelTrainingJobs"], limits.get("MaxNumberOfTrainingJobs", math.inf)
        by_id = {one.job_id: one for one in trials}
        ordinals = [one.ordinal for one in trials]
        assert ordinals == [*range(1, len(trials) + 1)], f"trials are missing: {ordinals}"
        assert all(job.id in by_id and by_id[job.id].name == job.key.name for job in jobs), "a job of no trial"
        assert sum(not job.terminal for job in jobs) <= parallel, "the parallel limit is passed"
        assert sum(not one.ended for one in trials) <= parallel, "too many trials at a time"
        assert len(trials) <= most, "too many trials"
        for one in trials:
            space = space_of(spec.definition(one.definition).ranges)
            assert space.values(space.positions(one.values)).keys() == one.values.keys()
        if spec.strategy == "Grid":
            points = [(one.definition, *one.values.values()) for one in trials]
            assert len(set(points)) == len(points), "a point of the grid was tried twice"
        if spec.strategy != "Hyperband" and not spec.early_stopping:
            assert not any(one.halted for one in trials), "a trial was stopped early unasked"
        if self.record.terminal:
            assert all(job.terminal for job in jobs), "a training job runs although its tuning job has ended"

    def _check_end(self) -> None:
        record, trials = self.record, self.trials()
        assert record.terminal, f"it does not end: {record.status}"
        self._check()
        jobs = {job.id: job for job in self.children()}
        for one in trials:
            assert one.ended, f"trial {one.ordinal} has not ended"
            if one.job_id not in self.deleted | self.foreign:
                job = jobs[one.job_id]
                assert (job.status, job.failure_reason) == (one.status, one.failure_reason)
                points = self._store.points.of_job(job.id, "loss")
                last = points[-1].value if points and one.status is not JobStatus.FAILED else None
                assert one.objective == last, "the objective is not the last value, or that of a failed trial"
                if one.status is JobStatus.STOPPED and record.ending is Ending.DONE:
                    assert one.halted or job.id in self.stopped, "a training job was stopped without a reason"
        self._check_counters(trials)
        best = min(
            (one for one in trials if one.succeeded), key=lambda one: (one.objective, one.end_ms, one.ordinal),
            default=None,
        )  # fmt: skip
        assert (best is None) == (record.best is None), "there is a best trial, or none"
        assert best is None or best.objective == record.best.objective, "the best is not the best"  # type: ignore[union-attr]
        self._check_reason(trials)

    def _check_counters(self, trials: list[Trial]) -> None:
        counted = Counter(one.status for one in trials)
        shown = self.record.counters
        assert (shown.completed, shown.stopped) == (counted[JobStatus.COMPLETED], counted[JobStatus.STOPPED])
        assert shown.retryable + shown.non_retryable == counted[JobStatus.FAILED]
        assert shown.retryable == sum((one.failure_reason or "").startswith("InternalServerError") for one in trials)
        assert (shown.in_progress, shown.pending) == (0, 0)
        assert (shown.succeeded, shown.failed) == (
            sum(one.succeeded for one in trials), sum(not one.succeeded for one in trials),
        )  # fmt: skip

    def _check_reason(self, trials: list[Trial]) -> None:
        """It has ended for a reason that its limits and criteria give."""
        record, spec = self.record, self.record.spec
        if record.status is OrchestrationStatus.STOPPED:
            assert self._stop_asked, "it was stopped unasked"
            return
        assert (record.status is OrchestrationStatus.FAILED) == (
            record.failure_reason is not None and record.best is None
        )
        if record.ending is Ending.DONE and spec.max_trials is not None:
            assert len(trials) == spec.max_trials, "it ended before its limit"
        elif record.ending is Ending.TARGET:
            assert spec.target is not None
            assert record.best is not None
            assert record.best.objective is not None
            assert record.best.objective <= spec.target
        elif record.ending is Ending.NOT_IMPROVING:
            assert spec.patience is not None
            assert len(trials) > spec.patience
        elif record.ending is Ending.CONVERGED:
            assert spec.until_convergence
            assert record.converged_ms is not None
        elif record.ending is Ending.MAX_RUNTIME:
            assert record.deadline_ms is not None
            assert self._clock.now_ms() >= record.deadline_ms
        elif record.ending is Ending.HOPELESS:
            early = sorted(trials, key=lambda one: one.end_ms or 0)[:HOPELESS_TRIALS]
            assert not any(is_better(record, one, None) for one in early if one.status is not JobStatus.STOPPED)


def random_request(chance: random.Random) -> dict[str, Any]:
    """Returns a request with any strategy, limits, criteria and early stopping, and one definition or two."""
    name = chance.choice(["Random", "Grid", "Bayesian", "Hyperband"])
    parallel = chance.randint(1, 4)
    limits: dict[str, Any] = {"MaxParallelTrainingJobs": parallel}
    if name != "Grid":
        limits["MaxNumberOfTrainingJobs"] = chance.randint(parallel, 14)
    if chance.random() < 0.2:
        limits["MaxRuntimeInSeconds"] = chance.choice([120, 600, 3600])
    criteria: dict[str, Any] = {}
    if chance.random() < 0.2:
        criteria["TargetObjectiveMetricValue"] = 0.105
    if chance.random() < 0.2:
        criteria["BestObjectiveNotImproving"] = {"MaxNumberOfTrainingJobsNotImproving": chance.randint(3, 6)}
    if chance.random() < 0.2:
        criteria["ConvergenceDetected"] = {"CompleteOnConvergence": "Enabled"}
    config: dict[str, Any] = {
        "Strategy": name, "ResourceLimits": limits, "TuningJobCompletionCriteria": criteria,
        "RandomSeed": chance.randrange(1000), "ParameterRanges": _ranges(chance, name),
    }  # fmt: skip
    if name == "Hyperband":
        config["StrategyConfig"] = {
            "HyperbandStrategyConfig": {"MinResource": 1, "MaxResource": chance.choice([1, 3, 9])}
        }
    elif chance.random() < 0.5:
        config["TrainingJobEarlyStoppingType"] = "Auto"
    body = tuning_request("tune", **config)
    return body if chance.random() < 0.8 else _with_two_definitions(body)


def _ranges(chance: random.Random, name: str) -> dict[str, Any]:
    kinds = [{"Name": "k", "Values": ["a", "b", "c"][: chance.randint(1, 3)]}]
    if name == "Grid":
        return {"CategoricalParameterRanges": [*kinds, {"Name": "l", "Values": ["1", "2"]}]}
    scale = chance.choice(["Auto", "Linear", "Logarithmic"])
    rate = {"Name": "lr", "MinValue": "0.0001", "MaxValue": "0.5"}
    return {
        "CategoricalParameterRanges": kinds,
        "ContinuousParameterRanges": [{**rate, "ScalingType": chance.choice([scale, "ReverseLogarithmic"])}],
        "IntegerParameterRanges": [{"Name": "n", "MinValue": "1", "MaxValue": "64", "ScalingType": scale}],
    }


def _with_two_definitions(body: dict[str, Any]) -> dict[str, Any]:
    config = body["HyperParameterTuningJobConfig"]
    own = {
        "TuningObjective": config.pop("HyperParameterTuningJobObjective"),
        "HyperParameterRanges": config.pop("ParameterRanges"),
    }
    del body["TrainingJobDefinition"]
    two = [{**definition(), **own, "DefinitionName": name} for name in ("one", "two")]
    return {**body, "TrainingJobDefinitions": two}


def run_all(seeds: Iterable[int]) -> Counter[str]:
    """Runs a history for each seed, in memory if the machine has such a file system. Returns how often what happened.
    Raises BrokenRule.
    """
    memory = Path("/dev/shm")
    happened: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        directory = Path(name)
        template = directory / "template.db"
        Store(template).close()
        for seed in seeds:
            database = directory / f"{seed}.db"
            shutil.copy(template, database)
            history = History(seed, database)
            try:
                history.run()
                happened += history.events + history.outcome()
            finally:
                history.close()
                for path in directory.glob(f"{seed}.db*"):
                    path.unlink()
    return happened
