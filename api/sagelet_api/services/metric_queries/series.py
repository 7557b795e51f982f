"""Time series, and what metric math does with them."""

import calendar
import math
import operator
import statistics
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import pairwise

from sagelet_api.services.metric_queries.statistics_of import finite_sum
from sagelet_api.services.metric_queries.syntax import BadExpression


@dataclass(frozen=True)
class Series:
    """A time series (TS): values by time, in seconds since the epoch, in order."""

    label: str
    #: Seconds between two points.
    period: int
    points: Mapping[int, float]

    def map(self, change: Callable[[float], float | None]) -> "Series":
        """Changes every value. A value that becomes None or is not finite is left out, because CloudWatch has no such
        values.
        """
        return self.of({time: change(value) for time, value in self.points.items()})

    def of(self, points: Mapping[int, float | None]) -> "Series":
        kept = {time: value for time, value in points.items() if value is not None and math.isfinite(value)}
        return replace(self, points=kept)


#: A number (S), a time series (TS), or an array of them (TS[]).
Value = float | Series | list[Series]

_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
_REDUCED: dict[str, Callable[[Sequence[float]], float]] = {
    "SUM": finite_sum, "AVG": lambda values: finite_sum(values) / len(values), "MAX": max, "MIN": min,
    "STDDEV": statistics.pstdev,
}  # fmt: skip
_EACH: dict[str, Callable[[float], float]] = {
    "ABS": abs, "CEIL": math.ceil, "FLOOR": math.floor, "LOG": math.log, "LOG10": math.log10,
}  # fmt: skip
_CLOCK: dict[str, Callable[[datetime], float]] = {
    "EPOCH": lambda time: calendar.timegm(time.timetuple()),
    "MINUTE": lambda time: time.minute,
    "HOUR": lambda time: time.hour,
    "DAY": lambda time: time.isoweekday(),
    "DATE": lambda time: time.day,
    "MONTH": lambda time: time.month,
    "YEAR": lambda time: time.year,
}


def calculate(mark: str, left: Value, right: Value) -> Value:
    """Computes `left mark right` at the times that both have, for each series of an array. Raises BadExpression."""
    if isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            raise BadExpression(f"arrays of {len(left)} and of {len(right)} series have no {mark}")
        return [_series(calculate(mark, one, other)) for one, other in zip(left, right, strict=True)]
    if isinstance(left, list):
        return [_series(calculate(mark, one, right)) for one in left]
    if isinstance(right, list):
        return [_series(calculate(mark, left, one)) for one in right]
    if isinstance(left, Series) and isinstance(right, Series):
        common = [time for time in left.points if time in right.points]
        return left.of({time: _number(mark, left.points[time], right.points[time]) for time in common})
    if isinstance(left, Series):
        return left.map(lambda value: _number(mark, value, _scalar(right)))
    if isinstance(right, Series):
        return right.map(lambda value: _number(mark, _scalar(left), value))
    found = _number(mark, left, right)
    if found is None or not math.isfinite(found):
        raise BadExpression(f"{left} {mark} {right} has no value")
    return found


def negative(value: Value) -> Value:
    return calculate("*", value, -1.0)


def each(function: str, value: Value) -> Value:
    """Computes ABS, CEIL, FLOOR, LOG or LOG10. Raises BadExpression for a number that has no such value."""
    change = _EACH[function]

    def of(number: float) -> float | None:
        try:
            return float(change(number))
        except ValueError:  # The logarithm of a number that is not positive.
            return None

    if isinstance(value, list):
        return [one.map(of) for one in value]
    if isinstance(value, Series):
        return value.map(of)
    found = of(value)
    if found is None:
        raise BadExpression(f"{function}({value}) has no value")
    return found


def reduce(function: str, value: Value) -> Value:
    """Computes SUM, AVG, MAX, MIN or STDDEV: one number of a series, one series of an array."""
    change = _REDUCED[function]
    if isinstance(value, Series):
        if not value.points:
            raise BadExpression(f"{function} of a series without points has no value")
        found = _reduced(change, list(value.points.values()))
        if not math.isfinite(found):
            raise BadExpression(f"{function} of {value.label} is too large for a number")
        return found
    if isinstance(value, list):
        return _across(function, value, change)
    raise BadExpression(f"{function} takes a time series, or an array of them")


def counted(value: Value) -> Value:
    """DATAPOINT_COUNT."""
    if isinstance(value, Series):
        return float(len(value.points))
    if isinstance(value, list):
        return _across("DATAPOINT_COUNT", value, len)
    raise BadExpression("DATAPOINT_COUNT takes a time series, or an array of them")


