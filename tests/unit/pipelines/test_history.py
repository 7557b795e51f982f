"""What a step asks of earlier executions costs the same after many of them. Lines and SQLite's steps are counted."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.model import training
from sagelet_engine.model.orchestration import OrchestrationStatus
from sagelet_engine.model.pipeline import PipelineExecution, PipelineKey, StepRun, StepState, StepStatus
from sagelet_engine.pipelines.caching import cache_key
from sagelet_engine.pipelines.definition import parse
from sagelet_engine.pipelines.facet import CallbackNotFound, Pipelines
from sagelet_engine.pipelines.work import PipelineWork
from sagelet_engine.store.jobs import Store
from sagelet_engine.store.orchestration_codecs import PIPELINE_EXECUTION
from support.fakes import FakeClock
from support.pipelines import definition, fail
from support.work import lines_of
from support.world import key as job_key
from support.world import request

#: Lines that a question may take more or fewer. Each of the 390 further executions took 90.
FEW_LINES = 60
KEY = PipelineKey("123456789012", "us-east-1", "Pipe")
CACHED = {"CacheConfig": {"Enabled": True}}
TEXT = definition(fail("a", "x", **CACHED))
STEP = parse(TEXT).steps["a"]


def execution(number: int, **more: Any) -> PipelineExecution:
    ended = {"status": OrchestrationStatus.COMPLETED, "ended_ms": number}
    key = KEY.execution(f"e{number:011}")
    record = PipelineExecution(key, f"{number:032}", {}, number, number, definition=TEXT, pipeline="Pipe")
    return replace(record, **{**ended, **more})


def run(number: int, **more: Any) -> StepRun:
    return StepRun(1, "a", 1, StepState.ENDED, StepStatus.SUCCEEDED, 0, end_ms=number, made=f"job-{number}", **more)


class History:
    """So many executions that ended, each with a job of its own; every second had the result of the first."""

    def __init__(self, root: Path, count: int) -> None:
        self.store = Store(root / f"{count}.db")
        self.kept = self.store.orchestrations.of(PIPELINE_EXECUTION)
        for number in range(1, count + 1):
            record = execution(number)
            self.kept.insert(record)
            if number % 2:
                self.kept.update(record, [run(number, cache_key="same" if number == 1 else f"other-{number}")])
            else:
                again = run(number, cache_key="same", cached_from=execution(1).key.arn)
                self.kept.update(record, [again])
        clock = FakeClock()
        nothing: Any = None
        self.work = PipelineWork(self.store.orchestrations, nothing, clock, nothing)
        self.facet = Pipelines(self.store, nothing, clock, nothing, nothing)

    def cost(self, ask: Callable[["History"], object]) -> tuple[int, int]:
        """Returns the lines of Python, and SQLite's steps in tens."""
        ask(self)
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        self.store._idle[-1].set_progress_handler(count, 10)
        ask(self)
        self.store._idle[-1].set_progress_handler(None, 10)
        return lines_of(lambda: ask(self)), steps


def cached(history: History) -> object:
    found = history.work._cached(STEP, "same", 10**6)
    assert found is not None
    assert found[0].made == "job-1"
    return found


def missed(history: History) -> None:
    assert history.work._cached(STEP, "none", 10**6) is None


def source(history: History) -> None:
    selection = {"SelectedSteps": [], "SourcePipelineExecutionArn": execution(3).key.arn}
    runs, _ = history.work._source(execution(0, request={"SelectiveExecutionConfig": selection}))
    assert runs["a"].made == "job-3"


def maker(history: History) -> None:
    job = training.create(job_key("job-3"), "j", request("job-3"), {}, 3)
    made = history.facet.maker(job)
    assert made is not None
    assert made.created_ms == 3


def unknown_callback(history: History) -> None:
    with pytest.raises(CallbackNotFound):
        history.facet.answer_callback(KEY.account, KEY.region, "no-token", {}, "", "")


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> tuple[History, History]:
    root = tmp_path_factory.mktemp("histories")
    return History(root, 10), History(root, 400)


@pytest.mark.parametrize("ask", [cached, missed, source, maker, unknown_callback])
def test_a_question_costs_the_same_after_many_executions(
    ask: Callable[[History], object], histories: tuple[History, History]
) -> None:
    (lines, steps), (more_lines, more_steps) = (history.cost(ask) for history in histories)
    # A connection that another thread has just given back, or a text that was read before, makes a few lines.
    assert more_lines <= lines + FEW_LINES
    assert more_steps <= steps + 2


def test_a_result_of_another_pipeline_or_step_has_another_key() -> None:
    step = json.loads(TEXT)["Steps"][0]
    keys = {cache_key("p", step, {}), cache_key("q", step, {}), cache_key("p", {**step, "Name": "b"}, {})}
    assert len(keys) == 3
    assert cache_key("p", step, {}) in keys
