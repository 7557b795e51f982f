"""Rules made from a service model's shapes. A rule takes a JSON value in one walk: its type, then its constraints.

Each rule compiles what it does into a function, `take`, when it is made. Paths are made only for what is wrong: they
grow on the way up. The work grows with the value, and an error does not: each rule stops at MOST_TOLD broken
constraints, and shows at most MOST_SHOWN letters of a value and MOST_PATH of a path.
"""

import logging
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypedDict

from sagelet_api.protocol.java_patterns import UnsupportedPattern, matcher
from sagelet_api.protocol.wire_types import MOST_PATH, WrongType, refuse_collection, refuse_scalar

_log = logging.getLogger(__name__)

#: A broken constraint: the path from the value that was taken, such as `.stoppingCondition`, or empty for the value
#: itself; the value there as AWS prints it, None if it is missing; the words of the constraint.
Broken = tuple[str, str | None, str]
#: Takes a JSON value: returns it in the model's type, without nulls in structures, and adds the constraints that it
#: breaks to the list. Raises WrongType.
Take = Callable[[Any, list[Broken]], Any]

#: Broken constraints that an answer tells. The values behind them are not looked at.
MOST_TOLD = 20
#: Letters of a value in an error. The longest text that a member of a job may have has 2,500.
MOST_SHOWN = 4096
#: Items of a list or map whose length is wrong that are looked at, at least: as many as MOST_SHOWN letters show.
_LEAST_LOOKED_AT = MOST_SHOWN // 2

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


class Rule:
    """The rule of one shape, which takes any value. `words` are its constraints in AWS's order: longest, shortest,
    pattern, enum.
    """

    #: True if the values hold others, whose errors have a path of their own.
    is_container = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.words: list[str] = []
        self.take: Take = lambda value, _broken: value

    def pieces(self, value: Any) -> Iterator[str]:
        """Yields the value, in pieces, as Java's toString prints it."""
        yield str(value)

    def show(self, value: Any) -> str:
        """Returns the beginning of the value as Java's toString prints it."""
        shown, length = [], 0
        for piece in self.pieces(value):
            shown.append(piece[: MOST_SHOWN + 1])
            length += len(piece)
            if length > MOST_SHOWN:
                return f"{''.join(shown)[:MOST_SHOWN]}..."
        return "".join(shown)

    def _broken(self, value: Any, words: Collection[str]) -> list[Broken]:
        """Returns broken constraints of the value itself."""
        shown = self.show(value)
        return [("", shown, each) for each in words]


@dataclass
class Bounds:
    """The least and the greatest length or value, and the words for each."""

    least: float | None
    most: float | None
    noun: str

    def __post_init__(self) -> None:
        self.lower = -math.inf if self.least is None else self.least
        self.upper = math.inf if self.most is None else self.most

    def words(self) -> list[str]:
        return [*self._most_words(), *self._least_words()]

    def broken(self, measure: float) -> list[str]:
        too_much = self._most_words() if measure > self.upper else []
        too_little = self._least_words() if measure < self.lower else []
        return too_much + too_little

    @property
    def looked_at(self) -> int | None:
        """How many items of a list or map are looked at: all that it may have, and what an error shows of more."""
        return None if self.most is None else max(int(self.most), _LEAST_LOOKED_AT)

    def _most_words(self) -> list[str]:
        return [] if self.most is None else [f"Member must have {self.noun} less than or equal to {self.most}"]

    def _least_words(self) -> list[str]:
        return [] if self.least is None else [f"Member must have {self.noun} greater than or equal to {self.least}"]


class StringRule(Rule):
    def __init__(self, name: str, traits: Traits) -> None:
        super().__init__(name)
        self._length = Bounds(traits.get("min"), traits.get("max"), "length")
        self._enum = dict.fromkeys(traits.get("enum") or ())
        pattern = traits.get("pattern")
        self._matches = _matcher(pattern) if pattern else None
        self._pattern_words = [_pattern_words(name, pattern)] if pattern else []
        self._enum_words = [f"Member must satisfy enum value set: [{', '.join(self._enum)}]"] if self._enum else []
        self.words = [*self._length.words(), *self._pattern_words, *self._enum_words]
        self.take = self._compiled()

    def _compiled(self) -> Take:
        least, most, matches, enum = self._length.lower, self._length.upper, self._matches, self._enum

        def take(value: Any, broken: list[Broken]) -> Any:
            if not isinstance(value, str):
                refuse_scalar(value, "string")
            if (
                not least <= len(value) <= most
                or (matches is not None and not matches(value))
                or (enum and value not in enum)
            ):
                broken += self._broken(value, self._words_for(value))
            return value

        return take

    def _words_for(self, value: str) -> list[str]:
        words = self._length.broken(len(value))
        if self._matches is not None and not self._matches(value):
            words += self._pattern_words
        return words if value in self._enum else words + self._enum_words


