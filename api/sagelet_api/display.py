"""Formats figures, times and states for a page."""

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from sagelet_api.bidirectional import visible, visible_in
from sagelet_api.durations import lasted
from sagelet_engine.telemetry.compiler.text import duration, size

if TYPE_CHECKING:
    from flask import Flask
    from flask.json.provider import DefaultJSONProvider

#: JSON of a job or a definition can have half a surrogate pair, which UTF-8 cannot.
_HALF_PAIR = re.compile("[\ud800-\udfff]")


def clock(time_ms: int | None) -> Markup:
    """Shows a moment in UTC. A script of the page changes it to the reader's own time."""
    if time_ms is None:
        return Markup('<span class="quiet">-</span>')
    moment = datetime.fromtimestamp(time_ms / 1000, timezone.utc)
    return Markup('<time datetime="{}">{}</time>').format(
        moment.isoformat(timespec="milliseconds"), moment.strftime("%Y-%m-%d %H:%M:%S UTC")
    )


def since(start_ms: int | None, end_ms: int | None) -> Markup | str:
    """Shows how long something took. If it still lasts, the page's script counts on."""
    if start_ms is None:
        return "-"
    if end_ms is not None:
        return lasted((end_ms - start_ms) / 1000)
    return Markup('<span data-since="{}">…</span>').format(start_ms)


def number(value: float) -> str:
    """Returns a number with up to six digits: `0.693147`, `12500`."""
    return f"{value:,.0f}" if abs(value) >= 1000 and value == int(value) else f"{value:.6g}"


def breakable(name: str) -> Markup:
    """Returns a name that a narrow column breaks between its words: after `_`, `-`, `.`, `/` or `:`."""
    return Markup("<wbr>").join(re.split(r"(?<=[_./:-])(?=[^_./:-])", name))


def code(text: str) -> Markup:
    """Returns a text whose parts between backticks are shown as code."""
    parts = re.split(r"`([^`]+)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(parts)
    )


def usd(amount: float | None) -> str:
    """`$0.0234`, `$12.50`; `-` if it is not known."""
    if amount is None:
        return "-"
    if 0 < amount < 0.0001:
        return "less than $0.0001"
    return f"${amount:,.4f}" if amount < 1 else f"${amount:,.2f}"


def shown(value: Any) -> Any:
    """Returns a value for a template. No character in it changes the direction of the text around it, and all of them
    can be written as UTF-8.
    """
    if isinstance(value, Markup):
        return Markup(_printable(str(value)))
    return value if value is None or isinstance(value, (int, float)) else _printable(str(value))


def _printable(text: str) -> str:
    return visible(_HALF_PAIR.sub("\ufffd", text))


def visible_json(app: "Flask") -> "DefaultJSONProvider":
    """Does the same for JSON, which scripts of the pages show."""
    from flask.json.provider import DefaultJSONProvider

    class Provider(DefaultJSONProvider):
        def dumps(self, obj: Any, **options: Any) -> str:
            return super().dumps(visible_in(obj), **options)

    return Provider(app)


def add_filters(app: "Flask") -> None:
    app.jinja_env.filters.update(
        breakable=breakable,
        clock=clock,
        code=code,
        duration=duration,
        lasted=lasted,
        number=number,
        size=size,
        usd=usd,
    )
    app.jinja_env.globals.update(since=since)
