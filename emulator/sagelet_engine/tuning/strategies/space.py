"""The space that a tuning job searches: hyperparameters with a type, a range and a scale.

Each parameter maps a position in the unit interval to a value and back. So a strategy sees only numbers from 0 to 1.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from sagelet_engine.base.errors import SageletError

#: A range whose ends differ by this factor or more is searched on a logarithmic scale if its ScalingType is Auto. AWS
#: says only that it "chooses the best scale".
AUTO_LOGARITHMIC_FROM = 100.0
#: Integers whose ends differ by less than this share are searched on a linear scale. There the scales are the same, and
#: floating-point logarithms would not tell the integers apart.
NARROW = 1e-6
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class InvalidRange(SageletError):
    """A range of hyperparameters cannot be searched. The message names the parameter."""


class Scaling(str, Enum):
    """botocore shape HyperParameterScalingType."""

    AUTO = "Auto"
    LINEAR = "Linear"
    LOGARITHMIC = "Logarithmic"
    REVERSE_LOGARITHMIC = "ReverseLogarithmic"


class Parameter(Protocol):
    """A hyperparameter to tune."""

    @property
    def name(self) -> str: ...

    @property
    def count(self) -> int | None:
        """The number of its values. None if they are not counted."""
        ...

    def value(self, position: float) -> str:
        """Returns the value at a position, 0 <= position <= 1, as the hyperparameter's text."""
        ...

    def position(self, value: str) -> float:
        """Returns a position that has this value. Raises InvalidRange if the value is not in the range."""
        ...


@dataclass(frozen=True)
class Continuous:
    """A number from `low` to `high`, both included."""

    name: str
    low: float
    high: float
    scaling: Scaling
    count: None = field(default=None, init=False)

    def value(self, position: float) -> str:
        start, end = _scaled(self.scaling, self.low), _scaled(self.scaling, self.high)
        number = _unscaled(self.scaling, start + (end - start) * position)
        return repr(min(self.high, max(self.low, number)))

    def position(self, value: str) -> float:
        number = _within(self, float(value), value)
        start, end = _scaled(self.scaling, self.low), _scaled(self.scaling, self.high)
        return 0.0 if start == end else (_scaled(self.scaling, number) - start) / (end - start)


@dataclass(frozen=True)
class Integer:
    """A whole number from `low` to `high`, both included. On a linear scale all have equal shares of the positions."""

    name: str
    low: int
    high: int
    scaling: Scaling

    def value(self, position: float) -> str:
        if self.scaling is Scaling.LINEAR:
            return str(self.low + min(self.count - 1, int(position * self.count)))
        start, end = self._ends()
        number = round(_unscaled(self.scaling, start + (end - start) * position))
        return str(min(self.high, max(self.low, number)))

    def position(self, value: str) -> float:
        number = _within(self, int(value) if _WHOLE.fullmatch(value) else float(value), value)
        if self.scaling is Scaling.LINEAR:
            return (2 * (number - self.low) + 1) / (2 * self.count)
        start, end = self._ends()
        return (_scaled(self.scaling, number) - start) / (end - start)

    @property
    def count(self) -> int:
        return self.high - self.low + 1

    def _ends(self) -> tuple[float, float]:
        """Half a step beyond the range, so that the first and the last number get a whole step as well."""
        return _scaled(self.scaling, self.low - 0.5), _scaled(self.scaling, self.high + 0.5)


@dataclass(frozen=True)
class Categorical:
    """One of several texts."""

    name: str
    values: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.values)

    def value(self, position: float) -> str:
        return self.values[min(len(self.values) - 1, int(position * len(self.values)))]

    def position(self, value: str) -> float:
        if value not in self.values:
            raise InvalidRange(f"{self.name} has no value {value!r}")
        return (self.values.index(value) + 0.5) / len(self.values)


@dataclass(frozen=True)
class Space:
    """The hyperparameters of one training job definition."""

    parameters: tuple[Parameter, ...]

    @property
    def combinations(self) -> int | None:
        """Returns the number of its values. None if a parameter's are not counted."""
        counts = [one.count for one in self.parameters if one.count is not None]
        return math.prod(counts) if len(counts) == len(self.parameters) else None

    def values(self, positions: Sequence[float]) -> dict[str, str]:
        """Returns TunedHyperParameters for one position of each parameter."""
        return {one.name: one.value(at) for one, at in zip(self.parameters, positions, strict=True)}

    def positions(self, values: Mapping[str, str]) -> list[float]:
        """Returns the positions of TunedHyperParameters. Raises InvalidRange, KeyError for a missing parameter."""
        return [one.position(values[one.name]) for one in self.parameters]


