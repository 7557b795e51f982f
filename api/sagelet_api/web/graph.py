"""The picture of an execution: its steps as boxes, one row for each level, and what each waits for as lines.

A line that passes rows has a lane beside their boxes, so no line runs through a box.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from sagelet_engine.model.pipeline import StepRun
from sagelet_engine.pipelines.definition import Definition, Step

#: Units of the picture.
WIDTH, HEIGHT, ACROSS, DOWN, MARGIN = 176, 48, 24, 44, 8
#: Width of a lane, in which lines pass a row of boxes.
LANE = 8
#: Rows that all lines together pass. 1,000 steps one after the other, each of which the last needs, would have 500,000.
MOST_PASSED = 20_000
#: Letters of a name that a box has room for.
ROOM = 22


class Node(NamedTuple):
    name: str
    #: The name, cut to what the box has room for.
    short: str
    type: str
    #: StepStatus in lower case, or `idle` for a step that has not begun.
    state: str
    words: str
    x: int
    y: int


class Line(NamedTuple):
    #: What an SVG path draws.
    path: str
    #: Where the outcome is written.
    x: int
    y: int
    #: True, False, or empty for a line that is not a branch of a condition.
    outcome: str
    taken: bool


class Graph(NamedTuple):
    nodes: list[Node]
    lines: list[Line]
    width: int
    height: int


class _Place(NamedTuple):
    """A place in a row: the box of a step, or a lane beside the boxes for lines of a step that is farther above."""

    name: str
    lane: bool

    @property
    def width(self) -> int:
        return LANE if self.lane else WIDTH


#: Where each place begins, in its row.
_Lefts = dict[tuple[int, _Place], int]


def graph(definition: Definition, runs: Mapping[str, StepRun], *, ended: bool) -> Graph | None:
    """Draws the steps of a definition in the states of their runs. `ended`: no step begins any more.

    Returns None if the lines pass more than MOST_PASSED rows in all.
    """
    if _is_too_large(definition):
        return None
    levels = definition.levels
    rows = _rows(definition, levels)
    widest = max(map(_width, rows))
    lefts: _Lefts = {}
    for down, row in enumerate(rows):
        left = MARGIN + (widest - _width(row)) // 2
        for place in row:
            lefts[down, place] = left
            left += place.width + ACROSS
    steps = [place.name for row in rows for place in row if not place.lane]
    nodes = [
        _node(definition.steps[name], runs.get(name), lefts[levels[name], _Place(name, False)], _top(levels[name]),
              ended=ended)
        for name in steps
    ]  # fmt: skip
    lines = [
        _line(name, step, levels, lefts, runs) for step in definition.steps.values() for name in sorted(step.needs)
    ]
    return Graph(nodes, lines, 2 * MARGIN + widest, _top(len(rows)) - DOWN + MARGIN)


def _top(row: int) -> int:
    return MARGIN + row * (HEIGHT + DOWN)


def _width(row: list[_Place]) -> int:
    return sum(place.width for place in row) + ACROSS * (len(row) - 1)


def _is_too_large(definition: Definition) -> bool:
    """True if the lines pass more rows than a picture shows anyhow."""
    levels = definition.levels
    passed = (levels[step.name] - levels[name] for step in definition.steps.values() for name in step.needs)
    return sum(passed) > MOST_PASSED


def _rows(definition: Definition, levels: Mapping[str, int]) -> list[list[_Place]]:
    """Returns what is beside each other. A place is near those above it that lines connect it with."""
    rows: list[list[_Place]] = [[] for _ in range(max(levels.values()) + 1)]
    last: dict[str, int] = {}
    for name, step in definition.steps.items():
        rows[levels[name]].append(_Place(name, False))
        for need in step.needs:
            last[need] = max(last.get(need, 0), levels[name])
    for name in definition.steps:
        for between in range(levels[name] + 1, last.get(name, 0)):
            rows[between].append(_Place(name, True))
    for above, row in pairwise(rows):
        middles = _middles(above)
        row.sort(key=lambda place: _pull(definition, place, middles))
    return rows


def _middles(row: list[_Place]) -> dict[str, float]:
    """Returns the middles of a row's places by name, from the middle of the row."""
    left, middles = -_width(row) / 2, {}
    for place in row:
        middles[place.name] = left + place.width / 2
        left += place.width + ACROSS
    return middles


def _pull(definition: Definition, place: _Place, middles: Mapping[str, float]) -> float:
    """Returns where a place would be best: below the mean of what is above it."""
    above = [place.name] if place.lane else definition.steps[place.name].needs
    found = [middles[name] for name in above if name in middles]
    return sum(found) / len(found) if found else 0.0


def _node(step: Step, run: StepRun | None, x: int, y: int, *, ended: bool) -> Node:
    short = step.name if len(step.name) <= ROOM else f"{step.name[: ROOM - 1]}…"
    if run is None:
        return Node(
            name=step.name, short=short, type=step.type, state="idle", words="not run" if ended else "waits", x=x, y=y
        )
    words = run.status.value
    if run.cached_from or run.selected_from:
        words = "Reused"
    elif step.type == "Condition" and run.succeeded:
        words = str(run.properties["Outcome"])
    return Node(name=step.name, short=short, type=step.type, state=run.status.value.lower(), words=words, x=x, y=y)


def _line(
    name: str, step: Step, levels: Mapping[str, int], lefts: _Lefts, runs: Mapping[str, StepRun]
) -> Line:  # fmt: skip
    """Draws the line from a step to one that needs it: curves between rows, and straight down a lane in each row."""
    start = lefts[levels[name], _Place(name, False)] + WIDTH // 2, _top(levels[name]) + HEIGHT
    path, x, y = f"M{start[0]} {start[1]}", *start
    for row in range(levels[name] + 1, levels[step.name]):
        lane = lefts[row, _Place(name, True)] + LANE // 2
        path += f"{_curve(x, y, lane, _top(row))} V{_top(row) + HEIGHT}"
        x, y = lane, _top(row) + HEIGHT
    end = lefts[levels[step.name], _Place(step.name, False)] + WIDTH // 2, _top(levels[step.name])
    path += _curve(x, y, *end)
    outcome = str(step.branch[1]) if step.branch is not None and step.branch[0] == name else ""
    return Line(path, (x + end[0]) // 2 + 6, (y + end[1]) // 2 + 4, outcome, taken=step.name in runs)


def _curve(x1: int, y1: int, x2: int, y2: int) -> str:
    return f" C{x1} {y1 + DOWN // 2} {x2} {y2 - DOWN // 2} {x2} {y2}"
