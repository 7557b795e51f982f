"""Makes one HTML file that needs nothing else: it contains the pictures and the style sheet, and no script."""

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import sagelet_engine
from sagelet_api.comparison.drawing import Picture
from sagelet_api.comparison.svg import svg
from sagelet_api.comparison.view import view
from sagelet_engine.comparison.result import Comparison

if TYPE_CHECKING:
    from jinja2 import Environment

_DARK = ':root[data-theme="dark"] .comparison'


def report(comparison: Comparison) -> str:
    template = _environment().get_template("report.html")
    return template.render(view=view(comparison), style=_style(), version=sagelet_engine.__version__, link=None)


def fragment(comparison: Comparison) -> str:
    """Returns HTML for an existing page, such as a notebook's: with its style, without `html` and `body`."""
    template = _environment().get_template("_comparison.html")
    return f"<style>{_style()}</style>" + template.render(view=view(comparison), link=None)


def page(title: str, sentences: Sequence[str], pictures: Sequence[Picture]) -> str:
    """Returns one HTML file of sentences and pictures, in the style of a comparison."""
    from markupsafe import Markup

    # Every text in a picture was escaped when it was made.
    drawn = [Markup(svg(picture)) for picture in pictures]
    template = _environment().get_template("pictures.html")
    return template.render(
        title=title, sentences=sentences, pictures=drawn, style=_style(), version=sagelet_engine.__version__
    )


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader

    from sagelet_api.display import code, shown

    loader = PackageLoader("sagelet_api.comparison", "templates")
    made = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=shown)
    made.filters["code"] = code
    return made


@cache
def _style() -> str:
    """Returns the style. It is dark if the reader's system is: there is no button, and so no `data-theme`."""
    from markupsafe import Markup

    files = resources.files("sagelet_api.comparison").joinpath("static")
    rules = files.joinpath("comparison.css").read_text(encoding="utf-8")
    before, _, rest = rules.partition(_DARK)
    dark, _, after = rest.partition("}\n")
    by_system = f"@media (prefers-color-scheme: dark) {{ .comparison{dark}}} }}\n"
    return Markup(before + by_system + after + files.joinpath("report.css").read_text(encoding="utf-8"))
