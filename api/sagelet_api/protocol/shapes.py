"""Rules made from a service model's shapes: `read` takes a JSON value for its type, `check` for its constraints."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypedDict

from sagelet_api.protocol.java_patterns import UnsupportedPattern, compile_pattern
from sagelet_api.protocol.wire_types import refuse_collection, refuse_scalar

_log = logging.getLogger(__name__)

#: Called with a path, the value as AWS prints it (None if it is missing), and the broken constraint.
Report = Callable[[str, str | None, str], None]

NOT_NULL = "Member must not be null"
_INTEGER_BITS = {"integer": 31, "long": 63}
#: The year 9999 in epoch seconds. Later times do not fit a datetime.
_LAST_TIMESTAMP = 253402300799

#: Shapes whose pattern AWS prints with anchors that the published model has dropped since (clients.md 3 names the
#: first; the others as the API reference printed them while the model still had them).
_ANCHORS = {"TrainingJobName": ("^", ""), "RoleArn": ("^", "$"), "S3Uri": ("^", "$"), "TagKey": ("^", "$")}


class Traits(TypedDict, total=False):
    """The constraints of a shape, as the service model has them."""

    #: Bounds of a number, or of the length of a string, list or map.
    min: float
    max: float
    #: In java.util.regex.
    pattern: str
    enum: list[str]


@dataclass
class Rule:
    """The rule of one shape. `words` are its constraints in AWS's order: longest, shortest, pattern, enum."""

    name: str
    words: list[str] = field(default_factory=list)

    def read(self, value: Any, path: str) -> Any:  # noqa: ARG002
        """Returns the value in the model's type, without nulls in structures. Raises SerializationException."""
        return value

    def broken(self, value: Any) -> Iterable[str]:  # noqa: ARG002
        """Yields the constraints of this shape itself that the value breaks."""
        return ()

    def check(self, value: Any, path: str, report: Report) -> None:
        for words in self.broken(value):
            report(path, self.show(value), words)

    def show(self, value: Any) -> str:
        """Returns the value as Java's toString prints it."""
        return str(value)


@dataclass
class Bounds:
    """The least and the greatest length or value, and the words for each."""

    least: float | None
    most: float | None
    noun: str

    def words(self) -> list[str]:
        return [*self.most_words(), *self.least_words()]

    def broken(self, measure: float) -> list[str]:
        too_much = self.most_words() if self.most is not None and measure > self.most else []
        too_little = self.least_words() if self.least is not None and measure < self.least else []
        return too_much + too_little

    def most_words(self) -> list[str]:
        return [] if self.most is None else [f"Member must have {self.noun} less than or equal to {self.most}"]

    def least_words(self) -> list[str]:
        return [] if self.least is None else [f"Member must have {self.noun} greater than or equal to {self.least}"]


class StringRule(Rule):
    def __init__(self, name: str, traits: Traits) -> None:
        self._length = Bounds(traits.get("min"), traits.get("max"), "length")
        self._enum = traits.get("enum") or ()
        self._pattern: str | None = traits.get("pattern")
        self._pattern_words = _pattern_words(name, self._pattern or "")
        self._enum_words = f"Member must satisfy enum value set: [{', '.join(self._enum)}]"
        words = self._length.words()
        words += [self._pattern_words] if self._pattern else []
        words += [self._enum_words] if self._enum else []
        super().__init__(name, words)

    def read(self, value: Any, path: str) -> Any:
        return value if isinstance(value, str) else refuse_scalar(value, "string", path)

    def broken(self, value: Any) -> Iterable[str]:
        yield from self._length.broken(len(value))
        if self._pattern and not _matches(self._pattern, value):
            yield self._pattern_words
        if self._enum and value not in self._enum:
            yield self._enum_words


