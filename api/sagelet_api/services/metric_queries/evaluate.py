"""Metric math, from a tree to its value."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sagelet_api.services.metric_queries import series as ts
from sagelet_api.services.metric_queries.series import Series, Value
from sagelet_api.services.metric_queries.syntax import (
    Array,
    BadExpression,
    Call,
    Minus,
    Name,
    Node,
    Number,
    Operation,
    Text,
)

#: Names of functions that CloudWatch has and sagelet does not compute.
NOT_COMPUTED = frozenset(
    {"ANOMALY_DETECTION_BAND", "DB_PERF_INSIGHTS", "INSIGHT_RULE_METRIC", "LAMBDA", "METRIC_COUNT", "SERVICE_QUOTA"}
)


@dataclass(frozen=True)
class Scope:
    """The names that an expression can refer to."""

    #: Returns a query's result by its id. Raises BadExpression.
    result: Callable[[str], Value]
    #: The request's metrics by their ids, for METRICS().
    metrics: Mapping[str, Series]
    #: Returns the series of the metrics that a search finds. Takes the term, the statistic and the period.
    search: Callable[[str, str, int], list[Series]]
    #: The times of a period within the time range of the request.
    times: Callable[[int], Sequence[int]]
    #: The request's period in seconds: the longest of its metrics' periods.
    period: int
    #: Called for each intermediate value. Raises BadExpression if that was too much work.
    worked: Callable[[Value], None]


def evaluate(node: Node, scope: Scope) -> Value:
    """Evaluates a tree. Raises BadExpression."""
    value = _evaluated(node, scope)
    scope.worked(value)
    return value


def _evaluated(node: Node, scope: Scope) -> Value:
    match node:
        case Number(value):
            return value
        case Name(value):
            return scope.result(value)
        case Minus(of):
            return ts.negative(evaluate(of, scope))
        case Operation(mark, left, right):
            return ts.calculate(mark, evaluate(left, scope), evaluate(right, scope))
        case Array(items):
            return [one for item in items for one in _many(evaluate(item, scope))]
        case Call(function, arguments):
            return _call(function, arguments, scope)
    raise BadExpression(f"a text stands where a number or a time series is needed: {node.value!r}")


def _call(function: str, arguments: Sequence[Node], scope: Scope) -> Value:
    if function in _SPECIAL:
        return _SPECIAL[function](arguments, scope)
    if function in NOT_COMPUTED:
        raise BadExpression(f"sagelet does not compute {function}")
    if function not in _PLAIN:
        raise BadExpression(f"there is no function {function}")
    if len(arguments) != 1:
        raise BadExpression(f"{function} takes one argument")
    return _PLAIN[function](function, evaluate(arguments[0], scope))


def _each_series(change: Callable[[str, Series], Series]) -> Callable[[str, Value], Value]:
    def apply(function: str, value: Value) -> Value:
        if isinstance(value, list):
            return [change(function, one) for one in value]
        return change(function, _one(function, value))

    return apply


_PLAIN: dict[str, Callable[[str, Value], Value]] = {
    **dict.fromkeys(("ABS", "CEIL", "FLOOR", "LOG", "LOG10"), ts.each),
    **dict.fromkeys(("SUM", "AVG", "MAX", "MIN", "STDDEV"), ts.reduce),
    **dict.fromkeys(("EPOCH", "MINUTE", "HOUR", "DAY", "DATE", "MONTH", "YEAR"), _each_series(ts.clock)),
    **dict.fromkeys(("DIFF", "DIFF_TIME", "RATE"), _each_series(ts.differences)),
    "DATAPOINT_COUNT": lambda _, value: ts.counted(value),
    "RUNNING_SUM": _each_series(lambda _, one: ts.running_sum(one)),
    "PERIOD": lambda function, value: float(_one(function, value).period),
    "REMOVE_EMPTY": lambda function, value: [one for one in _array(function, value) if one.points],
    "FIRST": lambda function, value: _at(function, _array(function, value), 0),
    "LAST": lambda function, value: _at(function, _array(function, value), -1),
}


def _search(arguments: Sequence[Node], scope: Scope) -> Value:
    """Evaluates SEARCH('term', 'statistic', period). Without a period it uses the request's."""
    texts = [one.value for one in arguments[:2] if isinstance(one, Text)]
    if len(texts) != 2 or len(arguments) > 3:
        raise BadExpression("SEARCH takes a search term and a statistic, each as text, and a period")
    period = scope.period
    if len(arguments) == 3:
        period = _whole("The period of SEARCH", evaluate(arguments[2], scope))
    if period < 1:
        raise BadExpression("The period of SEARCH must be at least 1 second")
    return list(scope.search(texts[0], texts[1], period))


