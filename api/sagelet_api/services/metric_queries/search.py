"""The SEARCH function of metric math: finds the metrics that match a search expression."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sagelet_api.services.metric_queries.syntax import BadExpression


@dataclass(frozen=True)
class Metric:
    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]

    @property
    def label(self) -> str:
        """Returns CloudWatch's label of a found metric: its dimensions' values, and its name."""
        return " ".join([*(value for _, value in self.dimensions), self.name])


Test = Callable[[Metric], bool]

_TOKEN = re.compile(
    r'\s*(?P<schema>\{[^}]*\})|\s*(?P<quoted>"(?:[^"\\]|\\.)*")|\s*(?P<mark>[()=])|\s*(?P<word>[^\s()={}"]+)'
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def compile_search(text: str) -> Test:
    """Returns a test of metrics. Raises BadExpression."""
    tokens: list[tuple[str, str]] = []
    at, text = 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise BadExpression(f"SEARCH: unexpected {text[at:][:20]!r}")
        at = found.end()
        kind = str(found.lastgroup)
        tokens.append((kind, found[kind]))
    reader = _Reader(tokens)
    schema = reader.schema()
    rest = reader.either() if reader.more() else _always
    if reader.more():
        raise BadExpression(f"SEARCH: unexpected {reader.peek()[1]!r}")
    if schema is _always and rest is _always:
        raise BadExpression("SEARCH: the search term is empty")
    return lambda metric: schema(metric) and rest(metric)


def _always(_metric: Metric) -> bool:
    return True


class _Reader:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0

    def more(self) -> bool:
        return self._at < len(self._tokens)

    def peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self.more() else ("end", "")

    def schema(self) -> Test:
        """Parses `{Namespace,Dimension,...}`: exactly these dimensions."""
        if self.peek()[0] != "schema":
            return _always
        namespace, *wanted = [one.strip().strip('"') for one in self._take()[1:-1].split(",")]
        names = sorted(wanted)
        return lambda metric: metric.namespace == namespace and sorted(name for name, _ in metric.dimensions) == names

    def either(self) -> Test:
        tests = [self._all()]
        while self.peek() == ("word", "OR"):
            self._take()
            tests.append(self._all())
        return lambda metric: any(test(metric) for test in tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while self.more() and self.peek() not in (("word", "OR"), ("mark", ")")):
            if self.peek() == ("word", "AND"):
                self._take()
            tests.append(self._one())
        return lambda metric: all(test(metric) for test in tests)

    def _one(self) -> Test:
        kind, value = self.peek()
        if (kind, value) == ("word", "NOT"):
            self._take()
            test = self._one()
            return lambda metric: not test(metric)
        if (kind, value) == ("mark", "("):
            return self._group(self.either)
        if kind not in ("word", "quoted"):
            raise BadExpression(f"SEARCH: unexpected {value!r}" if value else "SEARCH: it ends too early")
        self._take()
        if self.peek() == ("mark", "="):
            self._take()
            return self._property(value.strip('"'))
        return _anywhere(kind, value)

    def _property(self, name: str) -> Test:
        """Parses `MetricName=`, `Namespace=` or a dimension's name, and a value, or several in parentheses."""
        if self.peek() == ("mark", "("):
            self._take()
            found = []
            while self.peek() != ("mark", ")"):
                if self.peek() != ("word", "OR"):
                    found.append(self._value(name))
                else:
                    self._take()
            self._take()
            return lambda metric: any(test(metric) for test in found)
        return self._value(name)

    def _value(self, name: str) -> Test:
        kind, value = self.peek()
        if kind not in ("word", "quoted"):
            raise BadExpression(f"SEARCH: {name}= has no value")
        self._take()
        matches = _matcher(kind, value)
        return lambda metric: any(matches(one) for one in _values(metric, name))

    def _group(self, inner: Callable[[], Test]) -> Test:
        self._take()
        self._depth += 1
        if self._depth > 50:
            raise BadExpression("SEARCH: it is nested too deeply")
        test = inner()
        if self.peek() != ("mark", ")"):
            raise BadExpression("SEARCH: ')' is missing")
        self._take()
        return test

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][1]


def _values(metric: Metric, name: str) -> list[str]:
    known: Mapping[str, str] = {"MetricName": metric.name, "Namespace": metric.namespace}
    return [known[name]] if name in known else [value for key, value in metric.dimensions if key == name]


def _anywhere(kind: str, value: str) -> Test:
    matches = _matcher(kind, value)

    def test(metric: Metric) -> bool:
        parts = (metric.namespace, metric.name, *(part for pair in metric.dimensions for part in pair))
        return any(matches(part) for part in parts)

    return test


def _matcher(kind: str, value: str) -> Callable[[str], bool]:
    """Returns a matcher of texts. A quoted value must be the whole text; otherwise each of its words must occur, in any
    case.
    """
    if kind == "quoted":
        exact = re.sub(r"\\(.)", r"\1", value[1:-1])
        return lambda text: text == exact
    wanted = _words(value)
    return lambda text: text.lower() == value.lower() or (bool(wanted) and wanted <= _words(text))


def _words(text: str) -> set[str]:
    """Returns CloudWatch's tokens: `CPUUtilization` has `cpu` and `utilization`."""
    return {word.lower() for word in _WORDS.findall(text)}
