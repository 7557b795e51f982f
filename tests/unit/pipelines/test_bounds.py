"""What a definition costs: the work grows with its text, whatever its steps name. Lines are counted, not seconds."""

import json
import threading
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.sagemaker.pipeline_shapes import check_shapes
from sagelet_api.web.graph import graph
from sagelet_engine.base.bounded_memory import BoundedMemory
from sagelet_engine.model.pipeline import PipelineExecution, PipelineKey
from sagelet_engine.pipelines import expressions
from sagelet_engine.pipelines.checking import MOST_NEEDS, MOST_STEPS, check
from sagelet_engine.pipelines.decision import Decision, Lookups, decide
from sagelet_engine.pipelines.definition import InvalidDefinition, parse
from sagelet_engine.pipelines.expressions import MOST_LETTERS, Scope, Unresolved, resolve
from support.pipelines import compare, condition, definition, fail, get, join, parameter, step
from support.work import lines_of


def waiting(name: str, *needed: str) -> dict[str, Any]:
    """The shortest step that others may depend on."""
    return step(name, "Callback", {}, SqsQueueUrl="u", DependsOn=[*needed])


def chain(count: int) -> str:
    """Each step waits for the one after it."""
    steps = [waiting(f"s{number}", f"s{number - 1}") if number else waiting("s0") for number in range(count)]
    return definition(*reversed(steps))


def files(count: int) -> str:
    """A step with many property files, and one that names each."""
    named = [{"PropertyFileName": f"f{n}", "OutputName": "o", "FilePath": "p"} for n in range(count)]
    values = [{"Std:JsonGet": {"PropertyFile": get(f"Steps.a.PropertyFiles.f{n}"), "Path": "p"}} for n in range(count)]
    return definition(step("a", "Processing", {}, PropertyFiles=named), fail("b", join("", *values)))


def outputs(count: int) -> str:
    """A step with many outputs, and one that names each."""
    named = [{"OutputName": f"o{n}", "OutputType": "String"} for n in range(count)]
    values = [get(f"Steps.a.OutputParameters['o{n}']") for n in range(count)]
    return definition(step("a", "Callback", {}, SqsQueueUrl="u", OutputParameters=named), fail("b", join("", *values)))


def parameters(count: int) -> str:
    values = [get(f"Parameters.p{n}") for n in range(count)]
    return definition(fail("b", join("", *values)), parameters=[parameter(f"p{n}", default="x") for n in range(count)])


def nested(count: int) -> str:
    """Condition steps in condition steps, some fifty deep, with their inner steps."""
    inner = [fail(f"x{number}", "x") for number in range(count)]
    for number in range(20):
        inner = [condition(f"c{number}", [compare("Equals", 1, 1)], inner)]
    return definition(*inner)


def deep(count: int) -> str:
    """Many references at the bottom of many levels."""
    value: Any = [get("Execution.PipelineName")] * count
    for _ in range(120):
        value = [value]
    return definition(step("a", "Callback", {"v": value}, SqsQueueUrl="u"))


def conditions(count: int) -> str:
    return definition(condition("c", [{"Type": "Or", "Conditions": [compare("Equals", 1, 1)] * count}], []))


SHAPES: list[Callable[[int], str]] = [chain, files, outputs, parameters, nested, deep, conditions]


@pytest.mark.parametrize("shape", SHAPES)
def test_checking_takes_lines_in_proportion_to_the_text(shape: Callable[[int], str]) -> None:
    small, large = shape(50), shape(800)

    def checked(text: str) -> Callable[[], None]:
        return lambda: check_shapes(check(text))

    checked(definition(fail("warm", "up")))()
    growth = len(large) / len(small)
    assert lines_of(checked(large)) < 1.5 * growth * lines_of(checked(small))


@pytest.mark.parametrize("count", [20_000])
def test_too_many_steps_are_refused_after_linear_work(count: int) -> None:
    text = chain(count)

    def refused() -> None:
        with pytest.raises(InvalidDefinition, match=f"at most {MOST_STEPS} of a pipeline"):
            check(text)

    # To count them. Reading them takes more.
    assert lines_of(refused) < 40 * count


def test_a_ring_of_many_steps_is_told_in_short() -> None:
    steps = [waiting(f"s{number}", f"s{(number + 1) % 900}") for number in range(900)]
    with pytest.raises(InvalidDefinition, match=r"These steps wait for each other: s0, s1, .* and 880 more$") as caught:
        check(definition(*steps))
    assert len(str(caught.value)) < 300


def test_too_many_dependencies_are_refused() -> None:
    names = [f"s{number}" for number in range(300)]
    steps = [waiting(name, *names[:place]) for place, name in enumerate(names)]
    with pytest.raises(InvalidDefinition, match=f"wait for 44850 others in all, and may for at most {MOST_NEEDS}"):
        check(definition(*steps))


def test_the_largest_pipeline_is_taken() -> None:
    assert len(check(chain(MOST_STEPS)).steps) == MOST_STEPS


