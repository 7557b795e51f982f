"""Shows what long work does: one line on a terminal, and a plain line every so often where there is none."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

#: Seconds between two pictures of the line on a terminal, and between two plain lines.
TERMINAL_S, PLAIN_S = 0.2, 10.0
#: Goes to the line's beginning and clears it.
_CLEAR = "\r\x1b[2K"
Clock = Callable[[], float]


class Step:
    """Work that has a name. What it does now is in `now`, which any thread may set."""

    def __init__(self, name: str, began: float) -> None:
        self.name, self.began = name, began
        self.now = ""


class Progress:
    """Shows the steps that run on one line, and each step that has ended with its seconds. It uses no colours."""

    def __init__(self, stream: TextIO | None = None, clock: Clock = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._lock = threading.Lock()
        self._steps: list[Step] = []
        self._began = clock()
        self._shown = self._began
        self.on_terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Shows the step while the block runs. Steps of several threads are on one line."""
        step = Step(name, self._clock())
        with self._lock:
            self._steps.append(step)
        failed = True
        try:
            yield step
            failed = False
        finally:
            with self._lock:
                self._steps.remove(step)
                self._end(step, failed)

    def _end(self, step: Step, failed: bool) -> None:
        seconds = self._clock() - step.began
        self._write_line(f"  {step.name:<{_NAME}} {seconds:6.1f} s{'  failed' if failed else ''}")

    @property
    def seconds(self) -> float:
        """Returns the seconds since it began."""
        return self._clock() - self._began

    def say(self, text: str) -> None:
        with self._lock:
            self._write_line(text)

    def _write_line(self, text: str) -> None:
        self._stream.write(f"{_CLEAR if self.on_terminal else ''}{text}\n")
        self._stream.flush()
        self._shown = self._clock()

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Draws the line again and again while the block runs."""
        done = threading.Event()
        period = TERMINAL_S if self.on_terminal else PLAIN_S / 10
        drawer = threading.Thread(target=self._draw_until, args=(done, period), daemon=True)
        drawer.start()
        try:
            yield
        finally:
            done.set()
            drawer.join()
            if self.on_terminal:
                self._stream.write(_CLEAR)
                self._stream.flush()

    def _draw_until(self, done: threading.Event, period: float) -> None:
        while not done.wait(period):
            self.draw()

    def draw(self) -> None:
        """Draws the line, if it is time to."""
        with self._lock:
            now = self._clock()
            if not self._steps or (not self.on_terminal and now - self._shown < PLAIN_S):
                return
            text = "; ".join(f"{step.name}: {step.now}" if step.now else step.name for step in self._steps)
            if self.on_terminal:
                width = shutil.get_terminal_size().columns - 1
                self._stream.write(_CLEAR + f"  {now - self._began:4.0f} s  {text}"[:width])
                self._stream.flush()
            else:
                self._write_line(f"  {now - self._began:4.0f} s  {text}")


_NAME = 52
