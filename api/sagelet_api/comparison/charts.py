"""Two kinds of pictures: a bar for each job, or a line for each job. Their axes have round numbers."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sagelet_api.comparison.drawing import (
    Dot,
    Label,
    Path,
    Picture,
    Rect,
    Shape,
    fitting_size,
    shortened,
    text_width,
)

WIDTH, HEIGHT = 480.0, 320.0
TOP, RIGHT, BOTTOM = 56.0, 16.0, 60.0
#: The number of colours. With more jobs they repeat.
COLOURS = 8
#: Pixels.
Points = Sequence[tuple[float, float]]
#: A curve with fewer points gets a dot at each.
FEW_POINTS = 60


@dataclass(frozen=True)
class Scale:
    """Maps numbers from `low` to `high` to pixels from `start` to `end`; `low` < `high`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, number: float) -> float:
        return self.start + (number - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Returns round numbers (1, 2, 2.5 or 5 times a power of ten apart) from at most `low` to at least `high`."""
    if high <= low:
        low, high = (low - 0.5, high + 0.5) if low else (0.0, 1.0)
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def tick_text(number: float, step: float) -> str:
    """Formats a number with as many decimals as the distance of the ticks needs."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if round(step * 10**decimals, 6) % 1:
        decimals += 1
    return f"{number:,.{decimals}f}"


@dataclass(frozen=True)
class Frame:
    """The parts around every picture."""

    name: str
    title: str
    #: Under the title: `Higher is better`.
    subtitle: str
    #: Beside the vertical axis.
    unit: str
    #: Below the picture.
    note: str = ""
    description: str = ""


@dataclass(frozen=True)
class Bar:
    label: str
    #: None if it is not known.
    value: float | None
    #: The value as people read it, without the axis's unit.
    text: str
    #: The top part of the bar, which has a colour and a name of its own.
    part: float = 0.0
    part_text: str = ""
    #: `part_text` for a bar that is too narrow for it: the figure alone.
    part_figure: str = ""
    #: A second line, above the value.
    above: str = ""


@dataclass(frozen=True)
class Curve:
    label: str
    points: tuple[tuple[float, float], ...]


def bar_picture(frame: Frame, bars: Sequence[Bar]) -> Picture:
    known = [bar.value for bar in bars if bar.value is not None]
    # Space above the highest bar for its texts.
    marks = ticks(0, max([*known, 0.0]) * (1.18 if any(bar.above for bar in bars) else 1.1))
    scale = Scale(marks[0], marks[-1], HEIGHT - BOTTOM, TOP)
    left = _left(marks)
    slot = (WIDTH - RIGHT - left) / len(bars)
    shapes = [*_frame(frame, left), *_horizontals(marks, scale, left)]
    for index, bar in enumerate(bars):
        shapes += _bar(bar, left + slot * (index + 0.5), slot, scale, f"series-{index % COLOURS}")
    shapes.append(Path(((left, scale.start), (WIDTH - RIGHT, scale.start)), "axis"))
    return Picture(frame.name, frame.title, frame.description, WIDTH, HEIGHT, tuple(shapes))


def _bar(bar: Bar, middle: float, slot: float, scale: Scale, role: str) -> Iterator[Shape]:
    width = min(96.0, slot * 0.6)
    for number, line in enumerate(_lines(bar.label, slot - 4)):
        yield Label(middle, HEIGHT - BOTTOM + 18 + 14 * number, shortened(line, slot, 11), size=11)
    if bar.value is None:
        yield Label(middle, scale.start - 8, shortened(bar.text, slot - 4, 12), "quiet")
        return
    top, split = scale.at(bar.value), scale.at(bar.value - bar.part)
    yield Rect(middle - width / 2, split, width, scale.start - split, role)
    if bar.part:
        yield Rect(middle - width / 2, top, width, split - top, role, light=True)
    yield Label(middle, top - 6, bar.text, size=fitting_size(bar.text, slot - 4, 12), bold=True)
    if bar.above:
        yield Label(middle, top - 21, bar.above, "quiet", size=fitting_size(bar.above, slot - 4, 11))
    if bar.part and split - top >= 16:
        words = bar.part_text if text_width(bar.part_text, 10) <= width - 4 else bar.part_figure
        yield Label(middle, (top + split) / 2 + 4, words, size=fitting_size(words, width - 4, 10))


def _lines(label: str, width: float) -> list[str]:
    """Breaks `Inductor 2` into two lines if bars are narrow."""
    return [label] if text_width(label, 11) <= width else label.rsplit(" ", 1)


def line_picture(frame: Frame, x_title: str, curves: Sequence[Curve], empty: str) -> Picture:
    """Makes a picture of lines. `empty`: the text if no curve has a point."""
    points = [point for curve in curves for point in curve.points]
    if not points:
        shapes = [*_frame(frame, 60), Label(WIDTH / 2, HEIGHT / 2, empty, "quiet")]
        return Picture(frame.name, frame.title, frame.description, WIDTH, HEIGHT, tuple(shapes))
    horizontal, vertical = ticks(*_range(points, 0)), ticks(*_range(points, 1))
    left = _left(vertical)
    along = Scale(horizontal[0], horizontal[-1], left, WIDTH - RIGHT)
    up = Scale(vertical[0], vertical[-1], HEIGHT - BOTTOM, TOP)
    shapes = [*_frame(frame, left), *_horizontals(vertical, up, left)]
    for mark in horizontal:
        text = tick_text(mark, horizontal[1] - horizontal[0])
        shapes.append(Label(along.at(mark), HEIGHT - BOTTOM + 16, text, "quiet", size=11))
    shapes.append(Path(((left, up.start), (WIDTH - RIGHT, up.start)), "axis"))
    shapes.append(Label((left + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 32, x_title, "quiet", size=11))
    for index, curve in enumerate(curves):
        shapes += _curve(curve, index, along, up)
    drawn = [[(along.at(x), up.at(y)) for x, y in curve.points] for curve in curves]
    shapes += _legend([curve.label for curve in curves], left, drawn)
    return Picture(frame.name, frame.title, frame.description, WIDTH, HEIGHT, tuple(shapes))


def _curve(curve: Curve, index: int, along: Scale, up: Scale) -> Iterator[Shape]:
    role = f"series-{index % COLOURS}"
    points = tuple((along.at(x), up.at(y)) for x, y in curve.points)
    if len(points) > 1:
        # Curves that coincide stay visible, both of them.
        yield Path(points, role, width=4.0 if index == 0 else 2.0, dashed=index > 0)
    if len(points) < FEW_POINTS:
        yield from (Dot(x, y, role, 4.0 if index == 0 else 2.5) for x, y in points)


def _legend(labels: Sequence[str], left: float, curves: Sequence[Points]) -> Iterator[Shape]:
    """Draws the curves' names in the corner that the fewest parts of curves pass through; at best at the top right."""
    width, height = 34 + max(text_width(label, 12) for label in labels), 18.0 * len(labels)
    corners = [(x, y) for y in (TOP, HEIGHT - BOTTOM - height - 8) for x in (WIDTH - RIGHT - width, left + 8)]
    x, y = min(corners, key=lambda corner: _passing(curves, corner[0], corner[1], width, height))
    for index, label in enumerate(labels):
        row = y + 14 + 18 * index
        line = ((x, row - 4), (x + 26, row - 4))
        yield Path(line, f"series-{index % COLOURS}", width=4.0 if index == 0 else 2.0, dashed=index > 0)
        yield Label(x + 34, row, label, anchor="start")


def _passing(curves: Sequence[Points], x: float, y: float, width: float, height: float) -> int:
    """Counts the parts of curves in a rectangle."""
    parts = 16
    return sum(
        x <= x0 + (x1 - x0) * part / parts <= x + width and y <= y0 + (y1 - y0) * part / parts <= y + height
        for points in curves
        for (x0, y0), (x1, y1) in zip(points, points[1:] or points, strict=False)
        for part in range(parts + 1)
    )


def _range(points: Sequence[tuple[float, float]], which: int) -> tuple[float, float]:
    numbers = [point[which] for point in points]
    return min(numbers), max(numbers)


def _left(marks: Sequence[float]) -> float:
    """Returns the space for the unit and the ticks' texts."""
    step = marks[1] - marks[0]
    return 34 + max(text_width(tick_text(mark, step), 11) for mark in marks)


def _frame(frame: Frame, left: float) -> Iterator[Shape]:
    yield Label(WIDTH / 2, 20, frame.title, size=15, bold=True)
    if frame.subtitle:
        yield Label(WIDTH / 2, 38, frame.subtitle, "quiet")
    yield Label(16, (TOP + HEIGHT - BOTTOM) / 2, frame.unit, "quiet", size=11, upward=True)
    if frame.note:
        yield Label((left + WIDTH - RIGHT) / 2, HEIGHT - 10, frame.note, bold=True)


def _horizontals(marks: Sequence[float], scale: Scale, left: float) -> Iterator[Shape]:
    step = marks[1] - marks[0]
    for mark in marks:
        y = scale.at(mark)
        yield Path(((left, y), (WIDTH - RIGHT, y)), "grid")
        yield Label(left - 6, y + 4, tick_text(mark, step), "quiet", anchor="end", size=11)