def _across(label: str, array: Sequence[Series], change: Callable[[Sequence[float]], float]) -> Series:
    times = sorted({time for one in array for time in one.points})
    period = max((one.period for one in array), default=60)
    empty = Series(label, period, {})
    return empty.of(
        {time: _reduced(change, [one.points[time] for one in array if time in one.points]) for time in times}
    )


def _reduced(change: Callable[[Sequence[float]], float], values: Sequence[float]) -> float:
    try:
        return float(change(values))
    except OverflowError:
        return math.inf


def clock(function: str, series: Series) -> Series:
    """Computes EPOCH, MINUTE, HOUR, DAY (Monday is 1), DATE, MONTH or YEAR of each point, in UTC."""
    read = _CLOCK[function]
    return replace(
        series, points={time: float(read(datetime.fromtimestamp(time, timezone.utc))) for time in series.points}
    )


def differences(function: str, series: Series) -> Series:
    """Computes DIFF, DIFF_TIME or RATE from each point's predecessor. RATE is per second, DIFF_TIME in seconds."""
    times = list(series.points)
    points: dict[int, float | None] = {}
    for before, time in pairwise(times):
        rise, seconds = series.points[time] - series.points[before], time - before
        points[time] = {"DIFF": rise, "DIFF_TIME": float(seconds), "RATE": rise / seconds}[function]
    return series.of(points)


def running_sum(series: Series) -> Series:
    total = 0.0
    points: dict[int, float | None] = {}
    for time, value in series.points.items():
        total += value
        points[time] = total
    return series.of(points)


def filled(series: Series, how: float | str | Series, times: Sequence[int]) -> Series:
    """Computes FILL: missing points become a number, a series' value, the point before (REPEAT), or a value between the
    neighbours (LINEAR).
    """
    points: dict[int, float | None] = {}
    known = sorted(series.points)
    for time in times:
        if time in series.points:
            points[time] = series.points[time]
        elif isinstance(how, Series):
            points[time] = how.points.get(time)
        elif isinstance(how, float):
            points[time] = how
        else:
            place = bisect_left(known, time)
            before, after = known[max(place - 1, 0) : place], known[place : place + 1]
            points[time] = _between(series, time, before, after if how == "LINEAR" else before)
    return series.of(points)


def _between(series: Series, time: int, before: Sequence[int], after: Sequence[int]) -> float | None:
    """Interpolates between two points. Each is a list of one time or of none; if one is empty, there is no value."""
    if not before or not after:
        return None
    (begin,), (end,) = before, after
    share = (time - begin) / (end - begin) if end > begin else 0.0
    return series.points[begin] + share * (series.points[end] - series.points[begin])


def chosen(condition: Value, yes: Value, no: Value | None) -> Value:
    """Computes IF: `yes` where the condition is not 0, otherwise `no`. A point that has neither is left out."""
    if isinstance(condition, list):
        raise BadExpression("IF takes a number or a time series as its condition")
    if not isinstance(condition, Series):
        picked = yes if condition else no
        if picked is None:
            raise BadExpression("IF has no value for a condition that is 0")
        return picked

    def at(value: Value | None, time: int) -> float | None:
        if isinstance(value, list):
            raise BadExpression("IF takes no arrays")
        return value.points.get(time) if isinstance(value, Series) else value

    return condition.of({time: at(yes if truth else no, time) for time, truth in condition.points.items()})


def ordered(array: Sequence[Series], function: str, order: str, most: int | None) -> list[Series]:
    """Computes SORT: by SUM, AVG, MAX, MIN or STDDEV of each series, ASC or DESC. Series without points come last."""
    if function not in _REDUCED or order not in ("ASC", "DESC"):
        raise BadExpression("SORT sorts by SUM, AVG, MAX, MIN or STDDEV, and ASC or DESC")
    with_points = [one for one in array if one.points]
    empty = [one for one in array if not one.points]
    by = _REDUCED[function]
    with_points.sort(key=lambda one: by(list(one.points.values())), reverse=order == "DESC")
    return [*with_points, *empty][:most]


def constant(number: float, times: Sequence[int], period: int) -> Series:
    """Computes TIME_SERIES: a number at each time."""
    return Series(str(number), period, dict.fromkeys(times, number))


def _series(value: Value) -> Series:
    assert isinstance(value, Series)
    return value


def _scalar(value: Value) -> float:
    assert isinstance(value, float)
    return value


def _number(mark: str, left: float, right: float) -> float | None:
    """Returns the value of an operation, or None if it has no value."""
    if mark in _COMPARED:
        return float(_COMPARED[mark](left, right))
    try:
        match mark:
            case "&&":
                return float(bool(left) and bool(right))
            case "||":
                return float(bool(left) or bool(right))
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/":
                return left / right
            case _:
                power = left**right
                return None if isinstance(power, complex) else power
    except (ZeroDivisionError, OverflowError):
        return None
