"""A comparison of whatever numbers a job prints and reports: it answers, and every number in the answer is one."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sagelet_engine.comparison.comparing import compare
from sagelet_engine.comparison.facts import JobFacts
from sagelet_engine.comparison.payback import MOST_STEPS
from sagelet_engine.comparison.trainer_log import parse
from sagelet_engine.telemetry.compiler.decoding import decode
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import WorkerReport
from support.comparison_facts import compiled, native, trainer

_ODD = st.sampled_from([0.0, 5e-324, 1e-300, 1e-12, 1.0, 3.5, 1e12, 1e16, 1e200, 1.7e308])
_NUMBERS = st.one_of(_ODD, _ODD.map(lambda number: -number), st.floats(allow_nan=False, allow_infinity=False))
_REPORTS = st.fixed_dictionaries(
    {
        "compiled": st.just(True),
        "steps": _ODD.map(int),
        "samples": _ODD.map(int),
        "samples_per_second": _ODD,
        "compile_seconds": _ODD,
        "steady_step_seconds": _ODD,
        "cpu_seconds": _ODD,
        "cpu_wait_seconds": _ODD,
        "started_ms": st.just(1),
        "last_step_ms": _ODD.map(int),
        "time_to_first_step_seconds": _ODD,
        "batch_shapes": st.just([{"shape": [4, 8], "count": 3}]),
        "step_seconds": st.fixed_dictionaries(
            {"steps": st.just(20), "count": st.just(20), "quarters": st.lists(_ODD, min_size=4, max_size=4)}
        ),
    }
)
_PRINTED = st.lists(st.tuples(_NUMBERS, _NUMBERS), max_size=8)
_EPOCHS = st.sampled_from(["", "3", "1e308", "-2"])
_JOBS = st.tuples(
    _REPORTS, _PRINTED, st.tuples(_NUMBERS, _NUMBERS, _NUMBERS), st.sampled_from(["", "3", "1e308", "-2"])
)

Printed = tuple[dict[str, Any], list[tuple[float, float]], tuple[float, float, float], str]


def job(make: Any, printed: Printed) -> JobFacts:
    reported, losses, (runtime, rate, epoch), epochs = printed
    lines = [str({"loss": loss, "epoch": at}) for loss, at in losses]
    lines.append(str({"train_runtime": runtime, "train_samples_per_second": rate, "epoch": epoch}))
    worker = decode(WorkerReport, json.loads(json.dumps({**reported, "compiled": make is compiled})))
    facts: JobFacts = make(
        log=parse(lines),
        report=CompilerReport.of("job", [worker], final=True),
        hyperparameters={"epochs": epochs} if epochs else {},
    )
    return facts


_USUAL: dict[str, Any] = {
    "steps": 100,
    "samples": 1000,
    "samples_per_second": 10.0,
    "batch_shapes": [{"shape": [4, 8], "count": 3}],
    "step_seconds": {"steps": 20, "count": 20, "quarters": [1.0, 1.0, 1.0, 0.0]},
    "compile_seconds": 10.0,
    "cpu_seconds": 100.0,
}
_LEVEL = [(1e200, 1.0), (1e200, 2.0), (1.0, 3.0), (1.0, 4.0), (1.0, 5.0)]


@settings(max_examples=300, deadline=None)
@given(_JOBS, _JOBS, st.sampled_from([None, 1, MOST_STEPS]))
# Squares beyond a float, a quarter without time, epochs of which a tiny part has passed.
@example((_USUAL, _LEVEL, (1.0, 1.0, 1.0), ""), (_USUAL, _LEVEL, (1.0, 1.0, 1.0), ""), None)
@example((_USUAL, [], (1.0, 1.0, 1.0), ""), (_USUAL, [], (1.0, 1.0, 1.0), ""), None)
@example((_USUAL, [], (1.0, 1.0, 1e-300), "1e308"), (_USUAL, [], (1.0, 1.0, 1.0), ""), None)
@example((_USUAL, [], (1e200, 1e200, 1.0), ""), (_USUAL, [], (1.0, 1.0, 1.0), ""), None)
def test_no_number_that_a_job_wrote_breaks_a_comparison(first: Printed, second: Printed, steps: int | None) -> None:
    found = compare([job(native, first), job(compiled, second)], anyway=True, steps=steps)
    json.dumps(found.to_json(), allow_nan=False)
    for text in (sentence.text for sentence in found.sentences):
        assert not {"nan", "inf"} & set(text.replace("(", " ").replace(",", " ").split())


@pytest.mark.parametrize(("planned", "passed"), [("1e308", 1.0), ("5", -1.0), ("-5", 1.0), ("1e12", 1e-6)])
def test_a_training_of_impossible_epochs_has_no_bill(planned: str, passed: float) -> None:
    log = parse([str({"train_runtime": 100.0, "train_samples_per_second": 10.0, "epoch": passed})])
    hyperparameters = {"epochs": planned}
    jobs = [one(log=log, hyperparameters=hyperparameters) for one in (native, compiled)]
    assert compare(jobs).lengths == ()


def test_a_loss_that_rises_is_not_said_to_fall() -> None:
    rising = (1.0, 2.0, 3.0, 4.0, 5.0)
    found = compare([native(log=trainer(100, losses=rising)), compiled(log=trainer(60, losses=rising))])
    assert found.losses[0].fall == 0
    said = next(one.text for one in found.sentences if one.kind == "loss")
    assert said.startswith("The loss curves agree: they differ by 0, and the loss does not fall.")
