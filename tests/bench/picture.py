"""The bars as a picture: how far each figure is on the right side of its limit, or on the wrong one."""

import math
from collections.abc import Iterator, Mapping, Sequence

from bench import wording
from bench.figures import Measured
from bench.tables import Bar
from sagelet_api.comparison.axes import Scale
from sagelet_api.comparison.drawing import Label, Path, Picture, Rect, Shape, shortened
from sagelet_api.comparison.svg import svg

WIDTH, ROW, TOP, LEFT, RIGHT = 980.0, 24.0, 84.0, 390.0, 760.0
#: Tens and halves of them, as far as a figure reaches.
MARKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
STYLE = """
.chart { font-family: system-ui, sans-serif; background: #ffffff; }
.chart text { fill: #1b2127; } .chart text.quiet { fill: #56616c; }
.chart .line { fill: none; } .chart .grid { stroke: #d9dee3; } .chart .axis { stroke: #1b2127; }
.chart .series-0 { fill: #0072b2; } .chart .series-1 { fill: #d55e00; }
@media (prefers-color-scheme: dark) {
.chart { background: #1a2127; } .chart text { fill: #e6ebef; } .chart text.quiet { fill: #a3b0bb; }
.chart .grid { stroke: #35404a; } .chart .axis { stroke: #e6ebef; }
.chart .series-0 { fill: #5cb3e8; } .chart .series-1 { fill: #ff9d52; } }
"""


def render(figures: Mapping[str, Measured]) -> str:
    # A limit of nothing at all (no errors) is kept or not, and has no scale.
    bars = [bar for measured in figures.values() for bar in measured.bars if bar.limit and bar.measured]
    return svg(_picture([bar for bar in bars if bar.peer], [bar for bar in bars if not bar.peer]), STYLE) + "\n"


def times(bar: Bar) -> float:
    """How many times better than promised; below 1: missed."""
    return bar.limit / bar.measured if bar.at_most else bar.measured / bar.limit


def _picture(ratios: Sequence[Bar], others: Sequence[Bar]) -> Picture:
    groups = [("Against a peer in the same run", ratios), ("Limits", others)]
    reach = [times(bar) for bar in (*ratios, *others)]
    marks = _marks(min([*reach, 0.5]), max([*reach, 2]))
    scale = Scale(math.log(marks[0]), math.log(marks[-1]), LEFT, RIGHT)
    height = TOP + sum(ROW * (len(bars) + 1.5) for _, bars in groups if bars) + 16
    shapes: list[Shape] = [
        Label(20, 28, "What sagelet promises, and what was measured", size=17, bold=True, anchor="start"),
        Label(20, 48, "How many times better than its bar each figure is (logarithmic)", "quiet", "start", 13),
        *_axis(marks, scale, height),
    ]
    y = TOP
    for title, bars in groups:
        if bars:
            shapes.append(Label(20, y + 18, title, bold=True, size=13, anchor="start"))
            y += ROW
            for bar in bars:
                shapes += _row(bar, y, scale)
                y += ROW
            y += ROW / 2
    told = "; ".join(f"{bar.what}: {_figures(bar)}, {wording.verdict(bar)}" for bar in (*ratios, *others))
    return Picture("bars", "What sagelet promises, and what was measured", told, WIDTH, height, tuple(shapes))


def _marks(low: float, high: float) -> list[float]:
    first = max((at for at, mark in enumerate(MARKS) if mark <= low), default=0)
    last = min((at for at, mark in enumerate(MARKS) if mark >= high), default=len(MARKS) - 1)
    return list(MARKS[first : last + 1])


def _axis(marks: Sequence[float], scale: Scale, height: float) -> Iterator[Shape]:
    for mark in marks:
        x = scale.at(math.log(mark))
        line = ((x, TOP - 4), (x, height - 12))
        yield Path(line, "axis" if mark == 1 else "grid", width=1.5 if mark == 1 else 1)
        yield Label(x, TOP - 10, "bar" if mark == 1 else f"{mark:g}x", "quiet", size=11, bold=mark == 1)


def _row(bar: Bar, y: float, scale: Scale) -> Iterator[Shape]:
    end = scale.at(min(max(math.log(times(bar)), scale.low), scale.high))
    bound = scale.at(0)
    yield Label(LEFT - 12, y + 17, shortened(bar.what, LEFT - 30, 11.5), anchor="end", size=12)
    yield Rect(min(bound, end), y + 5, max(1.5, abs(end - bound)), ROW - 10, "series-0" if bar.met else "series-1")
    yield Label(RIGHT + 14, y + 17, _figures(bar), anchor="start", size=12, bold=not bar.met)


def _figures(bar: Bar) -> str:
    unit = "x" if bar.peer else ""
    return f"{wording.number(bar.measured)}{unit} ({wording.promise(bar)}{unit})"
