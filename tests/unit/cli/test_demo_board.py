"""The demo's progress: a table on a terminal, lines in a log."""

import io

import pytest
from rich.console import Console

from sagelet_api.cli.demo_board import Board, Row
from sagelet_api.cli.demo_figures import Mark

KINDS = ("compiled", "native", "again")


def marks(upto: int) -> tuple[Mark, ...]:
    """Marks of 80 steps: 5 s for the first, then 0.1 s a step."""
    return tuple(Mark(step, 80, 5 + 0.1 * step, 4 - step / 80) for step in (1, *range(5, upto + 1, 5)))


def train(board: Board) -> None:
    with board.shown():
        board.update("compiled", Row("Downloading"))
        for seconds in (3, 4):
            board.update("compiled", Row(f"compiling, step 1, {seconds} s"))
            board.update("compiled", Row("Training"))
        for upto in (1, *range(5, 81, 5)):
            board.update("compiled", Row("", marks(upto)))
        board.update("compiled", Row("Completed", marks(80), has_ended=True))
        board.update("native", Row("Failed", has_ended=True))


def test_a_log_has_a_line_for_each_quarter(capsys: pytest.CaptureFixture[str]) -> None:
    train(Board(Console(force_terminal=False), KINDS))
    assert capsys.readouterr().out.splitlines() == [
        "compiled: Downloading",
        "compiled: compiling, step 1, 3 s",
        "compiled: Training",
        "compiled: step 1 of 80, loss 3.9875, 5.1 s",
        "compiled: step 20 of 80, loss 3.7500, 7.0 s, 6 s left",
        "compiled: step 40 of 80, loss 3.5000, 9.0 s, 4 s left",
        "compiled: step 60 of 80, loss 3.2500, 11.0 s, 2 s left",
        "compiled: step 80 of 80, loss 3.0000, 13.0 s, 0 s left",
        "compiled: step 80 of 80, loss 3.0000, 13.0 s; Completed",
        "native: Failed",
    ]


def on_terminal(**options: str) -> str:
    out = io.StringIO()
    train(
        Board(Console(file=out, force_terminal=True, width=100, _environ={"TERM": "xterm-256color", **options}), KINDS)
    )
    return out.getvalue()


def test_a_terminal_has_all_jobs_side_by_side_while_one_trains() -> None:
    shown = on_terminal()
    frame = next(part for part in shown.split("compiled") if "40/80" in part)
    assert "3.5000" in frame
    assert "9.0 s, 4 s left" in frame
    assert frame.index("native") < frame.index("again")
    assert "waits" in frame
    assert "\x1b[1m" in shown


def test_no_colour_where_none_is_wanted() -> None:
    """Bold and cursor moves may stay: https://no-color.org speaks of colours only."""
    import re

    coloured = re.compile(r"\x1b\[[\d;]*(?:3[0-8]|9[0-7])[;m]")
    assert coloured.search(on_terminal())
    assert not coloured.search(on_terminal(NO_COLOR="1"))


def test_a_terminal_that_moves_no_cursor_gets_lines(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(force_terminal=True, _environ={"TERM": "dumb"})
    train(Board(console, KINDS))
    assert "compiled: step 40 of 80" in capsys.readouterr().out
