"""GetMetricData and GetMetricStatistics: statistics, metric math and SEARCH, by boto3 from CloudWatch."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge

START = datetime(2026, 11, 2, 10, 0, tzinfo=timezone.utc)  # a Monday
WINDOW = {"StartTime": START, "EndTime": START + timedelta(minutes=5)}
NAMESPACE = "Team/Training"
#: Minutes and values of two hosts; "b" lacks the third minute.
LOSS = {"a": {0: 4.0, 1: 2.0, 2: 1.0, 3: 0.5}, "b": {0: 8.0, 1: 6.0, 3: 2.0}}
Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def cloudwatch(bridge: MotoBridge, client: Callable[[str], Any]) -> Any:
    bridge.process.forget()
    cloudwatch = client("cloudwatch")
    for host, values in LOSS.items():
        for minute, value in values.items():
            put(cloudwatch, "EvalLoss", value, minute, Host=host)
    put(cloudwatch, "CPUUtilization", 50.0, 1, Host="a", Zone="z 1")
    put(cloudwatch, "EvalLoss", 7.0, 0)
    return cloudwatch


def put(cloudwatch: Any, name: str, value: float, minute: int, **dimensions: str) -> None:
    datum = {
        "MetricName": name,
        "Timestamp": START + timedelta(minutes=minute, seconds=10),
        "Value": value,
        "Dimensions": [{"Name": key, "Value": text} for key, text in dimensions.items()],
    }
    cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=[datum])


def stat(name: str, host: str, statistic: str = "Average", metric: str = "EvalLoss", **more: Any) -> dict[str, Any]:
    dimensions = [{"Name": "Host", "Value": host}] if host else []
    of = {"Namespace": NAMESPACE, "MetricName": metric, "Dimensions": dimensions}
    return {"Id": name, "MetricStat": {"Metric": of, "Period": 60, "Stat": statistic}, **more}


@pytest.fixture
def ask(cloudwatch: Any) -> Ask:
    def ask(*queries: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
        options = {"ScanBy": "TimestampAscending", **WINDOW, **more}
        answer: list[dict[str, Any]] = cloudwatch.get_metric_data(MetricDataQueries=[*queries], **options)[
            "MetricDataResults"
        ]
        assert {one["StatusCode"] for one in answer} <= {"Complete"}
        return answer

    return ask


def minutes(result: dict[str, Any]) -> dict[int, float]:
    times = [int((time - START).total_seconds() // 60) for time in result["Timestamps"]]
    return dict(zip(times, result["Values"], strict=True))


def expression(ask: Ask, text: str, **more: Any) -> list[dict[str, Any]]:
    hidden = [stat(name, name, ReturnData=False) for name in ("a", "b")]
    return ask({"Id": "e", "Expression": text, **more}, *hidden)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", LOSS["a"]),
        ("a + b", {0: 12.0, 1: 8.0, 3: 2.5}),
        ("b - a * 2", {0: 0.0, 1: 2.0, 3: 1.0}),
        ("(b - a) * 2", {0: 8.0, 1: 8.0, 3: 3.0}),
        ("-a ^ 2", {0: -16.0, 1: -4.0, 2: -1.0, 3: -0.25}),
        ("2 ^ 3 ^ 2 + 0 * a", dict.fromkeys(LOSS["a"], 512.0)),
        ("a / (a - 2)", {0: 2.0, 2: -1.0, 3: 0.5 / -1.5}),  # a division by zero has no point
        ("a > 1", {0: 1.0, 1: 1.0, 2: 0.0, 3: 0.0}),
        ("a > 1 AND b < 7", {0: 0.0, 1: 1.0, 3: 0.0}),
        ("a >= 4 || b == 2", {0: 1.0, 1: 0.0, 3: 1.0}),
        ("ABS(0 - a)", LOSS["a"]),
        ("CEIL(a / 3)", {0: 2.0, 1: 1.0, 2: 1.0, 3: 1.0}),
        ("FLOOR(a / 3)", {0: 1.0, 1: 0.0, 2: 0.0, 3: 0.0}),
        ("LOG10(a - 1)", {0: 0.47712125471966244, 1: 0.0}),  # what is not positive has no logarithm
        ("SUM([a, b])", {0: 12.0, 1: 8.0, 2: 1.0, 3: 2.5}),
        ("AVG(METRICS())", {0: 6.0, 1: 4.0, 2: 1.0, 3: 1.25}),
        ("MAX(METRICS('b'))", LOSS["b"]),
        ("STDDEV([a, b])", {0: 2.0, 1: 2.0, 2: 0.0, 3: 0.75}),
        ("a - MIN(a)", {0: 3.5, 1: 1.5, 2: 0.5, 3: 0.0}),
        ("a * DATAPOINT_COUNT(b)", {0: 12.0, 1: 6.0, 2: 3.0, 3: 1.5}),
        ("DATAPOINT_COUNT([a, b])", {0: 2.0, 1: 2.0, 2: 1.0, 3: 2.0}),
        ("FILL(b, 0)", {**LOSS["b"], 2: 0.0, 4: 0.0}),
        ("FILL(b, REPEAT)", {**LOSS["b"], 2: 6.0, 4: 2.0}),
        ("FILL(b, LINEAR)", {**LOSS["b"], 2: 4.0}),
        ("FILL(b, a)", {**LOSS["b"], 2: 1.0}),
        ("DIFF(a)", {1: -2.0, 2: -1.0, 3: -0.5}),
        ("DIFF_TIME(b)", {1: 60.0, 3: 120.0}),
        ("RATE(b)", {1: -2 / 60, 3: -4 / 120}),
        ("RUNNING_SUM(a)", {0: 4.0, 1: 6.0, 2: 7.0, 3: 7.5}),
        ("a / PERIOD(a)", {minute: value / 60 for minute, value in LOSS["a"].items()}),
        ("TIME_SERIES(1 + 2)", dict.fromkeys(range(5), 3.0)),
        ("IF(a > 1, a, 0)", {0: 4.0, 1: 2.0, 2: 0.0, 3: 0.0}),
        ("IF(a > 1, b)", {0: 8.0, 1: 6.0}),
        ("IF(1, a, b)", LOSS["a"]),
        ("SLICE([a, b], 1)", LOSS["b"]),
        ("FIRST(SORT([a, b], MAX, DESC))", LOSS["b"]),
        ("LAST(SORT([a, b], AVG, DESC))", LOSS["a"]),
        ("MINUTE(a) + HOUR(a) * 100 + DAY(a) * 10000", {0: 11000.0, 1: 11001.0, 2: 11002.0, 3: 11003.0}),
        ("YEAR(a) * 10000 + MONTH(a) * 100 + DATE(a)", dict.fromkeys(range(4), 20261102.0)),
        ("EPOCH(a) - EPOCH(a)", dict.fromkeys(range(4), 0.0)),
    ],
)
def test_metric_math(ask: Ask, text: str, expected: dict[int, float]) -> None:
    (result,) = expression(ask, text)
    assert minutes(result) == pytest.approx(expected)
    assert (result["Id"], result["Label"]) == ("e", "e")


def test_an_expression_of_an_expression_in_any_order(ask: Ask) -> None:
    queries = [
        {"Id": "third", "Expression": "second + 1", "Label": "one more"},
        {"Id": "second", "Expression": "m * 10", "ReturnData": False},
        stat("m", "a"),
    ]
    third, first = ask(*queries)
    assert (third["Label"], minutes(third)) == ("one more", {0: 41.0, 1: 21.0, 2: 11.0, 3: 6.0})
    assert (first["Id"], first["Label"]) == ("m", "EvalLoss Average")


def test_the_newest_come_first_unless_asked_otherwise(cloudwatch: Any) -> None:
    (result,) = cloudwatch.get_metric_data(MetricDataQueries=[stat("m", "a")], **WINDOW)["MetricDataResults"]
    assert result["Values"] == [0.5, 1.0, 2.0, 4.0]


def test_a_metric_without_dimensions_is_a_metric_of_its_own(ask: Ask) -> None:
    (result,) = ask(stat("m", ""))
    assert minutes(result) == {0: 7.0}


@pytest.mark.parametrize(
    ("statistic", "value"),
    [("Sum", 7.5), ("Minimum", 0.5), ("Maximum", 4.0), ("SampleCount", 4.0), ("p50", 1.5), ("p100", 4.0)],
)
def test_statistics_of_a_longer_period(ask: Ask, statistic: str, value: float) -> None:
    query = stat("m", "a", statistic)
    query["MetricStat"]["Period"] = 300
    (result,) = ask(query)
    assert minutes(result) == {0: value}


@pytest.mark.parametrize(
    ("term", "labels"),
    [
        ('{Team/Training,Host} MetricName="EvalLoss"', ["a EvalLoss", "b EvalLoss"]),
        ("{Team/Training,Host,Zone}", ["a z 1 CPUUtilization"]),
        ("{Team/Training,Host} eval Host=b", ["b EvalLoss"]),
        ("{Team/Training,Host} Host=(a OR b) NOT a", ["b EvalLoss"]),
        ("utilization", ["a z 1 CPUUtilization"]),
        ('Namespace="Team/Training" loss', ["EvalLoss", "a EvalLoss", "b EvalLoss"]),
        ('Zone="z 1" OR (loss AND Host=a)', ["a EvalLoss", "a z 1 CPUUtilization"]),
        ('Host="nobody"', []),
    ],
)
def test_search(ask: Ask, term: str, labels: list[str]) -> None:
    found = ask({"Id": "s", "Expression": f"SEARCH('{term}', 'Average', 60)"})
    assert [one["Label"] for one in found] == labels
    assert {one["Id"] for one in found} <= {"s"}
    for one in found:
        assert one["Values"]


def test_math_over_what_a_search_finds(ask: Ask) -> None:
    (result,) = ask({"Id": "s", "Expression": "SUM(SEARCH('{Team/Training,Host} EvalLoss', 'Average', 60))"})
    assert minutes(result) == {0: 12.0, 1: 8.0, 2: 1.0, 3: 2.5}
    labelled = ask({"Id": "s", "Expression": "SEARCH('EvalLoss Host=a', 'Sum', 60) * 2", "Label": "twice"})
    assert [one["Label"] for one in labelled] == ["twice a EvalLoss"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a +", "it ends too early"),
        ("a b", "unexpected 'b'"),
        ("a ; b", "unexpected '; b'"),
        ("SUM(a", "')' is missing"),
        ("nothing + 1", "there is no query with the id 'nothing'"),
        ("e + 1", "it asks for itself: e -> e"),
        ("SUM(a)", "TIME_SERIES makes one"),
        ("1 / 0", "has no value"),
        ("[a, b] + [a]", "arrays of 2 and of 1"),
        ("ANOMALY_DETECTION_BAND(a, 2)", "sagelet does not compute ANOMALY_DETECTION_BAND"),
        ("SHAZAM(a)", "there is no function SHAZAM"),
        ('SELECT AVG(EvalLoss) FROM SCHEMA("Team/Training", Host)', "Metrics Insights"),
        ("SEARCH('', 'Average', 60)", "the search term is empty"),
        ("SEARCH('(loss', 'Average', 60)", "')' is missing"),
        ("SEARCH('loss', 'tm90', 60)", "sagelet does not compute the statistic tm90"),
        ("SEARCH(a, 'Average', 60)", "SEARCH takes a search term"),
        ("SLICE([a], 3)", "the array has 1 time series"),
        ("'a'", "a text stands"),
        ("(" * 400 + "a" + ")" * 400, "nested too deeply"),
        ("a" * 2049, "more than 2048"),
    ],
)
def test_what_cannot_be_computed_is_refused(ask: Ask, text: str, said: str) -> None:
    with pytest.raises(ClientError) as caught:
        expression(ask, text)
    error = caught.value.response["Error"]
    assert error["Code"] == "ValidationError"
    assert error["Message"].startswith("Error in expression 'e': ")
    assert said in error["Message"]


def test_a_statistic_that_is_not_computed_is_refused(ask: Ask) -> None:
    with pytest.raises(ClientError, match="Query 'm': sagelet does not compute the statistic IQM"):
        ask(stat("m", "a", "IQM"))


def test_a_series_without_end_is_refused(ask: Ask) -> None:
    long = {"StartTime": START - timedelta(days=400), "EndTime": START}
    query = {"Id": "e", "Expression": "TIME_SERIES(1)", "Period": 1}
    with pytest.raises(ClientError, match="more than 100800 data points"):
        ask(query, **long)


@pytest.mark.parametrize(
    ("seconds", "period", "expected"),
    [
        (45, 60, {0: 4.0, 60: 2.0}),
        (45, 120, {0: 3.0}),
        (45, 30, {60: 2.0}),
        (5, 5, {10: 4.0, 70: 2.0}),
        (7, 5, {10: 4.0, 70: 2.0}),
        (11, 1, {70: 2.0}),
    ],
)
def test_the_start_is_rounded_down(ask: Ask, seconds: int, period: int, expected: dict[int, float]) -> None:
    """AWS: to the whole minute, for periods of 5, 10, 20 and 30 seconds to one of those. Values are 10 s into each."""
    query = stat("m", "a")
    query["MetricStat"]["Period"] = period
    times = {"StartTime": START + timedelta(seconds=seconds), "EndTime": START + timedelta(minutes=2)}
    (found,) = ask(query, **times)
    stamps = [int((time - START).total_seconds()) for time in found["Timestamps"]]
    assert dict(zip(stamps, found["Values"], strict=True)) == expected


@pytest.mark.parametrize(
    "text",
    ["FLOOR(1e999) + a", "SLICE([a], 1e999)", "SEARCH('loss', 'Sum', 1e999)", "TIME_SERIES(1e999)", "a * 1e999"],
)
def test_a_number_beyond_all_numbers_is_refused(ask: Ask, text: str) -> None:
    with pytest.raises(ClientError, match="too large") as caught:
        expression(ask, text)
    assert caught.value.response["Error"]["Code"] == "ValidationError"


@pytest.mark.parametrize("text", ["SUM([v, v])", "AVG([v, v])", "RUNNING_SUM(v) + 0 * v", "v * 10", "SUM(METRICS())"])
def test_what_overflows_has_no_point(cloudwatch: Any, ask: Ask, text: str) -> None:
    for minute in (0, 1):
        put(cloudwatch, "Vast", 1.5e308, minute)
    first, second = ask(stat("v", "", metric="Vast"), {"Id": "e", "Expression": text})
    assert list(minutes(first)) == [0, 1]
    assert all(value < float("inf") for value in second["Values"])


@pytest.mark.parametrize("function", ["SUM", "AVG"])
def test_a_number_that_overflows_is_refused(cloudwatch: Any, ask: Ask, function: str) -> None:
    for minute in (0, 1):
        put(cloudwatch, "Vast", 1.5e308, minute)
    with pytest.raises(ClientError, match=f"{function} .*too large"):
        ask(stat("v", "", metric="Vast"), {"Id": "e", "Expression": f"TIME_SERIES({function}(v))"})


@pytest.mark.parametrize("statistic", ["Sum", "Average"])
def test_a_statistic_that_overflows_has_no_point(cloudwatch: Any, ask: Ask, statistic: str) -> None:
    for _ in range(2):
        put(cloudwatch, "Vast", 1.5e308, 0)
    assert ask(stat("v", "", statistic, metric="Vast"))[0]["Values"] == []


@pytest.mark.parametrize("how", ["REPEAT", "LINEAR"])
def test_a_long_series_is_filled_in_time(ask: Ask, how: str) -> None:
    """Half of the seconds have no point. To look at all points for each took hours."""
    long = {"StartTime": START - timedelta(days=1), "EndTime": START}
    text = f"FILL(TIME_SERIES(1) / (MINUTE(TIME_SERIES(1)) < 30), {how})"
    (found,) = ask({"Id": "e", "Expression": text, "Period": 1}, **long)
    assert len(found["Values"]) >= 24 * 3600 - 30 * 60


@pytest.mark.parametrize(
    "queries",
    [
        # 300 to the power of 3 series.
        ["[" + ",".join(["a"] * 300) + "]", "[" + ",".join(["e0"] * 300) + "]", "[" + ",".join(["e1"] * 300) + "]"],
        ["TIME_SERIES(1)" + "+1" * 100],
        ["TIME_SERIES(1)"] * 60,
    ],
)
def test_a_request_asks_for_a_bounded_amount_of_work(ask: Ask, queries: list[str]) -> None:
    long = {"StartTime": START - timedelta(days=1), "EndTime": START}
    asked = [{"Id": f"e{place}", "Expression": text, "Period": 1} for place, text in enumerate(queries)]
    with pytest.raises(ClientError, match="ask for less") as caught:
        ask(stat("a", "a"), *asked, **long)
    assert caught.value.response["Error"]["Code"] == "ValidationError"


def test_two_queries_of_one_id_are_refused(ask: Ask) -> None:
    """The later one answered for both."""
    with pytest.raises(ClientError, match="The values for parameter id in MetricDataQueries are not unique"):
        ask(stat("m", "a"), stat("m", "b"))


def test_a_query_is_a_metric_or_an_expression(ask: Ask) -> None:
    with pytest.raises(ClientError, match="MetricStat and Expression"):
        ask({**stat("m", "a"), "Expression": "1 + 1"})


# --- GetMetricStatistics ----------------------------------------------------------------------------------------


def statistics(cloudwatch: Any, host: str = "a", **more: Any) -> list[dict[str, Any]]:
    dimensions = [{"Name": "Host", "Value": host}] if host else []
    asked = {
        "Namespace": NAMESPACE, "MetricName": "EvalLoss", "Dimensions": dimensions, "Period": 60,
        "Statistics": ["Average"], **WINDOW, **more,
    }  # fmt: skip
    answer = cloudwatch.get_metric_statistics(**asked)
    assert answer["Label"] == "EvalLoss"
    found: list[dict[str, Any]] = answer["Datapoints"]
    return found


def test_periods_begin_at_the_minute(cloudwatch: Any) -> None:
    """The points are ten seconds later. SDK v2's TrainingJobAnalytics asks so."""
    begun = {"StartTime": START + timedelta(seconds=5), "Period": 120}
    found = statistics(cloudwatch, Statistics=["Average", "SampleCount", "Sum", "Minimum", "Maximum"], **begun)
    assert [one["Timestamp"] for one in found] == [START, START + timedelta(minutes=2)]
    assert [one["Average"] for one in found] == [3.0, 0.75]
    assert found[0] == {
        "Timestamp": START, "Average": 3.0, "SampleCount": 2.0, "Sum": 6.0, "Minimum": 2.0, "Maximum": 4.0,
        "Unit": "None",
    }  # fmt: skip


