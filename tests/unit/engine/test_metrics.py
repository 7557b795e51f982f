"""Metric definitions as AWS applies them: Python's re, group 1, float32; a text that is not a number emits nothing."""

import math

import pytest

from sagelet_engine.model.log_events import LogEvent
from sagelet_engine.model.spec import MetricDefinition
from sagelet_engine.telemetry.metrics import MetricDefinitions, float32


def values(regex: str, *lines: str) -> list[float]:
    definitions = MetricDefinitions([MetricDefinition("m", regex)])
    return [point.value for point in definitions.points(LogEvent(1000, line) for line in lines)]


@pytest.mark.parametrize(
    ("regex", "line", "expected"),
    [
        ("loss=([0-9.]+)", "loss=0.5", [0.5]),
        ("loss=([0-9.]+)", "loss=1 loss=2", [1.0, 2.0]),
        ("loss=([0-9.]+) (x)", "loss=1 x", [1.0]),
        ("[0-9]+", "took 12 s", [12.0]),
        (r"'learning_rate': ([0-9]+(.|e\-)[0-9]+)", "'learning_rate': 2.38e-05", [float32(2.38)]),
        ("loss=(.*)", "loss=-1e-3", [float32(-0.001)]),
        ("loss=(.*)", "loss= 7 ", [7.0]),
        ("loss=([0-9.]+)", "no loss", []),
        ("loss=(.*)", "loss=", []),
        ("loss=(.*)", "loss=abc", []),
        ("(a)|loss=([0-9]+)", "loss=1", []),
        ("loss=([0-9.]*)", "loss=.", []),
    ],
)
def test_values(regex: str, line: str, expected: list[float]) -> None:
    assert values(regex, line) == expected


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-Infinity", "1e39", "1e999"])
def test_what_is_no_finite_number_emits_nothing(text: str) -> None:
    assert values(r"loss=(\S+)", f"loss={text}", "loss=1") == [1.0]


def test_values_are_float32() -> None:
    assert values("([0-9.]+)", "0.1") == [0.10000000149011612]
    assert math.isclose(float32(1e-45), 1e-45, rel_tol=1)


def test_each_point_has_the_time_of_its_line() -> None:
    definitions = MetricDefinitions([MetricDefinition("a", "a(.)"), MetricDefinition("b", "b(.)")])
    points = definitions.points([LogEvent(1, "b1 a2"), LogEvent(2, "a3")])
    assert [(point.name, point.value, point.time_ms) for point in points] == [("a", 2, 1), ("b", 1, 1), ("a", 3, 2)]


def test_no_definitions_no_points() -> None:
    assert MetricDefinitions([]).points([LogEvent(1, "loss=1")]) == []


def test_a_definition_that_backtracks_for_ever_is_left_out_and_the_others_go_on() -> None:
    definitions = MetricDefinitions([MetricDefinition("r", "(a|aa)+$"), MetricDefinition("loss", "loss=([0-9.]+)")])
    line = LogEvent(0, "a" * 60 + "! loss=0.5")
    for _ in range(2):
        assert [(point.name, point.value) for point in definitions.points([line])] == [("loss", 0.5)]
    (note,) = definitions.take_notes()
    assert note.startswith("sagelet: warning: metric 'r' is left out from here on: its regex takes longer than")
    assert definitions.take_notes() == []
