"""Filter patterns over JSON messages: `{ $.user.name = "a*" && ($.code >= 400 || $.errors[0] IS NULL) }`.

Source: "Using filter patterns to match terms in JSON log events" of the CloudWatch Logs User Guide. A message that is
not a JSON object matches nothing. A condition on a missing field does not hold, except NOT EXISTS. `*` in a text stands
for any characters.
"""

import json
import math
import re
import time
from collections.abc import Callable
from typing import Any

from sagelet_api.protocol.aws_errors import LogsInvalidParameter
from sagelet_engine.base.number_text import number_in
from sagelet_engine.telemetry.metrics import InvalidRegex, compile_regex

Condition = Callable[[Any], bool]

#: Seconds that a regular expression may take for one page. An ordinary one takes microseconds a message.
TIMEOUT_S = 10.0

#: What AWS allows in a regular expression: no groups, no other symbols, no multi-byte characters.
_ALLOWED = re.compile(r"[A-Za-z0-9:_#=@/;,\-^$?\[\]{}|\\*+. ]+")
_TOKEN = re.compile(r"\s*(\(|\)|&&|\|\||!=|<=|>=|=|<|>|\"|%|\$[^\s=!<>()&|]*|[^\s=!<>()&|\"%]+)")
_STEP = re.compile(r'\.([\w\-*:@]+)|\[(\d+)\]|\["([^"]+)"\]|\.\[(\d+)\]')
_NAME = re.compile(r"\w+")
_MISSING = object()


class BadPattern(ValueError):
    """The filter pattern cannot be read. The text says why."""


def compile_pattern(text: str) -> Callable[[str], bool]:
    """Compiles a pattern that begins with a brace. Raises BadPattern."""
    if not text.endswith("}"):
        raise BadPattern("'}' is missing at its end")
    condition = Parser(text[1:-1]).whole()

    def matches(message: str) -> bool:
        if not message.lstrip().startswith("{"):
            return False
        try:
            return condition(json.loads(message))
        except (ValueError, RecursionError):
            return False

    return matches


def quoted(text: str, place: int) -> tuple[str, int]:
    """Returns the text in the quotation marks that begin at `place`, and its end. Raises BadPattern."""
    read: list[str] = []
    place += 1
    while place < len(text) and text[place] != '"':
        place += text[place] == "\\" and place + 1 < len(text)
        read.append(text[place])
        place += 1
    if place >= len(text):
        raise BadPattern("a quotation mark is not closed")
    return "".join(read), place + 1


def regular_expression(text: str, place: int) -> tuple["Expression", int]:
    """Returns the expression between the percent signs that begin at `place`, and its end. Raises BadPattern."""
    end = text.find("%", place + 1)
    if end < 0:
        raise BadPattern("a '%' is not closed")
    return Expression(text[place + 1 : end]), end + 1


class Expression:
    """A regular expression, and the time that it may still take."""

    def __init__(self, written: str) -> None:
        if not _ALLOWED.fullmatch(written):
            raise BadPattern(f"%{written}% holds a character that CloudWatch Logs does not support")
        try:
            self._compiled = compile_regex(written)
        except InvalidRegex as error:
            raise BadPattern(f"%{written}%: {error}") from error
        self._left = TIMEOUT_S

    def found_in(self, message: str) -> bool:
        """True if the expression matches. Raises LogsInvalidParameter if it backtracks for too long."""
        began = time.monotonic()
        try:
            return self._compiled.search(message, concurrent=True, timeout=self._left) is not None
        except TimeoutError as error:
            raise LogsInvalidParameter(
                f"Invalid filter pattern: %{self._compiled.pattern}% takes longer than {TIMEOUT_S:g} s for one page"
            ) from error
        finally:
            self._left = max(1e-6, self._left - (time.monotonic() - began))


class Field(str):
    """A field of a message that is not JSON: a text that may be a number."""


