"""The pages show what the sections of `make bench` would write, and figures as they were measured."""

import importlib
import re
from pathlib import Path

import pytest

from bench import page
from bench.tables import TOO_NOISY, Bar, Figure, Table, against_peer, in_turns, number

#: What stands in the place of figures that nobody could measure on a quiet machine.
NOT_YET = "**Too noisy to say.**"
SECTIONS = [
    # It imports what trains.
    pytest.param(name, marks=pytest.mark.xla) if name in ("models", "compiled", "step") else name
    for name in page.PAGES
]


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_has_the_tables_of_the_section(section: str) -> None:
    text = page.read(section)
    if text.startswith(NOT_YET):
        return
    assert text.startswith(f"`make bench-{section}`, 2026-")
    heads = re.findall(r"^\| (.*) \|\n\| --- ", text, re.MULTILINE)
    module = importlib.import_module(f"bench.sections.{section.replace('-', '_')}")
    assert heads == [" | ".join(head) for head in module.HEADS]
    assert len(re.findall(r"^\*\*.*\.\*\* ", text, re.MULTILINE)) == len(heads)


@pytest.mark.parametrize("section", page.PAGES)
def test_a_page_names_the_processor_of_its_figures(section: str) -> None:
    assert re.search(r"AMD EPYC, 2 cores|2 cores \(the processor was not recorded\)", page.read(section))


def test_every_section_has_a_page() -> None:
    modules = Path(page.__file__).parent.joinpath("sections").glob("*.py")
    assert {file.stem.replace("_", "-") for file in modules} == set(page.PAGES)


def test_a_section_is_written_between_its_marks_and_the_rest_stays(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    marks = "a\n<!-- measured api: begin -->\nold\n<!-- measured api: end -->\nb\n"
    file.write_text(marks)
    page.write("api", "new", file)
    assert file.read_text() == marks.replace("old", "new")
    with pytest.raises(SystemExit, match="has no place for it"):
        page.write("s3", "new", file)


def test_a_table_shows_its_figures_and_what_is_promised_of_them() -> None:
    ratio = Figure.of([9.0, 8.5, 10.0])
    rows = [("create", ratio, Bar("moto / sagelet", ratio, 8)), ("describe", 31.0, Bar("ms", 31.0, 20, at_most=True))]
    table = Table("Calls", ("call", "figure", "promised"), rows, "Twice.", {"calls": (4, 4)})
    assert str(table).splitlines() == [
        "**Calls.** Twice.",
        "",
        "| call | figure | promised |",
        "| --- | --- | --- |",
        "| create | 9.00 (8.5 to 10) | moto / sagelet at least 8: met |",
        "| describe | 31.0 | ms at most 20: **MISSED** |",
    ]
    assert table.wrong == []


def test_counts_that_are_not_as_planned_are_named() -> None:
    counts = {"calls": (3, 4), "connection errors": (1, 0)}
    found = Table("Calls", ("call",), [("create",)], "", counts).wrong
    assert found == ["Calls: calls: 3, planned 4", "Calls: connection errors: 1, planned 0"]


def test_what_does_not_repeat_is_too_noisy_to_say() -> None:
    ours, theirs = Figure.of([1.0, 2.0, 4.0]), Figure.of([2.0, 3.0, 6.0])
    assert theirs.over(ours) == Figure(1.5, 0.5, 6.0)
    assert against_peer(theirs.over(ours)) == f"1.50 (0.50 to 6.0), {TOO_NOISY}"
    assert against_peer(Figure(0.5, 0.4, 0.9)) == "0.500 (0.40 to 0.90)"
    assert [Bar("s", ours, limit, at_most=True).verdict for limit in (4, 3, 0.5)] == ["met", TOO_NOISY, "**MISSED**"]
    assert [Bar("calls/s", ours, limit).verdict for limit in (1, 3, 5)] == ["met", TOO_NOISY, "**MISSED**"]


def test_runs_take_turns_and_every_second_round_is_in_reverse_order() -> None:
    order: list[str] = []
    found = in_turns(3, {"ours": lambda: order.append("ours") or 1, "theirs": lambda: order.append("theirs") or 2})
    assert order == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert found == {"ours": [1, 1, 1], "theirs": [2, 2, 2]}


@pytest.mark.parametrize(
    ("value", "text"), [(12345, "12,345"), (1234.5, "1,234"), (0.1234, "0.123"), (12.34, "12.3"), (0.0, "0")]
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text
