"""The picture of an execution: its steps as boxes, one row for each level, and what each waits for as lines."""

from collections.abc import Mapping
from typing import NamedTuple

from sagelet_engine.model.pipeline import StepRun
from sagelet_engine.pipelines.definition import Definition, Step

#: Units of the picture.
WIDTH, HEIGHT, ACROSS, DOWN, MARGIN = 176, 48, 24, 44, 8
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
    x1: int
    y1: int
    x2: int
    y2: int
    #: True, False, or empty for a line that is not a branch of a condition.
    outcome: str
    taken: bool


class Graph(NamedTuple):
    nodes: list[Node]
    lines: list[Line]
    width: int
    height: int


def graph(definition: Definition, runs: Mapping[str, StepRun], *, ended: bool) -> Graph:
    """Draws the steps of a definition in the states of their runs. `ended`: no step begins any more."""
    rows = _rows(definition)
    widest = max(map(len, rows))
    places: dict[str, tuple[int, int]] = {}
    for down, row in enumerate(rows):
        left = MARGIN + (widest - len(row)) * (WIDTH + ACROSS) // 2
        for across, step in enumerate(row):
            places[step.name] = left + across * (WIDTH + ACROSS), MARGIN + down * (HEIGHT + DOWN)
    nodes = [_node(step, runs.get(step.name), *places[step.name], ended=ended) for row in rows for step in row]
    lines = [
        _line(places[name], places[step.name], step, name, runs)
        for step in definition.steps.values()
        for name in sorted(step.needs)
    ]
    return Graph(
        nodes,
        lines,
        2 * MARGIN + widest * (WIDTH + ACROSS) - ACROSS,
        2 * MARGIN + len(rows) * (HEIGHT + DOWN) - DOWN,
    )


def _rows(definition: Definition) -> list[list[Step]]:
    """Returns the steps by level: each is below all that it needs."""
    levels: dict[str, int] = {}
    left = list(definition.steps)
    while left:
        # A definition is refused if its steps wait for each other, so each turn finds some.
        ready = [name for name in left if definition.steps[name].needs <= levels.keys()]
        levels |= {name: 1 + max((levels[one] for one in definition.steps[name].needs), default=-1) for name in ready}
        left = [name for name in left if name not in levels]
    rows: list[list[Step]] = [[] for _ in range(max(levels.values()) + 1)]
    for name, step in definition.steps.items():
        rows[levels[name]].append(step)
    return rows


def _node(step: Step, run: StepRun | None, x: int, y: int, *, ended: bool) -> Node:
    short = step.name if len(step.name) <= ROOM else f"{step.name[: ROOM - 1]}…"
    if run is None:
        return Node(step.name, short, step.type, "idle", "not run" if ended else "waits", x, y)
    words = run.status.value
    if run.cached_from or run.selected_from:
        words = "Reused"
    elif step.type == "Condition" and run.succeeded:
        words = str(run.properties["Outcome"])
    return Node(step.name, short, step.type, run.status.value.lower(), words, x, y)


def _line(start: tuple[int, int], end: tuple[int, int], step: Step, name: str, runs: Mapping[str, StepRun]) -> Line:
    outcome = str(step.branch[1]) if step.branch is not None and step.branch[0] == name else ""
    return Line(start[0] + WIDTH // 2, start[1] + HEIGHT, end[0] + WIDTH // 2, end[1], outcome, taken=step.name in runs)