class NumberRule(Rule):
    def __init__(self, name: str, kind: str, traits: Traits) -> None:
        super().__init__(name)
        bounds = Bounds(traits.get("min"), traits.get("max"), "value")
        self.words = bounds.words()

        def take(value: Any, broken: list[Broken]) -> Any:
            number = _number(value, kind)
            if not bounds.lower <= number <= bounds.upper:
                broken += self._broken(number, bounds.broken(number))
            return number

        self.take = take


def _number(value: Any, kind: str) -> int | float:
    """Returns the value as a number of a kind of the service model. Raises WrongType."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        refuse_scalar(value, kind)
    if kind not in _INTEGER_BITS:
        # A float even if JSON has an integer, which may be larger than any that a store takes.
        return float(value) if abs(value) < 1e308 else refuse_scalar(value, kind)
    limit = 2 ** _INTEGER_BITS[kind]
    if not -limit <= value < limit or value != int(value):
        refuse_scalar(value, kind)
    return int(value)


class BooleanRule(Rule):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.take = lambda value, _broken: value if isinstance(value, bool) else refuse_scalar(value, "boolean")

    def pieces(self, value: Any) -> Iterator[str]:
        yield str(value).lower()


class TimestampRule(Rule):
    """Epoch seconds, as AWS JSON 1.1 sends them."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.take = lambda value, _broken: _time(value)


def _time(value: Any) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and abs(value) <= _LAST_TIMESTAMP else refuse_scalar(value, "timestamp")


class ListRule(Rule):
    is_container = True
    member: Rule

    def __init__(self, name: str, traits: Traits) -> None:
        super().__init__(name)
        self._length = Bounds(traits.get("min"), traits.get("max"), "length")
        self.words = self._length.words()
        self.take = self._take

    def _take(self, value: Any, broken: list[Broken]) -> list[Any]:
        if not isinstance(value, list):
            refuse_collection(value, "java.util.List")
        member = self.member
        typed: list[Any] = []
        wrong: list[Broken] = []
        deeper: list[Broken] = []
        wrong_items = 0
        for place, item in enumerate(islice(value, self._length.looked_at), 1):
            try:
                typed.append(None if item is None else member.take(item, wrong))
            except WrongType as error:
                raise error.within(_item(place)) from None
            if wrong:
                wrong_items += 1
                deeper += _within(_item(place), wrong) if member.is_container else []
                wrong = []
                if max(wrong_items, len(deeper)) > MOST_TOLD:
                    break
        words = self._length.broken(len(value))
        if None in typed:
            words.append(f"Member must satisfy constraint: [{', '.join([*member.words, NOT_NULL])}]")
        elif wrong_items and not member.is_container:
            words.append(f"Member must satisfy constraint: [{', '.join(member.words)}]")
        if words:
            broken += self._broken(typed if member.is_container else value, words)
        broken += deeper
        return typed

    def pieces(self, value: Any) -> Iterator[str]:
        yield "["
        for place, item in enumerate(value):
            yield ", " if place else ""
            yield from _pieces(self.member, item)
        yield "]"


class MapRule(Rule):
    is_container = True
    key: Rule
    value: Rule

    def __init__(self, name: str, traits: Traits) -> None:
        super().__init__(name)
        self._length = Bounds(traits.get("min"), traits.get("max"), "length")
        self.words = self._length.words()
        self.take = self._take

    def _take(self, value: Any, broken: list[Broken]) -> dict[str, Any]:
        if not isinstance(value, dict):
            refuse_collection(value, "java.util.Map")
        take_key, take_value = self.key.take, self.value.take
        typed: dict[str, Any] = {}
        wrong_keys: list[Broken] = []
        wrong: list[Broken] = []
        deeper: list[Broken] = []
        is_wrong = has_null = False
        wrong_key_count = wrong_items = 0
        for key, item in islice(value.items(), self._length.looked_at):
            take_key(key, wrong_keys)
            if wrong_keys:
                wrong_key_count, wrong_keys = wrong_key_count + 1, []
            if item is None:
                typed[key], has_null = None, True
                continue
            try:
                typed[key] = take_value(item, wrong)
            except WrongType as error:
                raise error.within(_item(key)) from None
            if wrong:
                # A broken constraint of the value itself, or one of a value within it.
                is_wrong = is_wrong or not all(path for path, _, _ in wrong)
                deeper += _within(_item(key), wrong) if self.value.is_container else []
                wrong_items, wrong = wrong_items + 1, []
            if max(wrong_items, wrong_key_count, len(deeper)) > MOST_TOLD:
                break
        words = self._length.broken(len(value))
        if wrong_key_count:
            words.append(f"Map keys must satisfy constraint: [{', '.join(self.key.words)}]")
        if has_null:
            words.append(f"Map value must satisfy constraint: [{', '.join([*self.value.words, NOT_NULL])}]")
        elif is_wrong:
            words.append(f"Map value must satisfy constraint: [{', '.join(self.value.words)}]")
        if words:
            broken += self._broken(typed if self.value.is_container else value, words)
        broken += deeper
        return typed

    def pieces(self, value: Any) -> Iterator[str]:
        yield "{"
        for place, (key, item) in enumerate(value.items()):
            yield f"{', ' if place else ''}{key}="
            yield from _pieces(self.value, item)
        yield "}"


