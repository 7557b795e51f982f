"""Runs every section of `make bench` in short. Checks what it counts, never a time."""

from pathlib import Path

import pytest

from bench.__main__ import run
from bench.figures import SECTIONS
from bench.tables import Scale, Table

HERE = Path(__file__).parents[1] / "bench" / "sections"


def count_as_planned(table: Table) -> None:
    """What was to be done was done, without errors."""
    assert table.rows
    assert {len(row) for row in table.rows} == {len(table.columns)}
    for name, count in table.counts.items():
        planned = table.counts.get(f"{name} planned")
        assert planned is None or count == planned, (table.title, name)
        assert not name.endswith("errors") or count == 0, (table.title, name)


def test_every_section_has_its_module() -> None:
    assert {file.stem for file in HERE.glob("*.py")} <= set(SECTIONS)


COMPILED = pytest.param("compiled", marks=pytest.mark.xla)


@pytest.mark.parametrize("section", ["api", "idle", "s3", "logs", "job", "concurrency", COMPILED])
def test_a_section_does_what_it_plans(section: str) -> None:
    tables = run(section, Scale.SHORT)
    for table in tables:
        count_as_planned(table)
    assert sum(count for table in tables for count in table.counts.values()) > 0
