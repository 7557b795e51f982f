"""Executions of random pipelines, with failures, retries, stops and kills: no rule of the language is broken.

Time, jobs and kills are simulated; `PipelineWork` is the real one. SAGELET_TEST_PIPELINES is the number of executions.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from sagelet_engine.base.failpoints import Failpoint, listen
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.objects import ObjectStore
from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationStatus, enter, revive
from sagelet_engine.model.pipeline import (
    PipelineExecution,
    PipelineKey,
    StepRun,
    StepState,
    StepStatus,
    execution_id_of,
)
from sagelet_engine.model.principal import Principal
from sagelet_engine.model.service_calls import CallRefused
from sagelet_engine.pipelines.definition import Definition, Step, parse
from sagelet_engine.pipelines.work import PipelineWork
from sagelet_engine.store.orchestrations import Orchestrations, StaleOrchestration
from support.fakes import FakeClock
from support.pipelines import compare, condition, definition, fail, get, step

EXECUTIONS = int(os.environ.get("SAGELET_TEST_PIPELINES", "2000"))
KEY = PipelineKey("123456789012", "us-east-1", "Random")
POLICIES = [
    {"ExceptionType": ["SageMaker.JOB_INTERNAL_ERROR"], "IntervalSeconds": 2, "BackoffRate": 2, "MaxAttempts": 2}
]


#: Seconds for which a step's result counts.
CACHE_SECONDS = 3600


class Killed(BaseException):
    """The server was killed."""


class Kept:
    """The store's rows, in memory."""

    def __init__(self, execution: PipelineExecution) -> None:
        self.execution = execution
        self.runs: dict[int, StepRun] = {}
        #: An execution of the same pipeline that has ended, with its steps.
        self.earlier: tuple[PipelineExecution, dict[int, StepRun]] | None = None

    def of(self, _codec: object) -> "Kept":
        return self

    def begin(self, execution: PipelineExecution) -> None:
        """Begins another execution."""
        self.earlier = self.execution, self.runs
        self.execution, self.runs = execution, {}

    def children(self, record_id: str) -> list[StepRun]:
        if self.earlier is not None and record_id == self.earlier[0].id:
            return [*self.earlier[1].values()]
        return [self.runs[ordinal] for ordinal in sorted(self.runs)]

    def newest_result(self, cache_key: str) -> tuple[StepRun, str] | None:
        of_each = [(self.execution, self.runs)] if self.earlier is None else [(self.execution, self.runs), self.earlier]
        own = [
            (run, execution.key.arn)
            for execution, runs in reversed(of_each)
            for run in runs.values()
            if run.succeeded and run.cache_key == cache_key and run.cached_from is None
        ]
        return max(own, key=lambda one: one[0].end_ms or 0, default=None)

    def get(self, key: OrchestrationKey) -> PipelineExecution:
        return self.earlier[0] if self.earlier is not None and self.earlier[0].key == key else self.execution

    def update(self, record: PipelineExecution, changed: Sequence[StepRun] = ()) -> PipelineExecution:
        if record.version != self.execution.version:
            raise StaleOrchestration(record.key.name)
        self.execution = replace(record, version=record.version + 1)
        self.runs |= {run.ordinal: run for run in changed}
        return self.execution