class StructureRule(Rule):
    is_container = True
    members: dict[str, Rule]
    required: frozenset[str]

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.take = self._take

    def _take(self, value: Any, broken: list[Broken]) -> dict[str, Any]:
        if not isinstance(value, dict):
            refuse_collection(value, f"com.amazonaws.{self.name}")
        members = self.members
        typed: dict[str, Any] = {}
        wrong: list[Broken] = []
        broken_members: dict[str, list[Broken]] = {}
        for name, item in value.items():
            rule = members.get(name)
            # A null member counts as absent. AWS's JSON services ignore what their model does not have: a newer client.
            if item is None or rule is None:
                continue
            try:
                typed[name] = rule.take(item, wrong)
            except WrongType as error:
                raise error.within(_step(name)) from None
            if wrong:
                broken_members[name], wrong = wrong, []
        if broken_members or not typed.keys() >= self.required:
            broken += self._in_order(broken_members, self.required - typed.keys())
        return typed

    def _in_order(self, broken_members: dict[str, list[Broken]], missing: Collection[str]) -> Iterator[Broken]:
        """Yields what is wrong with the members, in the model's order."""
        for name in self.members:
            if name in broken_members:
                yield from _within(_step(name), broken_members[name])
            elif name in missing:
                yield (_step(name), None, NOT_NULL)

    def pieces(self, value: Any) -> Iterator[str]:
        yield f"{self.name}("
        for place, name in enumerate(name for name in self.members if name in value):
            yield f"{', ' if place else ''}{_lower(name)}="
            yield from self.members[name].pieces(value[name])
        yield ")"


def _pieces(rule: Rule, item: Any) -> Iterator[str]:
    return iter(("null",)) if item is None else rule.pieces(item)


def _within(step: str, broken: list[Broken]) -> list[Broken]:
    """Returns the first constraints with a step before their paths. One more than MOST_TOLD: there are others."""
    return [(_path(f"{step}{path}"), shown, words) for path, shown, words in broken[: MOST_TOLD + 1]]


def _path(path: str) -> str:
    return path if len(path) <= MOST_PATH else f"{path[:MOST_PATH]}..."


def _step(member: str) -> str:
    return f".{_lower(member)}"


def _item(place: int | str) -> str:
    """Returns the step to a list's item, counted from 1, or to the value of a key in a map."""
    return f".{place}.member"


def _lower(member: str) -> str:
    return member[:1].lower() + member[1:]


def _pattern_words(name: str, pattern: str) -> str:
    before, after = _ANCHORS.get(name, ("", "")) if not pattern.startswith("^") else ("", "")
    return f"Member must satisfy regular expression pattern: {before}{pattern}{after}"


def _matcher(pattern: str) -> Callable[[str], bool]:
    """Returns a function that matches whole texts with a pattern of the service model."""
    compiled: Callable[[str], bool] | None = None

    def matches(value: str) -> bool:
        # Compiled on first use: the Unicode classes of tags cost 0.1 s, and most requests never need them.
        nonlocal compiled
        if compiled is None:
            compiled = _compiled(pattern)
        return compiled(value)

    return matches


def _compiled(pattern: str) -> Callable[[str], bool]:
    try:
        return matcher(pattern)
    except UnsupportedPattern as error:
        # A new botocore may bring one. An unchecked constraint is better than an operation that fails.
        _log.warning("A pattern of the service model is not checked: %s", error)
        return lambda _value: True