def test_a_metric_is_the_one_with_these_dimensions(cloudwatch: Any) -> None:
    """As GetMetricData does: a query without dimensions does not add up all hosts."""
    assert [one["Average"] for one in statistics(cloudwatch, "b")] == [8.0, 6.0, 2.0]
    assert [one["Average"] for one in statistics(cloudwatch, "")] == [7.0]
    assert statistics(cloudwatch, "none") == []


def test_percentiles_and_units(cloudwatch: Any) -> None:
    (found,) = statistics(cloudwatch, Statistics=["Maximum"], ExtendedStatistics=["p50", "p100"], Period=300)
    assert (found["Maximum"], found["ExtendedStatistics"]) == (4.0, {"p50": 1.5, "p100": 4.0})
    datum = {"MetricName": "EvalLoss", "Dimensions": [{"Name": "Host", "Value": "a"}], "Timestamp": START, "Value": 9.0}
    cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=[{**datum, "Unit": "Seconds"}])
    assert [one["Average"] for one in statistics(cloudwatch, Unit="Seconds")] == [9.0]
    assert [one["Unit"] for one in statistics(cloudwatch, Period=300)] == ["None", "Seconds"]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"Period": 7}, "InvalidParameterValue"),
        ({"Period": 0}, "InvalidParameterValue"),
        ({"Period": -60}, "InvalidParameterValue"),
        ({"Period": None}, "InvalidParameterValue"),
        ({"MetricName": None}, "InvalidParameterValue"),
        ({"Statistics": ["Median"]}, "InvalidParameterValue"),
        ({"ExtendedStatistics": ["TM(10%:90%)"]}, "InvalidParameterValue"),
        ({"Statistics": []}, "InvalidParameterCombination"),
        ({"EndTime": START}, "InvalidParameterValue"),
        ({"StartTime": START - timedelta(days=2)}, "InvalidParameterCombination"),
        # The server walked through each second of forty years.
        ({"StartTime": datetime(1986, 1, 1, tzinfo=timezone.utc), "Period": 1}, "InvalidParameterCombination"),
    ],
)
def test_statistics_that_are_refused(
    cloudwatch: Any, client: Callable[..., Any], more: dict[str, Any], code: str
) -> None:
    old = {"MetricName": "EvalLoss", "Dimensions": [{"Name": "Host", "Value": "a"}], "Value": 9.0}
    cloudwatch.put_metric_data(
        Namespace=NAMESPACE, MetricData=[{**old, "Timestamp": datetime(1990, 1, 1, tzinfo=timezone.utc)}]
    )
    # As a client sends it that does not look at it before.
    unchecked = client("cloudwatch", parameter_validation=False)
    asked = {
        "Namespace": NAMESPACE, "MetricName": "EvalLoss", "Dimensions": old["Dimensions"], "Period": 60,
        "Statistics": ["Average"], **WINDOW, **more,
    }  # fmt: skip
    with pytest.raises(ClientError) as caught:
        unchecked.get_metric_statistics(**{name: value for name, value in asked.items() if value is not None})
    assert caught.value.response["Error"]["Code"] == code