class Parser:
    """Recursive descent: or, and, parentheses, conditions.

    `named`: conditions are about a Field that a name stands for, not about a property of JSON.
    """

    def __init__(self, text: str, *, named: bool = False) -> None:
        self._text = text
        self._named = named
        self._place = 0

    def whole(self) -> Condition:
        condition = self._any()
        if self._text[self._place :].strip():
            raise BadPattern(f"'{self._text[self._place :].strip()}' is not expected")
        return condition

    def _any(self) -> Condition:
        options = [self._all()]
        while self._take("||"):
            options.append(self._all())
        return options[0] if len(options) == 1 else lambda value: any(option(value) for option in options)

    def _all(self) -> Condition:
        parts = [self._one()]
        while self._take("&&"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda value: all(part(value) for part in parts)

    def _one(self) -> Condition:
        if self._take("("):
            inner = self._any()
            if not self._take(")"):
                raise BadPattern("')' is missing")
            return inner
        selector = self._next()
        if self._named and _NAME.fullmatch(selector):
            return self._test(self._next())
        if self._named or not selector.startswith("$"):
            raise BadPattern(
                f"'{selector}' is not a {'name of a field' if self._named else 'property selector like $.name'}"
            )
        path = _path(selector)
        test = self._test(self._next())
        return lambda value: test(_select(value, path))

    def _test(self, operator: str) -> Condition:
        if operator == "IS":
            wanted = {"NULL": None, "TRUE": True, "FALSE": False}.get(self._next(), _MISSING)
            if wanted is _MISSING:
                raise BadPattern("IS is followed by NULL, TRUE or FALSE")
            return lambda value: value is wanted
        if operator in ("NOT", "EXISTS"):
            if operator == "NOT" and self._next() != "EXISTS":
                raise BadPattern("NOT is followed by EXISTS")
            return lambda value: (value is _MISSING) == (operator == "NOT")
        if operator in ("=", "!="):
            same = self._equality()
            return lambda value: value is not _MISSING and same(value) == (operator == "=")
        if operator in _ORDERS:
            return _ordered(operator, self._next())
        raise BadPattern(f"'{operator}' is not an operator")

    def _equality(self) -> Condition:
        """Reads the right side of = or !=: a number, a text with wildcards, or a regular expression."""
        token = self._next()
        if token == '"':
            phrase, self._place = quoted(self._text, self._place - 1)
            return _wildcards(phrase)
        if token == "%":
            expression, self._place = regular_expression(self._text, self._place - 1)
            return lambda value: isinstance(value, str) and expression.found_in(value)
        number, like = _number(token), _wildcards(token)
        return lambda value: (number is not None and _as_number(value) == number) or like(value)

    def _take(self, token: str) -> bool:
        match = _TOKEN.match(self._text, self._place)
        if match is None or match[1] != token:
            return False
        self._place = match.end()
        return True

    def _next(self) -> str:
        match = _TOKEN.match(self._text, self._place)
        if match is None:
            raise BadPattern("it ends too early" if not self._text[self._place :].strip() else "it cannot be read")
        self._place = match.end()
        return match[1]


_ORDERS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _ordered(operator: str, token: str) -> Condition:
    number, compare = _number(token), _ORDERS[operator]
    if number is None:
        raise BadPattern(f"'{operator}' compares with a number, not with '{token}'")
    return lambda value: (found := _as_number(value)) is not None and compare(found, number)


def _wildcards(text: str) -> Condition:
    """Each part is looked for once, behind the part before it. A regular expression would try all places of all."""
    first, *middle = text.split("*")
    last = middle.pop() if middle else None

    def like(value: Any) -> bool:
        if last is None or not isinstance(value, str):
            return bool(value == first)
        end = len(value) - len(last)
        if len(first) > end or not (value.startswith(first) and value.endswith(last)):
            return False
        place = len(first)
        for part in middle:
            if (found := value.find(part, place, end)) < 0:
                return False
            place = found + len(part)
        return True

    return like


def _number(token: str) -> float | None:
    number = number_in(token)
    return number if number is not None and math.isfinite(number) else None


def _as_number(value: Any) -> float | None:
    """Returns a number of JSON, or None. A text is not a number, even if it reads like one."""
    if isinstance(value, Field):
        return _number(value)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _path(selector: str) -> list[str | int]:
    """Parses `$.a.b[0]` into a, b, 0. Raises BadPattern."""
    steps: list[str | int] = []
    place = 1
    while place < len(selector):
        match = _STEP.match(selector, place)
        if match is None:
            raise BadPattern(f"'{selector}' is not a property selector like $.name[0]")
        index = match[2] or match[4]
        steps.append(int(index) if index else match[1] or match[3])
        place = match.end()
    return steps


def _select(value: Any, path: list[str | int]) -> Any:
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else _MISSING
        else:
            value = value.get(step, _MISSING) if isinstance(value, dict) else _MISSING
    return value
