"""Metric math, from text to a tree."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass


class BadExpression(Exception):
    """The expression cannot be read or computed. The text is for the caller."""


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Text:
    value: str


@dataclass(frozen=True)
class Name:
    """The id of another query, or a word such as REPEAT."""

    value: str


@dataclass(frozen=True)
class Call:
    function: str
    arguments: tuple["Node", ...]


@dataclass(frozen=True)
class Array:
    items: tuple["Node", ...]


@dataclass(frozen=True)
class Operation:
    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True)
class Minus:
    of: "Node"


Node = Number | Text | Name | Call | Array | Operation | Minus

#: Operators, the weakest binding first. All group from the left, except the power.
_LEVELS = (("||", "OR"), ("&&", "AND"), ("==", "!=", "<=", ">=", "<", ">"), ("+", "-"), ("*", "/"), ("^",))
_MEANT = {"OR": "||", "AND": "&&"}
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<mark>\|\||&&|==|!=|<=|>=|[-+*/^<>()\[\],])
    )""",
    re.VERBOSE,
)
#: AWS: the most characters of an expression.
LONGEST = 2048
_DEEPEST = 50


def parse(text: str) -> Node:
    """Parses an expression. Raises BadExpression."""
    if len(text) > LONGEST:
        raise BadExpression(f"it has more than {LONGEST} characters")
    reader = _Reader([*_tokens(text)])
    node = reader.operation(0)
    if reader.peek() != ("end", ""):
        raise BadExpression(f"unexpected {reader.peek()[1]!r}")
    return node


def calls(node: Node, function: str) -> bool:
    """True if a function is called anywhere in the tree."""
    match node:
        case Call(name, items):
            return name == function or any(calls(item, function) for item in items)
        case Array(items):
            return any(calls(item, function) for item in items)
        case Operation(_, left, right):
            return calls(left, function) or calls(right, function)
        case Minus(of):
            return calls(of, function)
    return False


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise BadExpression(f"unexpected {text[at:].strip()[:20]!r}")
        at = found.end()
        kind = str(found.lastgroup)
        value = found[kind]
        yield (kind, re.sub(r"\\(.)", r"\1", value[1:-1]) if kind == "text" else value)
    yield ("end", "")


class _Reader:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def peek(self) -> tuple[str, str]:
        return self._tokens[self._at]

    def operation(self, level: int) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST * len(_LEVELS):
            raise BadExpression("it is nested too deeply")
        try:
            return self._unary() if level == len(_LEVELS) else self._binary(level)
        finally:
            self._depth -= 1

    def _binary(self, level: int) -> Node:
        node = self.operation(level + 1)
        while self.peek()[0] in ("mark", "name") and self.peek()[1] in _LEVELS[level]:
            operator = self._take()
            # Only the power groups from the right: 2 ^ 3 ^ 2 is 2 ^ 9.
            right = self.operation(level if operator == "^" else level + 1)
            node = Operation(_MEANT.get(operator, operator), node, right)
        return node

    def _unary(self) -> Node:
        if self.peek() == ("mark", "-"):
            self._take()
            return Minus(self.operation(len(_LEVELS) - 1))
        return self._atom()

    def _atom(self) -> Node:
        kind, value = self.peek()
        if kind == "end":
            raise BadExpression("it ends too early")
        self._take()
        if kind == "number":
            if math.isinf(float(value)):
                raise BadExpression(f"{value} is too large for a number")
            return Number(float(value))
        if kind == "text":
            return Text(value)
        if kind == "name":
            return Call(value.upper(), self._items(")")) if self._skip("(") else Name(value)
        if value == "(":
            node = self.operation(0)
            self._demand(")")
            return node
        if value == "[":
            return Array(self._items("]"))
        raise BadExpression(f"unexpected {value!r}")

    def _items(self, close: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._skip(close):
            if items and not self._skip(","):
                self._demand(close)
            items.append(self.operation(0))
        return tuple(items)

    def _take(self) -> str:
        value = self._tokens[self._at][1]
        self._at += 1
        return value

    def _skip(self, mark: str) -> bool:
        if self.peek() != ("mark", mark):
            return False
        self._at += 1
        return True

    def _demand(self, mark: str) -> None:
        if not self._skip(mark):
            raise BadExpression(f"{mark!r} is missing" + (f" before {self.peek()[1]!r}" if self.peek()[1] else ""))
