"""The one grammar by which a text of a job becomes a number.

Python's `float` also takes `1_000`, digits of other scripts and any Unicode space. No other reader of a log does, and
AWS does not document them. So only ASCII counts: an optional sign, digits with a point, an exponent, and white space
around them. `tests/unit/test_outside_numbers.py` fails where Python's own grammar decides.
"""

import re

#: A longer text is no number that a script printed.
MOST_LETTERS = 400
_NUMBER = re.compile(
    r"[ \t-\r]*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|nan|inf|infinity)[ \t-\r]*", re.I | re.A
)
_WHOLE = re.compile(r"[ \t-\r]*[+-]?[0-9]+[ \t-\r]*", re.A)


def number_in(text: str) -> float | None:
    """Returns the number that a text is, or None. NaN and infinity are numbers: `nan`, `inf`, `-Infinity`."""
    if len(text) > MOST_LETTERS or _NUMBER.fullmatch(text) is None:
        return None
    return float(text)


def whole_number_in(text: str) -> int | None:
    """Returns the whole number that a text is, without a point and an exponent, or None."""
    if len(text) > MOST_LETTERS or _WHOLE.fullmatch(text) is None:
        return None
    return int(text)
