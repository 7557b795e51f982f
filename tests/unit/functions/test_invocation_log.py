"""The log of one invocation: one order of time, and a line in place of what is left out."""

from collections.abc import Iterator

import pytest

from sagelet_engine.base.errors import OutputTooLong, RuntimeUnavailable
from sagelet_engine.functions import invocation_log
from sagelet_engine.functions.invocation_log import in_order, printed_lines
from sagelet_engine.model.runtime import Handle, Line

HANDLE = Handle("function", "ref", 1_000)


class Prints:
    """The part of a runtime that has lines."""

    def __init__(self, *batches: list[Line], fault: Exception | None = None) -> None:
        self._batches, self._fault = batches, fault

    def lines(self, _handle: Handle, _position: str | None) -> Iterator[list[Line]]:
        yield from self._batches
        if self._fault is not None:
            raise self._fault


def printed(runtime: Prints) -> list[tuple[int, str]]:
    return printed_lines(runtime, HANDLE)  # type: ignore[arg-type]


def test_lines_of_two_clocks_are_one_sequence() -> None:
    """A line read after the host's end has a later time than the end, and another clock may go back."""
    assert in_order([(5, "a"), (3, "b"), (900, "c"), (7, "end")], 7) == [(5, "a"), (5, "b"), (7, "c"), (7, "end")]


def test_what_a_log_leaves_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation_log, "MOST_LINES", 2)
    lines = [Line(1_000 + number, f"line {number}", str(number)) for number in range(4)]
    assert printed(Prints(lines[:2])) == [(1_000, "line 0"), (1_001, "line 1")]
    for batches in ([lines[:3]], [lines[:1], lines[1:]]):
        *kept, last = printed(Prints(*batches))
        assert [text for _, text in kept] == ["line 0", "line 1"]
        why = "a log has at most 2 lines of an invocation"
        assert last == (1_001, f"sagelet: the lines from here on are left out: {why}")


@pytest.mark.parametrize("fault", [OutputTooLong("too long"), RuntimeUnavailable("too long")])
def test_a_log_that_breaks_off_says_why(fault: Exception) -> None:
    said = "sagelet: the lines from here on are left out: too long"
    assert printed(Prints([Line(2_000, "one", "1")], fault=fault)) == [(2_000, "one"), (2_000, said)]
    assert printed(Prints(fault=fault)) == [(1_000, said)]
