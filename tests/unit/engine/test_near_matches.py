"""Why a metric definition matches none of a job's lines."""

import itertools

import pytest

from sagelet_engine.telemetry.near_matches import (
    BOTH,
    CASE,
    NO_GROUP,
    NO_NUMBER,
    SEPARATOR,
    SHOWN,
    Budget,
    Unmatched,
    unmatched,
)

LINES = ("Loading data", "step 1 loss=2.5 lr: 0.1", "step 2 loss=2.25 lr: 0.1", "done")


@pytest.mark.parametrize(
    ("regex", "line", "why"),
    [
        ("loss: ([0-9.]+)", LINES[2], SEPARATOR),
        ("'loss': ([0-9.]+)", LINES[2], SEPARATOR),
        (r"loss\s*:\s*([0-9.]+)", LINES[2], SEPARATOR),
        ("Loss=([0-9.]+)", LINES[2], CASE),
        ("Train LOSS: ([0-9.]+)", "", ""),
        ("LOSS: ([0-9.]+)", LINES[2], BOTH),
        ("loss=[0-9.]+", LINES[2], NO_GROUP),
        ("(loss)=([0-9.]+)", LINES[2], NO_NUMBER),
        ("accuracy: ([0-9.]+)", "", ""),
        ("(?P<x>Loss)=(?=2)", "", ""),
    ],
)
def test_the_newest_line_that_nearly_matches_and_what_is_in_the_way(regex: str, line: str, why: str) -> None:
    assert unmatched("m", regex, 1234, LINES, Budget()) == Unmatched("m", regex, 1234, 4, line, why)


def test_hostile_lines_and_regexes_take_bounded_work() -> None:
    long = "x" * 1_000_000 + " loss=1"
    found = unmatched("m", "loss: ([0-9.]+)" + "y" * 900, 1, [long], Budget())
    assert (found.line, len(found.regex)) == ("", SHOWN)
    # Each search has its limit, and the first one that passes it ends those of its variant.
    assert unmatched("m", "(a|a)*(a|aa)*b: ([0-9])", 1, ["a" * 1_000] * 1_000, Budget()).line == ""
    assert unmatched("m", "(", 1, LINES, Budget()).line == ""


def test_the_definitions_of_a_job_share_the_seconds() -> None:
    """Each search of this clock takes a second, so two of them are all."""
    budget = Budget(2.0, itertools.count().__next__)
    assert unmatched("m", "loss: ([0-9.]+)", 4, LINES, budget).line == LINES[2]
    assert unmatched("m", "loss: ([0-9.]+)", 4, LINES, budget).line == ""
    assert budget.seconds == 0