@dataclass
class Jobs:
    """SageMaker's training jobs, which end when the simulation says."""

    chance: random.Random
    #: Status and FailureReason by name.
    jobs: dict[str, tuple[str, str]] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    stopping: bool = False
    made_while_stopping: list[str] = field(default_factory=list)
    #: A request about the execution, while a job is made.
    meanwhile: Callable[[], None] = lambda: None

    def __call__(
        self, _principal: Principal, _region: str, _service: str, operation: str, request: JsonObject
    ) -> JsonObject:
        name = request["TrainingJobName"]
        if operation == "CreateTrainingJob":
            return self._create(name)
        if self.chance.random() < 0.02:
            raise CallRefused("ThrottlingException", "Rate exceeded")
        if name not in self.jobs:
            raise CallRefused("ValidationException", "there is no such job")
        if operation == "StopTrainingJob":
            if self.jobs[name][0] != "InProgress":
                raise CallRefused("ValidationException", "it has ended")
            self.jobs[name] = ("Stopped", "")
            return {}
        status, reason = self.jobs[name]
        shown = {"TrainingJobName": name, "TrainingJobStatus": status, "TrainingJobArn": f"arn/{name}"}
        return {**shown, "FailureReason": reason} if reason else shown

    def _create(self, name: str) -> JsonObject:
        if name in self.jobs:
            raise CallRefused("ResourceInUse", "the name is taken")
        if self.chance.random() < 0.05:
            raise CallRefused("ThrottlingException", "Rate exceeded")
        self.jobs[name] = ("InProgress", "")
        self.created.append(name)
        if self.stopping:
            self.made_while_stopping.append(name)
        if self.chance.random() < 0.1:
            self.meanwhile()
        return {}

    def end_some(self) -> None:
        for name, (status, _) in [*self.jobs.items()]:
            if status == "InProgress" and self.chance.random() < 0.4:
                self.jobs[name] = self.chance.choices(
                    [("Completed", ""), ("Failed", "InternalServerError: x"), ("Failed", "AlgorithmError: x")],
                    [0.85, 0.1, 0.05],
                )[0]


def random_steps(chance: random.Random, prefix: str, names: list[str], depth: int = 0) -> list[JsonObject]:
    made: list[JsonObject] = []
    for number in range(chance.randint(1, 4)):
        name = f"{prefix}{number}"
        needs = chance.sample(names, min(len(names), chance.randint(0, 2)))
        kind = chance.random()
        if kind < 0.2 and depth < 2:
            value = chance.choice([True, False])
            then = random_steps(chance, f"{name}t", [*names], depth + 1)
            otherwise = random_steps(chance, f"{name}f", [*names], depth + 1)
            check = [compare("Equals", 1 if value else 2, 1)]
            made.append(condition(name, check, then, *otherwise, DependsOn=needs))
        elif kind < 0.24:
            made.append(fail(name, "on purpose", DependsOn=needs))
        else:
            arguments = (
                {"HyperParameters": {"of": get(f"Steps.{needs[0]}.TrainingJobName")}} if needs and kind > 0.6 else {}
            )
            more: JsonObject = {"RetryPolicies": POLICIES} if chance.random() < 0.5 else {}
            if chance.random() < 0.4:
                more["CacheConfig"] = {"Enabled": True, "ExpireAfter": f"PT{CACHE_SECONDS}S"}
            made.append(step(name, "Training", arguments, DependsOn=needs, **more))
            names.append(name)
    return made


def random_execution(chance: random.Random) -> PipelineExecution:
    text = definition(*random_steps(chance, "s", []))
    record_id = f"{chance.getrandbits(128):032x}"
    return PipelineExecution(
        KEY.execution(execution_id_of(record_id)), record_id, {}, 1_700_000_000_000, 1_700_000_000_000,
        definition=text, pipeline="Random", parallel=chance.choice([None, 1, 2]),
    )  # fmt: skip


