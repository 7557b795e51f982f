"""What the pairs of examples/best_practices reported differs as AWS's document says, by the figures themselves."""

from collections.abc import Callable
from typing import Any

import pytest

from support.doctor_scripts import RUNS, load

#: A figure of the first worker's report.
Figure = Callable[[dict[str, Any]], float]


def per_step(figure: Figure) -> Figure:
    return lambda report: figure(report) / report["steps"]


def counted(name: str) -> Figure:
    """Sum of the counts of a report's list."""
    return lambda report: sum(one["count"] for one in report[name])


def waiting(report: dict[str, Any]) -> float:
    return float(report["steady_input_wait_seconds"] / report["steady_step_seconds"])


def compiling(report: dict[str, Any]) -> float:
    """Compilation, for each second of steps."""
    return float(report["compile_seconds"] / report["steps"] / report["steady_step_seconds"])


#: Pair -> the figure that the wrong script drives up, and at least how many times it is that of the right one.
HIGHER: dict[str, tuple[Figure, float]] = {
    "dynamic_shapes": (per_step(lambda report: report["compiles"]), 10),
    "last_batch": (lambda report: report["compiling_step_count"], 2),
    "explicit_evaluation": (per_step(counted("evaluations")), 10),
    "frequent_logging": (per_step(counted("evaluations")), 10),
    "trainer": (per_step(counted("evaluations")), 2),
    "frequent_checkpoints": (per_step(counted("saves")), 10),
    "input_bound": (waiting, 10),
    "short_training": (compiling, 10),
    "cpu_fallback": (lambda report: sum(report["fallbacks"].values()), 10),
}
#: Pair -> the figure that is nought in the wrong one.
MISSING: dict[str, Figure] = {
    "missing_mark_step": lambda report: report["markers"],
    "not_compiled": lambda report: report.get("executions", 0),
    "torch_save": lambda report: sum(one["call"] == "xm.save" for one in report["saves"]),
}


#: Pairs whose wrong script fails.
FAILING = ("device_mixing", "cuda_device", "out_of_memory", "unreadable_checkpoint")


def reports(pair: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the first workers; empty where none used an XLA device."""
    wrong, right = ((record(pair, side)["report"]["workers"] or [{}])[0] for side in ("wrong", "right"))
    return wrong, right


def record(pair: str, side: str) -> dict[str, Any]:
    return next(load(one) for one in RUNS if one.name == f"{pair}_{side}")


@pytest.mark.parametrize("pair", HIGHER)
def test_the_wrong_script_does_more_of_it(pair: str) -> None:
    figure, times = HIGHER[pair]
    wrong, right = (figure(report) for report in reports(pair))
    assert wrong > 0
    assert wrong >= times * right


@pytest.mark.parametrize("pair", MISSING)
def test_the_wrong_script_does_without_it(pair: str) -> None:
    wrong, right = (MISSING[pair](report) for report in reports(pair))
    assert wrong == 0 < right


@pytest.mark.parametrize("pair", FAILING)
def test_the_wrong_script_fails(pair: str) -> None:
    assert record(pair, "wrong")["exit_code"] != 0
    assert record(pair, "right")["exit_code"] == 0
