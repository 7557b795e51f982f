"""Property names of Search for training jobs, resolved by the service model's shape TrainingJob."""

from dataclasses import replace
from functools import cache
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
_DEFAULTS: dict[tuple[str, ...], Scalar] = {
    **{(name,): value for name, value in training_view.DEFAULTS.items()},
    **{("OutputDataConfig", name): value for name, value in training_view.OUTPUT_DEFAULTS.items()},
    **{("InputDataConfig", name): value for name, value in training_view.CHANNEL_DEFAULTS.items()},
}


@cache
def members() -> frozenset[str]:
    """Returns the members of the shape TrainingJob."""
    return frozenset(rule_book("sagemaker").shape("TrainingJob").members)


def resolve(name: str) -> Property:
    """Returns the property that a filter or SortBy names. Raises ValidationException."""
    found = _resolve(name)
    if found.kind is Kind.GROUP and not found.segments[-1]:
        # A list of structures as a whole.
        return replace(found, segments=found.segments[:-1])
    return found


def _resolve(name: str) -> Property:
    """Does what `resolve` does. A list of structures gets an empty last segment."""
    root, _, rest = name.partition(".")
    # `Tags.KEY` and `Metrics.NAME` are not paths in the model, and the key may hold dots.
    if root == "Tags" and rest:
        return Property((("Tags",),), Kind.TEXT, key=rest)
    if root == "Metrics" and rest:
        return Property((("Metrics",),), Kind.NUMBER, key=rest)
    found = _walk(rule_book("sagemaker").shape("TrainingJob"), name.split("."))
    if found is None:
        raise ValidationException(aws_texts.unknown_property(name))
    return found


def resolve_list(name: str) -> tuple[str, ...]:
    """Returns the path of the list that NestedFilters name. Raises ValidationException."""
    found = _resolve(name)
    *path, rest = found.segments
    if len(path) != 1 or rest or found.key is not None:
        raise ValidationException(f"NestedPropertyName {name} is not a list of a training job")
    return path[0]


def within(name: str, path: tuple[str, ...]) -> Property:
    """Returns the property that a filter in NestedFilters names, relative to an item of the list. Raises
    ValidationException.
    """
    found = resolve(name)
    first, *rest = found.segments
    if first != path or not rest:
        raise ValidationException(f"The nested filter {name} is not about the items of {'.'.join(path)}")
    return Property(tuple(rest), found.kind, found.key, found.default)


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
    return Property((*segments, path), kind, default=_DEFAULTS.get(tuple(names)))


def _of_key(segments: list[tuple[str, ...]], path: tuple[str, ...], shape: Any, names: list[str]) -> Property:
    kind = Kind.PARAMETER if path == ("HyperParameters",) else _KINDS.get(shape.value.type_name, Kind.GROUP)
    return Property((*segments, path), kind, key=".".join(names))