class NumberRule(Rule):
    def __init__(self, name: str, kind: str, traits: Traits) -> None:
        self._kind = kind
        self._bounds = Bounds(traits.get("min"), traits.get("max"), "value")
        super().__init__(name, self._bounds.words())

    def read(self, value: Any, path: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            refuse_scalar(value, self._kind, path)
        if self._kind not in _INTEGER_BITS:
            # A float even if JSON has an integer, which may be larger than any that a store takes.
            return float(value) if abs(value) < 1e308 else refuse_scalar(value, self._kind, path)
        limit = 2 ** _INTEGER_BITS[self._kind]
        if not -limit <= value < limit or value != int(value):
            refuse_scalar(value, self._kind, path)
        return int(value)

    def broken(self, value: Any) -> Iterable[str]:
        return self._bounds.broken(value)


class BooleanRule(Rule):
    def read(self, value: Any, path: str) -> Any:
        return value if isinstance(value, bool) else refuse_scalar(value, "boolean", path)

    def show(self, value: Any) -> str:
        return str(value).lower()


class TimestampRule(Rule):
    """Epoch seconds, as AWS JSON 1.1 sends them."""

    def read(self, value: Any, path: str) -> Any:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return value if is_number and abs(value) <= _LAST_TIMESTAMP else refuse_scalar(value, "timestamp", path)


class ListRule(Rule):
    member: Rule

    def __init__(self, name: str, traits: Traits) -> None:
        self._length = Bounds(traits.get("min"), traits.get("max"), "length")
        super().__init__(name, self._length.words())

    def read(self, value: Any, path: str) -> Any:
        if not isinstance(value, list):
            refuse_collection(value, "java.util.List", path)
        return [
            None if item is None else self.member.read(item, _item(path, number))
            for number, item in enumerate(value, 1)
        ]

    def broken(self, value: Any) -> Iterable[str]:
        yield from self._length.broken(len(value))
        if any(item is None for item in value):
            yield f"Member must satisfy constraint: [{', '.join([*self.member.words, NOT_NULL])}]"
        elif not _is_container(self.member) and any(any(True for _ in self.member.broken(item)) for item in value):
            yield f"Member must satisfy constraint: [{', '.join(self.member.words)}]"

    def check(self, value: Any, path: str, report: Report) -> None:
        super().check(value, path, report)
        if not _is_container(self.member):
            return
        for number, item in enumerate(value, 1):
            if item is not None:
                self.member.check(item, _item(path, number), report)

    def show(self, value: Any) -> str:
        return f"[{', '.join('null' if item is None else self.member.show(item) for item in value)}]"


class MapRule(Rule):
    key: Rule
    value: Rule

    def __init__(self, name: str, traits: Traits) -> None:
        self._length = Bounds(traits.get("min"), traits.get("max"), "length")
        super().__init__(name, self._length.words())

    def read(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            refuse_collection(value, "java.util.Map", path)
        return {k: None if item is None else self.value.read(item, _item(path, k)) for k, item in value.items()}

    def broken(self, value: Any) -> Iterable[str]:
        yield from self._length.broken(len(value))
        if any(any(True for _ in self.key.broken(key)) for key in value):
            yield f"Map keys must satisfy constraint: [{', '.join(self.key.words)}]"
        if any(item is None for item in value.values()):
            yield f"Map value must satisfy constraint: [{', '.join([*self.value.words, NOT_NULL])}]"
        elif any(any(True for _ in self.value.broken(item)) for item in value.values()):
            yield f"Map value must satisfy constraint: [{', '.join(self.value.words)}]"

    def check(self, value: Any, path: str, report: Report) -> None:
        super().check(value, path, report)
        if _is_container(self.value):
            for key, item in value.items():
                if item is not None:
                    self.value.check(item, _item(path, key), report)

    def show(self, value: Any) -> str:
        items = (f"{k}={'null' if item is None else self.value.show(item)}" for k, item in value.items())
        return f"{{{', '.join(items)}}}"


class StructureRule(Rule):
    members: dict[str, Rule]
    required: frozenset[str]

    def read(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            refuse_collection(value, f"com.amazonaws.{self.name}", path)
        # A null member counts as absent. Unknown members stay, so that `check` can name them with their path.
        return {
            name: self.members[name].read(item, _join(path, name)) if name in self.members else item
            for name, item in value.items()
            if item is not None
        }

    def check(self, value: Any, path: str, report: Report) -> None:
        for name, rule in self.members.items():
            if name in value:
                rule.check(value[name], _join(path, name), report)
            elif name in self.required:
                report(_join(path, name), None, NOT_NULL)
        for name in value.keys() - self.members.keys():
            words = f"Member must be defined in {self.name} of the service model"
            report(_join(path, name), _excerpt(value[name]), words)

    def show(self, value: Any) -> str:
        items = (f"{_lower(k)}={rule.show(value[k])}" for k, rule in self.members.items() if k in value)
        return f"{self.name}({', '.join(items)})"


def _is_container(rule: Rule) -> bool:
    return isinstance(rule, (StructureRule, ListRule, MapRule))


def _join(path: str, member: str) -> str:
    return f"{path}.{_lower(member)}" if path else _lower(member)


def _item(path: str, place: int | str) -> str:
    """Returns the path of a list's item, counted from 1, or of the value of a key in a map."""
    return f"{path}.{place}.member"


def _lower(member: str) -> str:
    return member[:1].lower() + member[1:]


def _excerpt(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _pattern_words(name: str, pattern: str) -> str:
    before, after = _ANCHORS.get(name, ("", "")) if not pattern.startswith("^") else ("", "")
    return f"Member must satisfy regular expression pattern: {before}{pattern}{after}"


def _matches(pattern: str, value: str) -> bool:
    # Compiled on first use: the Unicode classes of tags cost 0.1 s, and most requests never need them.
    try:
        return compile_pattern(pattern).fullmatch(value) is not None
    except UnsupportedPattern as error:
        # A new botocore may bring one. An unchecked constraint is better than an operation that fails.
        _log.warning("A pattern of the service model is not checked: %s", error)
        return True