class Simulation:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.kept = Kept(random_execution(self.chance))
        self.jobs = Jobs(self.chance)
        self.jobs.meanwhile = self.describe
        self.clock = FakeClock()
        self.stop_at = self.chance.choice([None, None, self.chance.randint(0, 10)])
        self.kill_chance = self.chance.choice([0.0, 0.05, 0.2])

    @property
    def definition(self) -> Definition:
        return parse(self.kept.execution.definition)

    def kill_sometimes(self, _passed: Failpoint) -> None:
        if self.chance.random() < self.kill_chance:
            raise Killed

    def run(self) -> None:
        listen(self.kill_sometimes)
        for turn in range(2000):
            if self.kept.execution.terminal:
                return
            if turn == self.stop_at:
                self.stop()
            # A new object each time: whatever it remembered is gone, as after a kill.
            work = PipelineWork(cast(Orchestrations, self.kept), cast(ObjectStore, None), self.clock, self.jobs)
            try:
                work.step(self.kept.execution)
            except (Killed, CallRefused):
                # The orchestrator tries again after an error, too.
                continue
            self.check_limits()
            self.jobs.end_some()
            self.clock.turn(1)
        raise AssertionError("the execution did not end")

    def describe(self) -> None:
        """UpdatePipelineExecution: it changes the record, and none of the steps."""
        self.kept.update(replace(self.kept.execution, request={"PipelineExecutionDescription": "x"}))

    def stop(self) -> None:
        if self.kept.execution.status is OrchestrationStatus.IN_PROGRESS:
            self.kept.update(enter(self.kept.execution, OrchestrationStatus.STOPPING, self.clock.now_ms()))
            self.jobs.stopping = True

    def begin_again(self, *, selective: bool) -> None:
        """StartPipelineExecution of the same definition, in time for some caches, all of them or none."""
        before, record_id = self.kept.execution, f"{self.chance.getrandbits(128):032x}"
        self.clock.turn(self.chance.choice([0, CACHE_SECONDS - 5, CACHE_SECONDS + 1]))
        request: JsonObject = {}
        if selective:
            names = [*self.definition.steps]
            chosen = self.chance.sample(names, self.chance.randint(1, len(names)))
            request["SelectiveExecutionConfig"] = {
                "SourcePipelineExecutionArn": before.key.arn,
                "SelectedSteps": [{"StepName": name} for name in chosen],
            }
        key, now_ms = KEY.execution(execution_id_of(record_id)), self.clock.now_ms()
        self.kept.begin(
            PipelineExecution(
                key,
                record_id,
                request,
                now_ms,
                now_ms,
                definition=before.definition,
                pipeline="Random",
                parallel=before.parallel,
            )
        )
        self.stop_at, self.jobs.stopping = None, False
        self.jobs.created.clear()

    @property
    def chosen(self) -> set[str]:
        """The steps that SelectiveExecutionConfig names, and those that they need."""
        given = self.kept.execution.request.get("SelectiveExecutionConfig")
        if given is None:
            return {*self.definition.steps}
        return self.selected | self.definition.upstream([*self.selected])

    @property
    def selected(self) -> set[str]:
        given = self.kept.execution.request.get("SelectiveExecutionConfig", {"SelectedSteps": []})
        return {one["StepName"] for one in given["SelectedSteps"]}

    def check_reused(self) -> int:
        """A result of the earlier execution counts exactly if it may. Returns how many did."""
        assert self.kept.earlier is not None
        before, earlier = self.kept.earlier[0], {run.name: run for run in self.kept.earlier[1].values()}
        made = {name.split("-")[2] for name in self.jobs.created}
        reused = 0
        for run in self.kept.runs.values():
            step_of, old = self.definition.steps[run.name], earlier.get(run.name)
            assert run.name in self.chosen
            if self.selected and run.name not in self.selected:
                assert run.succeeded == (old is not None and old.succeeded)
                assert run.selected_from == (before.key.arn if run.succeeded else None)
            elif step_of.type == "Training" and run.state is StepState.ENDED:
                may = (
                    old is not None
                    and old.succeeded
                    and run.cache_key != ""
                    and old.cache_key == run.cache_key
                    and old.cached_from is None
                    and run.start_ms < (old.end_ms or 0) + CACHE_SECONDS * 1000
                )
                assert run.cached_from == (before.key.arn if may else None)
                assert bool(run.cache_key) == ("CacheConfig" in step_of.given) or not run.arguments
            if run.cached_from or run.selected_from:
                assert old is not None
                assert (run.made, run.properties) == (old.made, old.properties)
                assert run.name not in made
                reused += 1
        return reused

    def retry(self) -> set[str]:
        """RetryPipelineExecution, as the facet does it. Returns the steps that had succeeded."""
        before = self.kept.execution
        done = {run.name for run in self.kept.runs.values() if run.succeeded}
        self.kept.update(revive(before, self.clock.now_ms(), retries=before.retries + 1))
        self.kept.runs = {ordinal: run for ordinal, run in self.kept.runs.items() if run.succeeded}
        self.stop_at, self.jobs.stopping = None, False
        self.jobs.created.clear()
        return done

    def check_limits(self) -> None:
        limit = self.kept.execution.parallel
        assert limit is None or sum(not run.ended for run in self.kept.runs.values()) <= limit

    def check(self) -> None:
        runs = {run.name: run for run in self.kept.runs.values()}
        execution = self.kept.execution
        assert all(run.ended for run in runs.values())
        self.check_jobs(runs)
        for step_of, run in ((self.definition.steps[name], run) for name, run in runs.items()):
            self.check_order(step_of, run, runs)
        self.check_values(runs)
        bad = [run for run in runs.values() if run.status is not StepStatus.SUCCEEDED]
        first_end = min((run.end_ms or 0 for run in bad), default=None)
        assert first_end is None or all(run.start_ms <= first_end for run in runs.values())
        if execution.status is OrchestrationStatus.COMPLETED:
            assert not bad
            assert runs.keys() == {*self.reachable(runs)}
        elif execution.status is OrchestrationStatus.FAILED:
            assert bad
        else:
            assert execution.status is OrchestrationStatus.STOPPED
        assert not self.jobs.made_while_stopping

    def check_jobs(self, runs: dict[str, StepRun]) -> None:
        """Every attempt of a Training step has one job at most, every job is an attempt's, and none runs on."""
        assert len(self.jobs.created) == len({*self.jobs.created})
        assert all(status != "InProgress" for status, _ in self.jobs.jobs.values())
        by_step = Counter(name.split("-")[2] for name in self.jobs.created)
        for name, run in runs.items():
            if self.definition.steps[name].type == "Training":
                assert by_step.pop(name, 0) <= run.attempt
        assert not by_step

    def check_values(self, runs: dict[str, StepRun]) -> None:
        """Every reference to a step's job has the name of the attempt that succeeded."""
        for name, run in runs.items():
            given = self.definition.steps[name].arguments.get("HyperParameters")
            if given and run.arguments:
                named = given["of"]["Get"].split(".")[1]
                assert run.arguments["HyperParameters"]["of"] == runs[named].made

    def check_order(self, step_of: Step, run: StepRun, runs: dict[str, StepRun]) -> None:
        for name in step_of.needs:
            assert runs[name].succeeded
            assert (runs[name].end_ms or 0) <= run.start_ms
            assert runs[name].begun < run.begun
        if step_of.branch is not None:
            assert runs[step_of.branch[0]].properties["Outcome"] == str(step_of.branch[1]).lower()
        if step_of.given.get("RetryPolicies") and run.status is StepStatus.FAILED:
            assert run.attempt <= 1 + 5 + 2

    def reachable(self, runs: dict[str, StepRun]) -> Iterator[str]:
        """The steps that must have run if nothing failed: computed from the definition alone."""
        found: set[str] = set()
        for name, one in self.definition.steps.items():
            if name not in self.chosen:
                continue
            taken = one.branch is None or (
                one.branch[0] in found and runs[one.branch[0]].properties["Outcome"] == str(one.branch[1]).lower()
            )
            if taken and one.needs <= found:
                found.add(name)
                yield name


