"""docs/benchmarks.md is made of docs/benchmarks/figures.json, and of nothing else."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from bench import document, figures, page, terminal, wording
from bench.figures import SECTIONS, Measured
from bench.machine import Machine
from bench.tables import Bar, Scale, Table

RATIO = Bar("create, moto / sagelet", 9.26, 8)
MISSED = Bar("one page, p99 ms", 31.0, 20, at_most=True)
ROWS = (("create", 1.5), ("describe", 0.25))
TABLE = Table("Calls", ("call", "p50 ms"), ROWS, "Twice.", (RATIO, MISSED), {"calls": 4})
MACHINE = Machine("a processor", 2, 24.0, "Linux", 0, {"moto": "5"})
MEASURED = Measured(Scale.FULL, "2026-11-22 07:00 UTC", 61.0, 0.1, 1.9, MACHINE, (TABLE,))


def test_the_page_says_what_the_figures_say() -> None:
    known = figures.read()
    for name, measured in known.items():
        assert page.read(document.PAGE, name) == document.section(name, measured), f"write {name} again"
    assert page.read(document.PAGE, "bars") == (document.overview(known) if known else "")


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_has_a_place_for_every_section(name: str) -> None:
    page.read(document.PAGE, name)


def test_figures_are_read_as_they_were_written_and_others_stay(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    figures.write({"idle": MEASURED}, file)
    figures.write({"api": replace(MEASURED, seconds=5.0)}, file)
    assert figures.read(file) == {"api": replace(MEASURED, seconds=5.0), "idle": MEASURED}
    assert list(figures.read(file)) == ["api", "idle"]


def test_a_missed_bar_is_told_on_the_page_and_in_the_terminal() -> None:
    text = document.overview({"api": MEASURED})
    assert "| api | create, moto / sagelet | at least 8 | 9.26 | met |" in text
    assert "| api | one page, p99 ms | at most 20 | 31.0 | **MISSED** |" in text
    text = document.section("api", MEASURED)
    assert "make bench BENCH_ARGS=api" in text
    assert "load average 0.1 before and 1.9 after" in text
    output = io.StringIO()
    terminal.show(Console(file=output, width=120), "api", MEASURED)
    assert "MISSED one page, p99 ms: 31.0 (at most 20)" in output.getvalue()
    assert "a processor, 2 cores" in output.getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [(12345, "12,345"), (1234.5, "1,234"), (0.1234, "0.123"), (12.34, "12.3"), (0.00012, "1.2e-04"), (0.0, "0")],
)  # fmt: skip
def test_numbers_have_three_digits(value: str | float, text: str) -> None:
    assert wording.number(value) == text
