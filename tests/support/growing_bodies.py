"""Bodies of requests that grow, as botocore models them: each member of each operation, and each shape once.

A handler sees what passed the validation, so each member of an operation grows with values that its model takes. The
validation sees everything, and works by shape: a shape that two operations share grows once in all ways.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from support.growth import Grown

#: Levels of structures whose shapes grow.
DEPTH = 6
#: Nesting that JSON's own parser still reads.
DEEPEST = 400

Value = Callable[[int], Any]


class Bodies:
    """Makes bodies around known values, by the names of members: those that lead past the first check."""

    def __init__(self, known: Mapping[str, Any], optional: Sequence[str] = ()) -> None:
        """`optional` are the known members that a body has although they are not required."""
        self._known, self._also = known, optional
        self._walked: set[Any] = set()

    def least(self, shape: Any, depth: int = 0) -> dict[str, Any]:
        """Returns a structure with its required members, and the known ones at its top."""
        return {
            name: self._value(member, name, depth + 1)
            for name, member in shape.members.items()
            if depth < DEPTH and (name in shape.required_members or (depth == 0 and name in self._also))
        }

    def _value(self, shape: Any, name: str, depth: int = 1) -> Any:
        if name in self._known:
            return self._known[name]
        kind = shape.type_name
        if kind == "structure":
            return self.least(shape, depth)
        if kind == "list":
            return [self._value(shape.member, "", depth + 1)] * shape.metadata.get("min", 0)
        if kind == "string":
            return shape.enum[0] if shape.enum else "a" * max(1, shape.metadata.get("min", 1))
        return {"map": {}, "boolean": True, "blob": "YQ=="}.get(kind, shape.metadata.get("min", 1))

    def grown(self, shape: Any) -> Iterator[Grown]:
        """Yields the ways in which a body of an operation grows."""
        required = Bodies(self._known).least(shape)
        yield Grown("only what is required", lambda _units: required)
        yield Grown("nested", lambda units: deep(min(units, DEEPEST)))
        yield Grown("all members", self._all(shape))
        yield from self._members(shape)
        yield from self._shapes(shape, lambda value: value, "")

    def _all(self, shape: Any) -> Value:
        """All members grow at once, and share the units."""
        values = {name: self._accepted(member, name) for name, member in shape.members.items()}
        grown = {name: value for name, value in values.items() if value is not None}
        share = max(1, len(grown))
        return lambda units: {name: value(-(-units // share)) for name, value in grown.items()}

    def _members(self, shape: Any) -> Iterator[Grown]:
        """Each member grows by itself, with values that the model takes, beside the known ones."""
        body = self.least(shape)
        for name, member in shape.members.items():
            value = self._accepted(member, name)
            if value is not None:
                yield Grown(name, member_of(body, name, value))

    def _accepted(self, shape: Any, name: str) -> Value | None:
        """Returns a value that grows and that the model takes, as far as its maximum. None: it cannot grow."""
        most = shape.metadata.get("max", 1 << 30)
        kind = shape.type_name
        if kind == "string" and not shape.enum:
            known = self._known.get(name, "")
            return lambda units: (known + "a" * units)[:most]
        if kind == "list":
            item = self._value(shape.member, "")
            return lambda units: [item] * min(units, most)
        if kind == "map":
            item = self._value(shape.value, "")
            return lambda units: {f"k{number}": item for number in range(min(units, most))}
        return None

    def _shapes(self, shape: Any, within: Callable[[Any], Any], path: str, depth: int = 0) -> Iterator[Grown]:
        """Yields the ways in which each shape grows that did not grow before. `within` puts a value into the body."""
        if depth > DEPTH or not self._is_new(shape):
            return
        for how, value in self._hostile(shape):
            yield Grown(f"{path or 'body'}, {how}", composed(within, value))
        kind = shape.type_name
        if kind == "structure":
            body = self.least(shape)
            for name, member in shape.members.items():

                def inside(value: Any, name: str = name) -> Any:
                    return within({**body, name: value})

                yield from self._shapes(member, inside, f"{path}.{name}", depth + 1)
        elif kind == "list":
            yield from self._shapes(shape.member, lambda value: within([value]), f"{path}[]", depth)
        elif kind == "map":
            yield from self._shapes(shape.value, lambda value: within({"k": value}), f"{path}{{}}", depth)

    def _is_new(self, shape: Any) -> bool:
        """A structure, list or map is a shape of its own. A string is what its traits are."""
        kind = shape.type_name
        if kind in ("structure", "list", "map"):
            trait: Any = shape.name
        else:
            trait = (tuple(sorted(shape.metadata.items())) if not getattr(shape, "enum", None) else "enum",)
        new = (kind, trait) not in self._walked
        self._walked.add((kind, trait))
        return new

    def _hostile(self, shape: Any) -> Iterator[tuple[str, Value]]:
        """Yields values that grow and that the model mostly refuses, with what they are."""
        kind = shape.type_name
        if kind == "string":
            yield "letters", lambda units: "a" * units
            if "pattern" in shape.metadata:
                yield "spaces", lambda units: " " * (units - 1) + "\u2028"
                yield "words", lambda units: "a-" * units
        elif kind == "list":
            item = self._value(shape.member, "")
            yield "empty items", lambda units: [{}] * units
            yield "items, and one of another type", lambda units: [*[item] * (units - 1), [1]]
        elif kind == "map":
            yield "empty values", lambda units: {f"k{number}": {} for number in range(units)}
            yield "a long key", lambda units: {"k" * units: {}}
        elif kind == "structure":
            yield "unknown members", lambda units: {f"m{number}": 1 for number in range(units)}


def member_of(body: dict[str, Any], name: str, value: Value) -> Value:
    return lambda units: {**body, name: value(units)}


def composed(within: Callable[[Any], Any], value: Value) -> Value:
    return lambda units: within(value(units))


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def as_json(grown: Grown, operation: str) -> Grown:
    """Returns the same body as bytes of JSON, under the operation's name."""
    return Grown(f"{operation}: {grown.name}", lambda units: json.dumps(grown.make(units)).encode())


def xml(shape: Any, tag: str, units: int, depth: int = 0) -> str:
    """Returns a document of S3 in the form of a shape. Each of its outermost lists has so many items."""
    kind = shape.type_name
    if kind == "structure" and depth < DEPTH:
        members = shape.members.items()
        inside = (xml(one, one.serialization.get("name", name), units, depth + 1) for name, one in members)
        return f"<{tag}>{''.join(inside)}</{tag}>"
    if kind == "list":
        flat = shape.serialization.get("flattened")
        item = xml(shape.member, tag if flat else shape.member.serialization.get("name", "member"), 1, depth + 1)
        return item * units if flat else f"<{tag}>{item * units}</{tag}>"
    text = {"string": (getattr(shape, "enum", None) or ["a"])[0], "boolean": "true"}.get(kind, "1")
    return f"<{tag}>{text}</{tag}>"