def _metrics(arguments: Sequence[Node], scope: Scope) -> Value:
    """Evaluates METRICS() or METRICS('part of an id')."""
    if not all(isinstance(one, Text) for one in arguments) or len(arguments) > 1:
        raise BadExpression("METRICS takes no argument, or a text")
    part = "".join(one.value for one in arguments if isinstance(one, Text))
    return [one for name, one in scope.metrics.items() if part in name]


def _fill(arguments: Sequence[Node], scope: Scope) -> Value:
    if len(arguments) != 2:
        raise BadExpression("FILL takes a time series, or an array of them, and the value that fills it")
    with_what = arguments[1]
    how: float | str | Series
    if isinstance(with_what, Name) and with_what.value.upper() in ("REPEAT", "LINEAR"):
        how = with_what.value.upper()
    else:
        found = evaluate(with_what, scope)
        if isinstance(found, list):
            raise BadExpression("FILL fills with a number, a time series, REPEAT or LINEAR")
        how = found
    value = evaluate(arguments[0], scope)
    if isinstance(value, list):
        return [ts.filled(one, how, scope.times(one.period)) for one in value]
    one = _one("FILL", value)
    return ts.filled(one, how, scope.times(one.period))


def _if(arguments: Sequence[Node], scope: Scope) -> Value:
    if len(arguments) not in (2, 3):
        raise BadExpression("IF takes a condition, the value if it holds, and the value otherwise")
    condition, yes, *no = [evaluate(one, scope) for one in arguments]
    return ts.chosen(condition, yes, no[0] if no else None)


def _time_series(arguments: Sequence[Node], scope: Scope) -> Value:
    if len(arguments) != 1:
        raise BadExpression("TIME_SERIES takes one argument")
    number = evaluate(arguments[0], scope)
    if not isinstance(number, float):
        raise BadExpression("TIME_SERIES takes a number")
    return ts.constant(number, scope.times(scope.period), scope.period)


def _slice(arguments: Sequence[Node], scope: Scope) -> Value:
    """Evaluates SLICE(array, begin), a series, or SLICE(array, begin, end), an array without the series at `end`."""
    if len(arguments) not in (2, 3):
        raise BadExpression("SLICE takes an array of time series, a begin and an end")
    array = _array("SLICE", evaluate(arguments[0], scope))
    begin, *end = [_whole("SLICE", evaluate(one, scope)) for one in arguments[1:]]
    return array[begin : end[0]] if end else _at("SLICE", array, begin)


def _sort(arguments: Sequence[Node], scope: Scope) -> Value:
    if len(arguments) not in (3, 4) or not all(isinstance(one, Name) for one in arguments[1:3]):
        raise BadExpression("SORT takes an array of time series, a function, ASC or DESC, and the number to keep")
    by, order = [one.value.upper() for one in arguments[1:3] if isinstance(one, Name)]
    most = _whole("SORT", evaluate(arguments[3], scope)) if len(arguments) == 4 else None
    return ts.ordered(_array("SORT", evaluate(arguments[0], scope)), by, order, most)


_SPECIAL: dict[str, Callable[[Sequence[Node], Scope], Value]] = {
    "SEARCH": _search, "METRICS": _metrics, "FILL": _fill, "IF": _if, "TIME_SERIES": _time_series, "SLICE": _slice,
    "SORT": _sort,
}  # fmt: skip


def _one(function: str, value: Value) -> Series:
    if not isinstance(value, Series):
        raise BadExpression(f"{function} takes a time series")
    return value


def _array(function: str, value: Value) -> list[Series]:
    if not isinstance(value, list):
        raise BadExpression(f"{function} takes an array of time series")
    return value


def _many(value: Value) -> list[Series]:
    if isinstance(value, float):
        raise BadExpression("an array holds time series, not numbers")
    return value if isinstance(value, list) else [value]


def _at(function: str, array: Sequence[Series], place: int) -> Series:
    try:
        return array[place]
    except IndexError:
        raise BadExpression(f"{function}: the array has {len(array)} time series") from None


def _whole(what: str, value: Value) -> int:
    if not isinstance(value, float) or value != int(value):
        raise BadExpression(f"{what} needs a whole number")
    return int(value)
