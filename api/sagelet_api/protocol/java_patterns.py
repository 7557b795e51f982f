"""Translates the patterns of service models from java.util.regex to Python's `re`.

Some of AWS's patterns can be matched in many ways: `.*(?:[ ].*)*` takes twice as long for each further space if the
end does not match. So a text that is too long for its pattern is matched by the library `regex`, with a time limit.
"""

import re
import sys
from collections.abc import Callable
from functools import cache

from sagelet_engine.telemetry.patterns import quick_length

#: Seconds that one text may take. One that takes longer counts as one that does not match.
TIMEOUT_S = 1.0

#: Java's `.` stops at each of these, Python's only at the first.
_LINE_ENDS = r"\n\r\u0085\u2028\u2029"
_POSIX = {"Alnum": "a-zA-Z0-9", "Alpha": "a-zA-Z", "Digit": "0-9", "Upper": "A-Z", "Lower": "a-z"}
_TOKEN = re.compile(r"\\p\{(?P<property>\w+)\}|\\.|\[\^?|\]|\.|[^\\\[\].]+", re.DOTALL)


class UnsupportedPattern(ValueError):
    """A pattern of the service model that Python cannot express."""


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    r"""Compiles a pattern to `fullmatch` with. \d, \w and \s are ASCII, as in Java. Raises UnsupportedPattern."""
    try:
        return re.compile(_translate(pattern), re.ASCII)
    except re.error as error:
        raise UnsupportedPattern(f"{pattern!r}: {error}") from error


def matcher(pattern: str) -> Callable[[str], bool]:
    """Returns a function that matches whole texts in bounded time. Raises UnsupportedPattern."""
    compiled, quick = compile_pattern(pattern).fullmatch, quick_length(pattern)
    slow: Callable[[str], bool] | None = None

    def matches(text: str) -> bool:
        nonlocal slow
        if len(text) <= quick:
            return compiled(text) is not None
        slow = slow or _with_limit(_translate(pattern))
        return slow(text)

    return matches


def _with_limit(pattern: str) -> Callable[[str], bool]:
    import regex  # Loaded late: commands of the command line do without.

    fullmatch = regex.compile(pattern, regex.ASCII, cache_pattern=False).fullmatch

    def matches(text: str) -> bool:
        try:
            return fullmatch(text, concurrent=True, timeout=TIMEOUT_S) is not None
        except TimeoutError:
            return False

    return matches


def _translate(pattern: str) -> str:
    parts: list[str] = []
    in_class = False
    for token in _TOKEN.finditer(pattern):
        text = token.group()
        if token["property"]:
            ranges = _property(token["property"])
            parts.append(ranges if in_class else f"[{ranges}]")
        elif text == "." and not in_class:
            parts.append(f"[^{_LINE_ENDS}]")
        else:
            parts.append(text)
            in_class = text != "]" and (in_class or text.startswith("["))
    return "".join(parts)


def _property(name: str) -> str:
    if name in _POSIX:
        return _POSIX[name]
    if len(name) > 2 or name[0] not in "LMNPSZC":
        raise UnsupportedPattern(f"\\p{{{name}}} is not known here; add it to java_patterns.py")
    return "".join(span for category, span in _categories() if category.startswith(name))


@cache
def _categories() -> list[tuple[str, str]]:
    """Returns every run of characters of one general category, as a range for a character class."""
    import unicodedata  # Loaded late: few models have such a pattern.

    runs: list[tuple[str, str]] = []
    start, current = 0, unicodedata.category(chr(0))
    for code in range(1, sys.maxunicode + 2):
        category = unicodedata.category(chr(code)) if code <= sys.maxunicode else ""
        if category != current:
            runs.append((current, f"\\U{start:08x}-\\U{code - 1:08x}"))
            start, current = code, category
    return runs