@pytest.fixture(autouse=True)
def nobody_listens() -> Iterator[None]:
    yield
    listen(None)


def test_random_executions_break_no_rule() -> None:
    ends: Counter[str] = Counter()
    first = int(os.environ.get("SAGELET_SEED", "0"))
    for seed in range(first, first + EXECUTIONS):
        simulation = Simulation(seed)
        try:
            simulation.run()
            simulation.check()
            ends[simulation.kept.execution.status.value] += 1
            if simulation.kept.execution.status is not OrchestrationStatus.COMPLETED:
                done = simulation.retry()
                simulation.run()
                simulation.check()
                again = {name.split("-")[2] for name in simulation.jobs.created}
                assert not again & done
        except AssertionError as error:
            raise AssertionError(f"SAGELET_SEED={seed}: {error}") from error
    # All three ends occur, so the rules of each were checked.
    assert len(ends) == 3, ends


def test_random_executions_reuse_what_they_may() -> None:
    """The same pipeline twice, with caches and selective execution."""
    reused: Counter[bool] = Counter()
    first = int(os.environ.get("SAGELET_SEED", "0"))
    for seed in range(first, first + EXECUTIONS):
        simulation = Simulation(seed)
        selective = seed % 2 == 0
        try:
            simulation.run()
            simulation.begin_again(selective=selective)
            simulation.run()
            simulation.check()
            reused[selective] += simulation.check_reused()
        except AssertionError as error:
            raise AssertionError(f"SAGELET_SEED={seed}: {error}") from error
    # Both occur, so the rules of each were checked.
    assert min(reused[True], reused[False]) > EXECUTIONS // 20, reused
