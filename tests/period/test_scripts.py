"""Ten training scripts of 2021 to 2024, unchanged: natively and compiled, by one worker and by several.

Each worker imports the script's libraries, which is most of what these tests cost. So CI runs five of the scripts, one
for each launcher and library, with several workers: one with four, the others with two. `make period` runs all ten with
four (one of them with two).
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support import period, period_data
from support.period import PeriodScript
from support.period_scripts import SCRIPTS
from support.script_log import differences, numbers_of, script_lines

pytestmark = pytest.mark.xla

Lines = Callable[[PeriodScript, bool, int], list[str]]

EVERYTHING = os.environ.get("SAGELET_TEST_PERIOD") == "all"
SEVERAL = [(one, workers) for one in SCRIPTS if (workers := one.several if EVERYTHING else one.several_in_ci)]
CASES = [(script, 1) for script in SCRIPTS] + SEVERAL
AS_ONE = [(script, workers) for script, workers in SEVERAL if script.same_over_workers]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    period_data.write(directory)
    return directory


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Lines:
    """The script's lines in the log of its job. Each job runs once."""
    known: dict[tuple[str, bool, int], list[str]] = {}

    def lines(script: PeriodScript, compiled: bool, workers: int) -> list[str]:
        key = (script.name, compiled, workers)
        if key not in known:
            run = period.run(script, tmp_path_factory.mktemp("job"), data, compiled=compiled, workers=workers)
            assert run.ended.code == 0, run.ended.log[-6000:]
            known[key] = script_lines(run.ended.log, run.base)
        return known[key]

    return lines


@pytest.mark.parametrize(("script", "workers"), CASES, ids=[f"{script.name}-{workers}" for script, workers in CASES])
def test_compiled_and_native_say_the_same(lines: Lines, script: PeriodScript, workers: int) -> None:
    """The same lines; losses and metrics within the tolerance of docs/explanation/same-model.md."""
    native, compiled = lines(script, False, workers), lines(script, True, workers)
    if script.not_on_tpu:
        native = [line for line in native if not re.search(script.not_on_tpu, line)]
    for pattern in script.says:
        assert numbers_of(native, pattern), f"no line like {pattern!r} in\n" + "\n".join(native)
    assert "\n".join(differences(native, compiled, script.tolerance)) == ""


@pytest.mark.parametrize(("script", "workers"), AS_ONE, ids=[script.name for script, _ in AS_ONE])
@pytest.mark.parametrize("compiled", [False, True], ids=["native", "compiled"])
def test_several_workers_train_as_one(lines: Lines, script: PeriodScript, workers: int, compiled: bool) -> None:
    """Each has its share of the batch. So they log the losses and metrics of one worker that has all of it."""
    for pattern in script.says:
        one, all_of_them = (numbers_of(lines(script, compiled, count), pattern) for count in (1, workers))
        assert len(one) == len(all_of_them) > 0, (pattern, one, all_of_them)
        for mine, theirs in zip(one, all_of_them, strict=True):
            agree = [a.agrees(b, script.tolerance) for a, b in zip(mine, theirs, strict=True)]
            assert all(agree), (pattern, one, all_of_them)
