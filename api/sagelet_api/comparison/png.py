"""Draws a picture as PNG with Pillow, which also brings the font. Light colours, for papers and slides."""

import io
from importlib import import_module
from itertools import pairwise
from typing import Any

from sagelet_api.comparison.drawing import Dot, Label, Path, Picture, Rect
from sagelet_engine.base.errors import SageletError

#: Pixels of the file for each pixel of the picture.
SCALE = 2
#: Drawn larger and then shrunk, so that slanted lines are smooth.
FINER = 2
BACKGROUND = "#ffffff"
COLOURS = {
    "text": "#1b2127",
    "quiet": "#56616c",
    "axis": "#56616c",
    "grid": "#e3e7ea",
    # Okabe and Ito's palette, which colour-blind people can distinguish, darkened where a colour is too light for a
    # line.
    "series-0": "#0072b2",
    "series-1": "#d55e00",
    "series-2": "#00795c",
    "series-3": "#b04a8b",
    "series-4": "#8a6d00",
    "series-5": "#2b8fc4",
    "series-6": "#555555",
    "series-7": "#7a3b00",
}
DASH, GAP = 7.0, 5.0


class NoPillow(SageletError):
    def __init__(self) -> None:
        super().__init__(
            "PNGs need Pillow: pip install 'pillow>=12.3,<14'. The HTML report has the same pictures without"
        )


def png(picture: Picture) -> bytes:
    """Returns the file's bytes. Raises NoPillow."""
    try:
        image_module, draw_module = import_module("PIL.Image"), import_module("PIL.ImageDraw")
    except ImportError as error:
        raise NoPillow from error
    size = (round(picture.width * SCALE), round(picture.height * SCALE))
    image = image_module.new("RGB", (size[0] * FINER, size[1] * FINER), BACKGROUND)
    pen = _Pen(image, draw_module.Draw(image))
    for shape in picture.shapes:
        pen.draw(shape)
    file = io.BytesIO()
    image.reduce(FINER).save(file, "PNG", optimize=True)
    return file.getvalue()


class _Pen:
    def __init__(self, image: Any, draw: Any) -> None:
        self._image = image
        self._draw = draw
        self._factor = SCALE * FINER

    def draw(self, shape: object) -> None:
        if isinstance(shape, Rect):
            self._rect(shape)
        elif isinstance(shape, Path):
            self._path(shape)
        elif isinstance(shape, Dot):
            x, y, radius = shape.x * self._factor, shape.y * self._factor, shape.radius * self._factor
            self._draw.ellipse((x - radius, y - radius, x + radius, y + radius), COLOURS[shape.role])
        elif isinstance(shape, Label):
            self._label(shape)

    def _rect(self, rect: Rect) -> None:
        box = [rect.x, rect.y, rect.x + rect.width, rect.y + max(0.0, rect.height)]
        colour = COLOURS[rect.role]
        fill = _lighter(colour) if rect.light else colour
        outline = {"outline": colour, "width": self._factor} if rect.light else {}
        self._draw.rectangle([number * self._factor for number in box], fill, **outline)

    def _path(self, path: Path) -> None:
        width = max(1, round(path.width * self._factor))
        for piece in dashes(path.points) if path.dashed else [path.points]:
            self._draw.line(
                [(x * self._factor, y * self._factor) for x, y in piece], COLOURS[path.role], width, joint="curve"
            )

    def _label(self, label: Label) -> None:
        font = import_module("PIL.ImageFont").load_default(size=label.size * self._factor)
        stroke = self._factor * 0.28 if label.bold else 0
        anchor = {"start": "ls", "middle": "ms", "end": "rs"}[label.anchor]
        colour, place = COLOURS[label.role], (label.x * self._factor, label.y * self._factor)
        if not label.upward:
            self._draw.text(place, label.text, colour, font, anchor, stroke_width=stroke)
            return
        left, top, right, bottom = font.getbbox(label.text, anchor="ls")
        layer = import_module("PIL.Image").new("L", (round(right - left) + 8, round(bottom - top) + 8), 0)
        import_module("PIL.ImageDraw").Draw(layer).text((4 - left, 4 - top), label.text, 255, font, "ls")
        turned = layer.rotate(90, expand=True)
        corner = (round(place[0] - turned.width), round(place[1] - turned.height / 2))
        self._image.paste(colour, (*corner, corner[0] + turned.width, corner[1] + turned.height), turned)


def _lighter(colour: str) -> str:
    """Returns the colour halfway to white."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{(part + 2 * 255) // 3:02x}" for part in parts)


def dashes(points: tuple[tuple[float, float], ...]) -> list[list[tuple[float, float]]]:
    """Returns the pieces of a dashed line, DASH long and GAP apart, also around corners."""
    pieces: list[list[tuple[float, float]]] = [[points[0]]]
    drawn, left = True, DASH
    for (x, y), (to_x, to_y) in pairwise(points):
        length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5
        done = 0.0
        while length - done > left:
            done += left
            corner = (x + (to_x - x) * done / length, y + (to_y - y) * done / length)
            if drawn:
                pieces[-1].append(corner)
            else:
                pieces.append([corner])
            drawn, left = not drawn, GAP if drawn else DASH
        left -= length - done
        if drawn:
            pieces[-1].append((to_x, to_y))
    return [piece for piece in pieces if len(piece) > 1]
