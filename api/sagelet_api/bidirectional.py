"""Makes characters visible that reverse the direction of text, so that a page or a terminal cannot mislead.

Source: Unicode's Bidi_Control property (UAX #9, UAX #44).
"""

import re
from typing import Any

CONTROLS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_CONTROL = re.compile(f"[{CONTROLS}]")
#: A table for str.translate.
NAMED = {ord(one): f"[U+{ord(one):04X}]" for one in CONTROLS}


def visible(text: str) -> str:
    """Returns the text with names instead of such characters: `[U+202E]`."""
    return text.translate(NAMED) if _CONTROL.search(text) else text


def visible_in(value: Any) -> Any:
    """Does the same for all texts in a value that becomes JSON."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible_in(key): visible_in(item) for key, item in value.items()}
    return [visible_in(item) for item in value] if isinstance(value, (list, tuple)) else value


def escaped(text: str) -> str:
    r"""Returns source text, JSON or Python, with the same meaning: `\u202e` in its strings."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
