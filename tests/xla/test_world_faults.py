"""A worker that fails ends the others within seconds, and each says which it was."""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.xla_workers import Workers

pytestmark = pytest.mark.xla

PROGRAM = Path(__file__).with_name("programs") / "fault.py"
#: Long enough for a worker that is only slow, on a machine with other work.
TIMEOUT = 30


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Workers]]:
    """One world of two workers for each way of failing, all at the same time."""
    with ExitStack() as stack:
        found = {}
        for way in ("raise", "kill", "stall"):
            extra = {"SAGELET_COLLECTIVE_TIMEOUT": str(TIMEOUT)} if way == "stall" else None
            directory = tmp_path_factory.mktemp(way)
            found[way] = stack.enter_context(Workers(2, [PROGRAM, way], directory, extra, forked=False))
        yield found


@pytest.mark.parametrize(("way", "code"), [("raise", 1), ("kill", -9)])
def test_worker_that_ends(worlds: dict[str, Workers], way: str, code: int) -> None:
    workers = worlds[way]
    failed = workers.ended(1)
    begin = time.monotonic()
    waiting = workers.ended(0)
    assert time.monotonic() - begin < 60
    assert failed.code == code
    assert waiting.code == 1
    assert "went on" not in waiting.out
    last = waiting.err.splitlines()[-1]
    assert re.search(rf"rank 1 \(process {workers.processes[1].pid} on \S+\)", last)
    assert "rank 0 waited for it in all_reduce sum(1.0, float32[1000])" in last
    assert last.endswith("See that worker's own error.")


def test_the_failed_workers_own_error_is_all_that_it_says(worlds: dict[str, Workers]) -> None:
    failed = worlds["raise"].ended(1)
    assert failed.err.endswith("KeyError: 'rank 1 found no such column'\n")
    assert "WorkerLost" not in failed.err


def test_worker_that_stalls(worlds: dict[str, Workers]) -> None:
    waiting = worlds["stall"].ended(0)
    assert waiting.code == 1
    last = waiting.err.splitlines()[-1]
    assert f"rank 1 did not come to all_reduce sum(1.0, float32[1000]) within {TIMEOUT} s" in last
    assert "and rank 0 waited for it there" in last
    assert last.endswith("SAGELET_COLLECTIVE_TIMEOUT sets the seconds to wait.")