def space_of(ranges: Mapping[str, Any]) -> Space:
    """Reads ParameterRanges of the request. Raises InvalidRange.

    The parameters are in the order of the request, integers first: seeds give the same values for the same request.
    """
    parameters: list[Parameter] = [
        *(_integer(one) for one in ranges.get("IntegerParameterRanges", ())),
        *(_continuous(one) for one in ranges.get("ContinuousParameterRanges", ())),
        *(
            Categorical(one["Name"], tuple(dict.fromkeys(one["Values"])))
            for one in ranges.get("CategoricalParameterRanges", ())
        ),
    ]
    names = [one.name for one in parameters]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidRange(f"The hyperparameter {twice[0]} has several ranges; give it one")
    return Space(tuple(parameters))


def _integer(given: Mapping[str, str]) -> Integer:
    name, ends = given["Name"], []
    for member in ("MinValue", "MaxValue"):
        if not _WHOLE.fullmatch(given[member]):
            raise InvalidRange(f"{member} {given[member]!r} of the integer parameter {name} is not an integer")
        ends.append(int(given[member]))
    scaling = _scaling(given, ends[0], ends[1])
    if scaling is Scaling.REVERSE_LOGARITHMIC:
        raise InvalidRange(f"ScalingType ReverseLogarithmic of {name} is for continuous parameters only")
    narrow = ends[1] - ends[0] < NARROW * ends[0]
    return Integer(name, ends[0], ends[1], Scaling.LINEAR if narrow else scaling)


def _continuous(given: Mapping[str, str]) -> Continuous:
    name, ends = given["Name"], []
    for member in ("MinValue", "MaxValue"):
        number = float(given[member]) if _NUMBER.fullmatch(given[member]) else math.nan
        if not math.isfinite(number):
            raise InvalidRange(f"{member} {given[member]!r} of the continuous parameter {name} is not a number")
        ends.append(number)
    if not math.isfinite(ends[1] - ends[0]):
        raise InvalidRange(f"The range of {name} is too wide: MaxValue - MinValue must be less than 1.8e308")
    return Continuous(name, ends[0], ends[1], _scaling(given, ends[0], ends[1]))


def _scaling(given: Mapping[str, str], low: float, high: float) -> Scaling:
    """Returns the scale, never Auto. Raises InvalidRange if the range does not fit it (botocore shape
    HyperParameterScalingType has the rules).
    """
    name, scaling = given["Name"], Scaling(given.get("ScalingType", Scaling.AUTO))
    if low > high:
        raise InvalidRange(f"MinValue {low} of {name} is greater than its MaxValue {high}")
    if scaling is Scaling.AUTO:
        wide = low > 0 and high / low >= AUTO_LOGARITHMIC_FROM
        return Scaling.LOGARITHMIC if wide else Scaling.LINEAR
    if scaling is Scaling.LOGARITHMIC and low <= 0:
        raise InvalidRange(f"ScalingType Logarithmic of {name} needs values greater than 0; its MinValue is {low}")
    if scaling is Scaling.REVERSE_LOGARITHMIC and not 0 <= low <= high < 1:
        raise InvalidRange(
            f"ScalingType ReverseLogarithmic of {name} needs 0 <= values < 1.0; its range is {low} to {high}"
        )
    return scaling


def _within(parameter: Continuous | Integer, number: float, value: str) -> float:
    if not parameter.low <= number <= parameter.high:
        raise InvalidRange(f"{parameter.name}={value} is not in {parameter.low} to {parameter.high}")
    return number


def _scaled(scaling: Scaling, number: float) -> float:
    if scaling is Scaling.LOGARITHMIC:
        return math.log(number)
    return -math.log1p(-number) if scaling is Scaling.REVERSE_LOGARITHMIC else number


def _unscaled(scaling: Scaling, number: float) -> float:
    if scaling is Scaling.LOGARITHMIC:
        return math.exp(number)
    return -math.expm1(-number) if scaling is Scaling.REVERSE_LOGARITHMIC else number
