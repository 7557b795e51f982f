"""Pictures of a tuning job as points on two axes: the objective over its trials, and over each hyperparameter.

The templates draw them as SVG. An axis has the scale on which the tuning job searches the parameter.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise

from sagelet_api.display import number
from sagelet_engine.model.spec import unquoted
from sagelet_engine.model.tuning import Definition, Objective, Trial, TuningJob
from sagelet_engine.tuning.strategies.space import (
    Categorical,
    Continuous,
    Integer,
    InvalidRange,
    Parameter,
    Scaling,
    space_of,
)

#: Size of a picture in the units of its SVG, and what its axes take of it.
WIDTH, HEIGHT, BOTTOM, TOP, RIGHT = 380, 230, 26, 10, 20
#: Units that a character of an axis's number takes, at most.
CHARACTER = 6.4
#: The most characters of a category's name below its axis.
LONGEST = 12
#: An objective whose greatest value is so many times its least is drawn on a logarithmic axis.
WIDE = 1000.0
#: A linear axis that is narrower has no round numbers: a float has no tenth of them.
NARROWEST = 1e-300
#: Up to so many points on a page are links with the trial's name and values.
DETAILED = 2000


@dataclass(frozen=True)
class Mark:
    """A number on an axis. `at`: from 0 to 1."""

    at: float
    text: str


@dataclass(frozen=True)
class Axis:
    marks: tuple[Mark, ...]
    #: Returns where a value is on the axis, from 0 to 1. Raises InvalidRange for one that is not on it.
    place: Callable[[str], float]


@dataclass(frozen=True)
class Point:
    """A trial with an objective, in the units of the SVG."""

    x: float
    y: float
    trial: Trial
    words: str
    best: bool


@dataclass(frozen=True)
class Scatter:
    title: str
    #: The text for a person who cannot see the picture.
    words: str
    left: float
    #: Marks in the units of the SVG.
    across: tuple[Mark, ...]
    up: tuple[Mark, ...]
    points: tuple[Point, ...]
    #: Where trials without an objective are: those that run, and those that failed.
    running: tuple[float, ...] = ()
    failed: tuple[float, ...] = ()
    #: `points` of an SVG polyline: the best objective so far.
    line: str = ""

    @property
    def bottom(self) -> float:
        return HEIGHT - BOTTOM


def pictures(job: TuningJob, trials: Sequence[Trial]) -> list[Scatter]:
    """Returns the objective over the trials, then over each parameter of each definition.

    Empty if no trial has an objective.
    """
    drawn: list[Scatter] = []
    for definition in job.spec.definitions:
        own = [one for one in trials if one.definition == definition.name]
        if vertical := _objective_axis(own):
            drawn += _of(job, definition, own, vertical)
    return drawn


def _of(job: TuningJob, definition: Definition, trials: Sequence[Trial], vertical: Axis) -> list[Scatter]:
    suffix = f" ({definition.name})" if len(job.spec.definitions) > 1 else ""
    metric = definition.objective.metric
    count = Integer("trial", 1, max(2, max(one.ordinal for one in trials)), Scaling.LINEAR)
    over_time = _scatter(
        job, f"{metric} over the trials{suffix}", trials, _axis(count), vertical, lambda one: str(one.ordinal)
    )
    made = [_with_line(over_time, definition.objective)]
    for parameter in space_of(definition.ranges).parameters:
        title = f"{metric} over {parameter.name}{_scale(parameter)}{suffix}"
        made.append(_scatter(job, title, trials, _axis(parameter), vertical, partial(_tuned, parameter.name)))
    return made


def _tuned(name: str, trial: Trial) -> str:
    return trial.values[name]


def _scale(parameter: Parameter) -> str:
    scaling = parameter.scaling if isinstance(parameter, (Continuous, Integer)) else Scaling.LINEAR
    words = {Scaling.LOGARITHMIC: ", logarithmic", Scaling.REVERSE_LOGARITHMIC: ", reverse logarithmic"}
    return words.get(scaling, "")


def _scatter(
    job: TuningJob,
    title: str,
    trials: Sequence[Trial],
    across: Axis,
    up: Axis,
    value_of: Callable[[Trial], str],
) -> Scatter:
    left = 12 + CHARACTER * max(len(mark.text) for mark in up.marks)
    wide, high = WIDTH - left - RIGHT, HEIGHT - BOTTOM - TOP
    points: list[Point] = []
    running: list[float] = []
    failed: list[float] = []
    for one in trials:
        try:
            x = round(left + wide * across.place(value_of(one)), 1)
        except (InvalidRange, KeyError):
            continue  # The trial has no such value, for example because a parent's trial had another range.
        if one.succeeded and one.objective is not None and math.isfinite(one.objective):
            y = round(TOP + high * (1 - up.place(repr(one.objective))), 1)
            best = job.best is not None and job.best.ordinal == one.ordinal
            points.append(Point(x, y, one, _words(one), best))
        else:
            (failed if one.ended else running).append(x)
    # The best is drawn last, over the others.
    points.sort(key=lambda point: point.best)
    return Scatter(
        title,
        f"{title}: {_counted(len(points))}{_best(job)}",
        left,
        tuple(Mark(round(left + wide * mark.at, 1), mark.text) for mark in across.marks),
        tuple(Mark(round(TOP + high * (1 - mark.at), 1), mark.text) for mark in up.marks),
        tuple(points),
        tuple(running),
        tuple(failed),
    )


def _counted(points: int) -> str:
    return "1 training job" if points == 1 else f"{points} training jobs"


def _best(job: TuningJob) -> str:
    return "" if job.best is None else f"; the best is {_words(job.best)}"


def _words(trial: Trial) -> str:
    values = ", ".join(f"{name}={unquoted(value)}" for name, value in trial.values.items())
    objective = "no objective" if trial.objective is None else number(trial.objective)
    return f"{trial.name}: {objective} with {values}"


def _with_line(scatter: Scatter, objective: Objective) -> Scatter:
    """Adds the best objective so far as steps. The vertical axis of the SVG grows downwards."""
    points = sorted(scatter.points, key=lambda point: point.x)
    best = list(accumulate((point.y for point in points), min if objective.maximize else max))
    corners = [(point.x, y) for point, y in zip(points, best, strict=True)]
    steps = [corners[0]] if corners else []
    for (_, before), (x, y) in pairwise(corners):
        steps += [(x, before), (x, y)]
    line = " ".join(f"{x},{y}" for x, y in steps)
    return Scatter(**{**vars(scatter), "line": line})


# --- axes -------------------------------------------------------------------------------------------------------------


def _objective_axis(trials: Iterable[Trial]) -> Axis | None:
    """Returns the axis of the objectives, with room at both ends. None if there is no finite one."""
    values = [one.objective for one in trials if one.succeeded and one.objective is not None]
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return None
    low, high = min(finite), max(finite)
    if low > 0 and high / low >= WIDE:
        return _axis(Continuous("", low / 1.3, high * 1.3, Scaling.LOGARITHMIC))
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return _axis(Continuous("", low - room, high + room, Scaling.LINEAR))


def _axis(parameter: Parameter) -> Axis:
    if isinstance(parameter, Categorical):
        values = parameter.values
        return Axis(
            _apart(Mark(parameter.position(value), _short(unquoted(value))) for value in values), parameter.position
        )
    if not isinstance(parameter, (Continuous, Integer)) or parameter.low == parameter.high:
        value = parameter.value(0.5)
        return Axis((Mark(0.5, _short(unquoted(value))),), lambda _value: 0.5)
    whole = isinstance(parameter, Integer)
    numbers = _numbers(parameter.low, parameter.high, parameter.scaling)
    kept = [one for one in numbers if not whole or one == int(one)]
    if len(kept) < 2:
        kept = [parameter.low, parameter.high]
    placed = [Mark(parameter.position(repr(int(one) if whole else one)), _written(one)) for one in kept]
    return Axis(_apart(placed), parameter.position)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _written(value: float) -> str:
    return f"{value:.6g}".replace("e-0", "e-").replace("e+0", "e+")


def _apart(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    """Returns the marks whose texts do not touch, in their order."""
    kept: list[Mark] = []
    for mark in marks:
        if kept:
            room = (mark.at - kept[-1].at) * (WIDTH - 70)
            if room < CHARACTER * (len(mark.text) + len(kept[-1].text)) / 2 + 6:
                continue
        kept.append(mark)
    return tuple(kept)


def _numbers(low: float, high: float, scaling: Scaling) -> list[float]:
    """Returns round numbers of a range, for its axis. Empty if it is too narrow."""
    if scaling is Scaling.LOGARITHMIC:
        found = _decades(low, high, (1,))
        return found if len(found) >= 3 else _decades(low, high, (1, 2, 5))
    if scaling is Scaling.REVERSE_LOGARITHMIC:
        shares = [0.0, 0.5, *(1 - float(f"1e-{power}") for power in range(1, 13))]
        return [one for one in shares if low <= one <= high]
    if high - low < NARROWEST:
        return []
    step = _step((high - low) / 5)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    # Rounding may not lead out of the range.
    return [min(high, max(low, float(f"{count * step:.12g}"))) for count in range(first, last + 1)]


def _decades(low: float, high: float, within: Sequence[int]) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [float(f"{digit}e{power}") for power in powers for digit in within]
    return [one for one in every if low <= one <= high]


def _step(size: float) -> float:
    power = 10.0 ** math.floor(math.log10(size))
    return next(one * power for one in (1.0, 2.0, 5.0, 10.0) if one * power >= size * 0.999)
