"""Pictures as lists of shapes, which `svg.py` and `png.py` draw alike. Lengths are pixels, y grows downward.

A shape's `role` says what it is, not how it looks: `series-0` .. `series-7`, `axis`, `grid`, `text`, `quiet`. The style
sheet and `png.py` have a colour for each.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rect:
    x: float
    y: float
    width: float
    height: float
    role: str
    #: A weaker tone of the same colour, with an outline.
    light: bool = False


@dataclass(frozen=True)
class Path:
    """Straight lines from point to point."""

    points: tuple[tuple[float, float], ...]
    role: str
    width: float = 1.0
    dashed: bool = False


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    role: str
    radius: float = 2.5


@dataclass(frozen=True)
class Label:
    x: float
    #: The height of the text's baseline.
    y: float
    text: str
    role: str = "text"
    #: start, middle, end
    anchor: str = "middle"
    size: float = 12.0
    bold: bool = False
    #: True for text that runs upward.
    upward: bool = False


Shape = Rect | Path | Dot | Label


@dataclass(frozen=True)
class Picture:
    #: The name of its file: throughput, loss, time, cost.
    name: str
    title: str
    #: A text alternative: all that the picture shows, in words.
    description: str
    width: float
    height: float
    shapes: tuple[Shape, ...]


def text_width(text: str, size: float) -> float:
    """Returns the approximate width of a text, because fonts differ."""
    return 0.56 * size * len(text)


def fitting_size(text: str, width: float, size: float) -> float:
    """Returns the size at which the text is no wider than `width`, at most `size`. A figure that is cut is a wrong
    one."""
    return min(size, round(width / (0.56 * max(1, len(text))), 1))


def shortened(text: str, width: float, size: float) -> str:
    """Returns the text, or its beginning and an ellipsis if it is too wide."""
    room = int(width / (0.56 * size))
    return text if len(text) <= room else text[: max(1, room - 1)] + "…"
