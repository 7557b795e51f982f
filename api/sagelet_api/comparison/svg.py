"""Draws a picture as SVG for a page. The page's style sheet has its colours and fonts (`static/comparison.css`)."""

from html import escape

from sagelet_api.comparison.drawing import Dot, Label, Path, Picture, Rect, Shape


def svg(picture: Picture, style: str = "") -> str:
    """Returns an element `svg` with a name and a description for screen readers.

    `style`: a style sheet of its own, for a picture outside of sagelet's pages.
    """
    name = f"picture-{escape(picture.name)}"
    head = (
        f'<svg class="chart" role="img" viewBox="0 0 {_n(picture.width)} {_n(picture.height)}" '
        f'aria-labelledby="{name}-title {name}-text" xmlns="http://www.w3.org/2000/svg">'
        f'<title id="{name}-title">{escape(picture.title)}</title>'
        f'<desc id="{name}-text">{escape(picture.description)}</desc>'
    )
    if style:
        head += f"<style>{style}</style>"
    return head + "".join(map(_element, picture.shapes)) + "</svg>"


def _element(shape: Shape) -> str:
    if isinstance(shape, Rect):
        size = f'width="{_n(shape.width)}" height="{_n(max(0.0, shape.height))}"'
        return (
            f'<rect class="{shape.role}{" light" if shape.light else ""}" x="{_n(shape.x)}" y="{_n(shape.y)}" {size}/>'
        )
    if isinstance(shape, Path):
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in shape.points)
        dashes = ' stroke-dasharray="7 5"' if shape.dashed else ""
        return f'<polyline class="line {shape.role}" points="{points}" stroke-width="{_n(shape.width)}"{dashes}/>'
    if isinstance(shape, Dot):
        return f'<circle class="{shape.role}" cx="{_n(shape.x)}" cy="{_n(shape.y)}" r="{_n(shape.radius)}"/>'
    return _text(shape)


def _text(label: Label) -> str:
    place = f'x="{_n(label.x)}" y="{_n(label.y)}"'
    turned = f' transform="rotate(-90 {_n(label.x)} {_n(label.y)})"' if label.upward else ""
    weight = ' font-weight="600"' if label.bold else ""
    kind = f'class="{label.role}" text-anchor="{label.anchor}" font-size="{_n(label.size)}"'
    return f"<text {kind} {place}{turned}{weight}>{escape(label.text)}</text>"


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