def test_a_picture_that_would_grow_with_the_square_is_left_out() -> None:
    """One line passes all rows for each step."""
    last = fail("last", "x", DependsOn=[f"s{number}" for number in range(900)])
    text = definition(*json.loads(chain(900))["Steps"], last)
    assert graph(parse(text), {}, ended=False) is None
    assert graph(parse(chain(900)), {}, ended=False) is not None


def scope(values: dict[str, Any]) -> Scope:
    def nothing(*_: str) -> Any:
        raise AssertionError

    return Scope(values, {}, {}, {}, nothing, nothing)


@pytest.mark.parametrize("value", ["x" * 100_000, ["x"] * 50_000, {f"k{n}": {} for n in range(20_000)}])
def test_values_that_are_named_many_times_are_bounded(value: Any) -> None:
    """A thousand references of 20 letters would make 100 MB."""
    with pytest.raises(Unresolved, match=f"have more than {MOST_LETTERS} letters in all"):
        resolve([get("Parameters.p")] * 1000, scope({"p": value}))
    with pytest.raises(Unresolved, match="letters in all"):
        resolve(join("", *[get("Parameters.p")] * 1000), scope({"p": value}))
    assert resolve([get("Parameters.p")] * 3, scope({"p": value})) == [value] * 3


@pytest.mark.parametrize("count", [100, 100_000])
def test_a_text_between_values_is_counted_before_it_is_written(count: int) -> None:
    """A definition of 600 KB would make 30 GB. The smaller one is larger than the budget, too, and fits in memory."""
    tracemalloc.start()
    try:
        with pytest.raises(Unresolved, match="letters in all"):
            resolve(join("x" * 300_000, *[""] * count), scope({}))
        assert tracemalloc.get_traced_memory()[1] < MOST_LETTERS
    finally:
        tracemalloc.stop()
    assert resolve(join("ab", "x", 1, "y"), scope({})) == "xab1aby"


@pytest.mark.parametrize("other", ["ExperimentName", "TrialName"])
def test_an_experiment_that_is_named_by_itself_has_no_name(other: str) -> None:
    names = {"ExperimentName": get(f"PipelineExperimentConfig.{other}"),
             "TrialName": join("-", get("PipelineExperimentConfig.ExperimentName"))}  # fmt: skip
    text = json.dumps({**json.loads(definition(fail("a", "x"))), "PipelineExperimentConfig": names})
    with pytest.raises(InvalidDefinition, match="refers to PipelineExperimentConfig itself"):
        check(text)
    # One that an import brought.
    with pytest.raises(Unresolved, match="PipelineExperimentConfig has no"):
        resolve(get("PipelineExperimentConfig.TrialName"), replace(scope({}), experiment=names))


def test_a_memory_holds_texts_of_a_bounded_size() -> None:
    asked: list[str] = []

    def function(text: str) -> int:
        asked.append(text)
        return len(text)

    memory = BoundedMemory(function, most=10, size=len)
    assert [memory(text) for text in ("aaaa", "bbbb", "aaaa", "cccc", "aaaa", "bbbb")] == [4] * 6
    assert asked == ["aaaa", "bbbb", "cccc", "bbbb"]
    assert (memory("x" * 100), memory("x" * 100)) == (100, 100)
    assert asked.count("x" * 100) == 1


def decided(text: str) -> Decision:
    key = PipelineKey("123456789012", "us-east-1", "p").execution("e")
    execution = PipelineExecution(key, "0" * 32, {}, 0, 0, definition=text, parallel=1)

    def nothing(*_: Any) -> Any:
        raise AssertionError

    return decide(execution, [], [], 1, Lookups(nothing, nothing, nothing))


def conditions_one_after_the_other(count: int) -> str:
    steps = [
        condition(f"s{number}", [compare("Equals", 1, 1)], [], DependsOn=[f"s{number - 1}"] if number else [])
        for number in range(count)
    ]
    return definition(*reversed(steps))


def test_a_decision_takes_lines_in_proportion_to_the_steps_that_begin() -> None:
    small, large = conditions_one_after_the_other(50), conditions_one_after_the_other(800)
    assert [run.name for run in decided(small).changed][-2:] == ["s48", "s49"]
    assert len(decided(large).changed) == 800
    assert lines_of(lambda: decided(large)) < 1.5 * 16 * lines_of(lambda: decided(small))


def test_a_definition_that_lets_others_first_stops_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A property was computed under a lock that all definitions share, in Python 3.10 and 3.11."""
    waits, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        if threading.current_thread() is first:
            waits.set()
            assert go_on.wait(60)

    monkeypatch.setattr(expressions, "pause", pause)
    text = definition(step("a", "Model", {"ModelName": ["x"]}))
    first, second = (threading.Thread(target=parse, args=(f"{text}{end}",)) for end in ("", " "))
    first.start()
    assert waits.wait(60)
    second.start()
    second.join(20)
    is_done = not second.is_alive()
    go_on.set()
    first.join()
    second.join()
    assert is_done


def test_the_page_names_the_limits() -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/pipelines.md").read_text(encoding="utf-8")
    assert f"Here {MOST_STEPS:,} steps are allowed, and {MOST_NEEDS:,} pairs" in page
