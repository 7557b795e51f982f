"""Runs the sections of `make bench` in short. Checks what they count, never a time."""

import pytest

from bench.__main__ import run
from bench.tables import Scale

#: All but `first-job`, which downloads gigabytes.
SECTIONS = (
    *("api", "idle", "tuning", "pipelines", "beside"),
    # Its jobs write files with it.
    pytest.param("s3", marks=pytest.mark.programs("busybox")),
    # On all runtimes that are here, with an image of a busybox in Docker.
    *(pytest.param(name, marks=pytest.mark.programs("busybox")) for name in ("logs", "concurrency")),
    # Beside the bare command.
    pytest.param("job", marks=pytest.mark.programs("busybox", "docker")),
    pytest.param("models", marks=pytest.mark.xla),
    pytest.param("compiled", marks=pytest.mark.xla),
    pytest.param("fixed", marks=pytest.mark.xla),
    pytest.param("step", marks=pytest.mark.xla),
    pytest.param("slurm", marks=pytest.mark.slurm),
)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_does_what_it_plans(section: str) -> None:
    tables = run(section, Scale.SHORT)
    for table in tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
        assert not table.wrong
    assert sum(done for table in tables for done, _ in table.counts.values()) > 0
