"""Property names of Search, resolved by the service model's shape of the resource."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sagelet_api.protocol.aws_errors import ValidationException
from sagelet_api.protocol.validation import rule_book
from sagelet_api.services.sagemaker import training_view
from sagelet_engine.model import aws_texts
from sagelet_engine.model.search import Kind, Property, Scalar

_KINDS = {
    "string": Kind.TEXT,
    "integer": Kind.NUMBER,
    "long": Kind.NUMBER,
    "float": Kind.NUMBER,
    "double": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
    "timestamp": Kind.TIME,
}
#: Maps of hyperparameters, by the last name of their path.
_HYPERPARAMETERS = frozenset({"HyperParameters", "StaticHyperParameters", "TunedHyperParameters"})
_DEFAULTS: dict[tuple[str, ...], Scalar] = {
    **{(name,): value for name, value in training_view.DEFAULTS.items()},
    **{("OutputDataConfig", name): value for name, value in training_view.OUTPUT_DEFAULTS.items()},
    **{("InputDataConfig", name): value for name, value in training_view.CHANNEL_DEFAULTS.items()},
}


@dataclass(frozen=True)
class Properties:
    """The properties of one resource: members of a shape, and `Tags.KEY`."""

    shape: str
    #: What a sentence calls a record.
    noun: str
    defaults: Mapping[tuple[str, ...], Scalar] = field(default_factory=dict)
    #: True if the records have `Metrics.NAME`.
    metrics: bool = False

    @cached_property
    def members(self) -> frozenset[str]:
        """Returns the members of the shape."""
        return frozenset(rule_book("sagemaker").shape(self.shape).members)

    @cached_property
    def single_values(self) -> frozenset[str]:
        """Returns names of the single values in the shape. `Tags.KEY` is about a tag with that key, not about the
        model.
        """
        found = _single_values(rule_book("sagemaker").shape(self.shape), "")
        return frozenset(name for name in found if not name.startswith("Tags."))

    def resolve(self, name: str) -> Property:
        """Returns the property that a filter or SortBy names. Raises ValidationException."""
        found = self._resolve(name)
        if found.kind is Kind.GROUP and not found.segments[-1]:
            # A list of structures as a whole.
            return replace(found, segments=found.segments[:-1])
        return found

    def _resolve(self, name: str) -> Property:
        """Does what `resolve` does. A list of structures gets an empty last segment."""
        root, _, rest = name.partition(".")
        # `Tags.KEY` and `Metrics.NAME` are not paths in the model, and the key may hold dots.
        if root == "Tags" and rest:
            return Property((("Tags",),), Kind.TEXT, key=rest)
        if root == "Metrics" and rest and self.metrics:
            return Property((("Metrics",),), Kind.NUMBER, key=rest)
        found = _walk(rule_book("sagemaker").shape(self.shape), name.split("."))
        if found is None:
            raise ValidationException(aws_texts.unknown_property(name))
        return replace(found, default=self.defaults.get(tuple(name.split("."))))

    def resolve_list(self, name: str) -> tuple[str, ...]:
        """Returns the path of the list that NestedFilters name. Raises ValidationException."""
        found = self._resolve(name)
        *path, rest = found.segments
        if len(path) != 1 or rest or found.key is not None:
            raise ValidationException(f"NestedPropertyName {name} is not a list of a {self.noun}")
        return path[0]

    def within(self, name: str, path: tuple[str, ...]) -> Property:
        """Returns the property that a filter in NestedFilters names, relative to an item of the list. Raises
        ValidationException.
        """
        found = self.resolve(name)
        first, *rest = found.segments
        if first != path or not rest:
            raise ValidationException(f"The nested filter {name} is not about the items of {'.'.join(path)}")
        return Property(tuple(rest), found.kind, found.key, found.default)


TRAINING_JOBS = Properties("TrainingJob", "training job", _DEFAULTS, metrics=True)
TUNING_JOBS = Properties("HyperParameterTuningJobSearchEntity", "tuning job")


def _walk(shape: Any, names: list[str]) -> Property | None:
    """Follows member names through the model. A list on the way begins a new segment."""
    segments: list[tuple[str, ...]] = []
    path: tuple[str, ...] = ()
    for position, name in enumerate(names):
        if shape.type_name == "map":
            return _of_key(segments, path, shape, names[position:])
        if shape.type_name != "structure" or name not in shape.members:
            return None
        shape, path = shape.members[name], (*path, name)
        if shape.type_name == "list":
            segments, path, shape = [*segments, path], (), shape.member
    kind = _KINDS.get(shape.type_name, Kind.GROUP)
    return Property((*segments, path), kind)


def _of_key(segments: list[tuple[str, ...]], path: tuple[str, ...], shape: Any, names: list[str]) -> Property:
    kind = Kind.PARAMETER if path and path[-1] in _HYPERPARAMETERS else _KINDS.get(shape.value.type_name, Kind.GROUP)
    return Property((*segments, path), kind, key=".".join(names))


def _single_values(shape: Any, prefix: str) -> Iterator[str]:
    for name, member in shape.members.items():
        while member.type_name == "list":
            member = member.member
        if member.type_name == "structure":
            yield from _single_values(member, f"{prefix}{name}.")
        elif member.type_name != "map":
            yield f"{prefix}{name}"
