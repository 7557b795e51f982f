"""Metric definitions as AWS applies them: Python's re, group 1, float32; a text that is not a number emits nothing."""

import ast
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sagelet_engine.base.number_text import number_in
from sagelet_engine.model.log_events import LogEvent
from sagelet_engine.model.spec import MetricDefinition
from sagelet_engine.telemetry import metrics
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
def test_what_is_no_finite_number_is_named_once(text: str) -> None:
    definitions = MetricDefinitions([MetricDefinition("m", r"loss=(\S+)")])
    lines = [LogEvent(1000, f"loss={word}") for word in (text, "1", text)]
    first, one, last = (point.value for point in definitions.points(lines))
    assert (math.isfinite(first), one, math.isfinite(last)) == (False, 1.0, False)
    (note,) = definitions.take_notes()
    assert note.startswith(f"sagelet: warning: metric 'm' became {first}; neither CloudWatch nor")


@pytest.mark.parametrize(
    "text",
    [
        "1_000",
        "\u0661\u0662",
        "\uff11",
        "1\u00a0",
        "0x10",
        "1e",
        "+-1",
        "1.2.3",
        "e5",
        ".",
        "",
        "1 2",
        "9" * 401,
        "infinit",
    ],
)
def test_what_is_no_number_by_the_strict_grammar(text: str) -> None:
    assert number_in(text) is None
    assert values("loss=(.*)", f"loss={text}", "loss=1") == [1.0]


@pytest.mark.parametrize("text", ["1", "+1", "-1.5", "1.", ".5", "1e-3", "1E+3", " 7\t", "0.5\r", "007", "-.5e1"])
def test_what_is_a_number_by_the_strict_grammar(text: str) -> None:
    assert number_in(text) == float(text)


def test_no_text_of_a_job_becomes_a_number_by_another_grammar() -> None:
    """`float` of a text takes more than anybody documents. These calls take numbers."""
    known = {
        "comparison/decoding.py": 1, "comparison/losses.py": 1, "comparison/trainer_log.py": 1,
        "telemetry/compiler/points.py": 1,
    }  # fmt: skip
    root = Path(__file__).parents[3] / "emulator" / "sagelet_engine"
    calls = Counter(
        file.relative_to(root).as_posix()
        for package in ("comparison", "doctor", "reports", "telemetry", "execution")
        for file in (root / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float"
    )
    assert calls == known


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


def test_definitions_that_backtrack_share_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones may take long for a line. After these the others have less, and all are left out at that line."""
    monkeypatch.setattr(metrics, "TIMEOUT_S", 0.1)
    monkeypatch.setattr(metrics, "LATER_S", 0.01)
    definitions = MetricDefinitions([MetricDefinition(f"r{number}", "(a|aa)+$") for number in range(40)])
    assert definitions.points([LogEvent(0, "a" * 60 + "!")]) == []
    limits = [note.partition("longer than ")[2].partition(" s")[0] for note in definitions.take_notes()]
    assert limits == ["0.1"] * 2 + ["0.01"] * 38


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """CPU seconds that each search takes, by its regex."""
    costs: dict[str, float] = {}
    taken, search = [0.0], metrics._values

    def searched(definition: Any, text: str, timeout_s: float) -> Iterator[float]:
        taken[0] += costs.get(definition.regex.pattern, 0.0)
        return search(definition, text, timeout_s)

    monkeypatch.setattr(metrics, "_values", searched)
    monkeypatch.setattr(metrics, "time", SimpleNamespace(thread_time=lambda: taken[0]))
    return costs


TWO = [MetricDefinition("slow", "slow(.)"), MetricDefinition("loss", "loss=([0-9.]+)")]


def test_a_definition_that_takes_long_for_every_line_is_left_out(costs: dict[str, float]) -> None:
    """Less than the time for a line, at each of thousands: the log would come hours after the job."""
    costs |= {"slow(.)": 0.09, "loss=([0-9.]+)": 0.001}
    definitions, lines = MetricDefinitions(TWO), 0
    while not (notes := definitions.take_notes()):
        assert len(definitions.points([LogEvent(0, "slow1 loss=1")])) == 2
        lines += 1
    # Each adds 0.003 s to the 2 s that they may take.
    assert 2 / 0.09 < lines < 2 / 0.08 + 2
    (note,) = notes
    assert note.startswith("sagelet: warning: metric 'slow' is left out from here on: its regex took 2.")
    assert note.endswith(" s of CPU so far; write one that does not backtrack")
    for _ in range(1000):
        assert [point.name for point in definitions.points([LogEvent(0, "slow1 loss=1")])] == ["loss"]
    assert definitions.take_notes() == []


def test_what_a_definition_took_in_a_long_job_does_not_count_when_another_takes_too_long(
    costs: dict[str, float],
) -> None:
    costs |= {"slow(.)": 0.9, "loss=([0-9.]+)": 0.002}
    definitions = MetricDefinitions(TWO)
    for _ in range(1000):
        definitions.points([LogEvent(0, "loss=1")])
    for _ in range(4):
        definitions.points([LogEvent(0, "slow1")])
    (note,) = definitions.take_notes()
    assert "'slow'" in note


def test_a_long_line_may_take_longer(costs: dict[str, float]) -> None:
    costs["loss=([0-9.]+)"] = 0.1
    definitions, line = MetricDefinitions(TWO), "loss=1 " + "x" * 100_000
    for _ in range(1000):
        assert len(definitions.points([LogEvent(0, line)])) == 1
