"""images/training/installing/progress.py: a line on a terminal, plain lines elsewhere."""

import io

import pytest

from installing.progress import PLAIN_S, Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_log_has_a_plain_line_every_so_often_and_the_seconds_of_each_step() -> None:
    out, clock = io.StringIO(), Clock()
    progress = Progress(out, clock)
    with progress.step("torch") as step, progress.step("packages"):
        step.now = "12 of 147 MB"
        clock.now += PLAIN_S - 1
        progress.draw()
        assert out.getvalue() == ""
        clock.now += 1
        progress.draw()
        progress.draw()
    lines = out.getvalue().splitlines()
    assert lines[0] == "    10 s  torch: 12 of 147 MB; packages"
    assert [line.split() for line in lines[1:]] == [["packages", "10.0", "s"], ["torch", "10.0", "s"]]
    assert progress.seconds == 10


def test_a_terminal_has_one_line_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    progress = Progress(out, Clock())
    with progress.step("torch") as step:
        step.now = "a" * 100
        progress.draw()
        drawn = out.getvalue()
    assert drawn.startswith("\r\x1b[2K")
    assert len(drawn.removeprefix("\r\x1b[2K")) == 39
    assert "\n" not in drawn
    assert "\x1b[3" not in out.getvalue(), "no colours"


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert not Progress(Terminal()).on_terminal


def test_a_step_that_fails_says_so() -> None:
    out = io.StringIO()
    with pytest.raises(ValueError, match="no"), Progress(out, Clock()).step("torch"):
        raise ValueError("no")
    assert out.getvalue().split() == ["torch", "0.0", "s", "failed"]
