"""CloudWatch Logs of training jobs through boto3, as the SDKs read them."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.protocol.aws_errors import LogsInvalidParameter
from sagelet_api.services.logs.patterns import compile_pattern
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.model.job import JobKind
from support.api_world import ApiWorld
from support.world import until

GROUP = "/aws/sagemaker/TrainingJobs"
STREAM = "one/algo-1-1"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        yield running


def refused(call: Any, **parameters: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**{"logGroupName": GROUP, **parameters})
    error = caught.value.response
    assert error["ResponseMetadata"]["HTTPStatusCode"] == 400
    return error["Error"]["Code"], error["Error"]["Message"]


def get(world: ApiWorld, **parameters: Any) -> dict[str, Any]:
    answer: dict[str, Any] = world.logs.get_log_events(**{"logGroupName": GROUP, "logStreamName": STREAM, **parameters})
    return answer


def texts(answer: dict[str, Any]) -> list[str]:
    return [event["message"] for event in answer["events"]]


def numbered(count: int) -> list[str]:
    return [f"line {number}" for number in range(count)]


# --- GetLogEvents ---------------------------------------------------------------------------------------------------


def test_from_the_head_page_by_page(world: ApiWorld) -> None:
    world.stream("one", numbered(10))
    seen, token = [], {}
    for _ in range(5):
        page = get(world, startFromHead=True, limit=4, **token)
        seen.append(texts(page))
        token = {"nextToken": page["nextForwardToken"]}
    assert seen == [numbered(10)[:4], numbered(10)[4:8], numbered(10)[8:], [], []]


def test_without_start_from_head_the_newest_come_first_and_pages_go_back(world: ApiWorld) -> None:
    world.stream("one", numbered(10))
    seen, token = [], {}
    for _ in range(5):
        page = get(world, limit=4, **token)
        seen.append(texts(page))
        token = {"nextToken": page["nextBackwardToken"]}
    assert seen == [numbered(10)[6:], numbered(10)[2:6], numbered(10)[:2], [], []]


def test_tokens_are_stable_and_lead_both_ways(world: ApiWorld) -> None:
    world.stream("one", numbered(10))
    first = get(world, startFromHead=True, limit=3)
    second = get(world, nextToken=first["nextForwardToken"], limit=3)
    assert texts(second) == numbered(10)[3:6]
    assert texts(get(world, nextToken=second["nextBackwardToken"], limit=3)) == texts(first)
    again = get(world, nextToken=first["nextForwardToken"], limit=3)
    assert texts(again) == texts(second)
    assert again["nextForwardToken"] == second["nextForwardToken"]


def test_the_token_of_the_end_comes_back_and_later_yields_what_is_new(world: ApiWorld) -> None:
    stream = world.stream("one", ["a", "b"])
    end = get(world, startFromHead=True)["nextForwardToken"]
    at_end = get(world, startFromHead=True, nextToken=end)
    assert (texts(at_end), at_end["nextForwardToken"]) == ([], end)
    world.say(stream, ["c"], start_ms=9000)
    later = get(world, startFromHead=True, nextToken=end)
    assert texts(later) == ["c"]
    assert later["nextForwardToken"] != end


@pytest.mark.parametrize("from_head", [True, False])
def test_an_empty_stream_has_tokens_that_work_later(world: ApiWorld, from_head: bool) -> None:
    stream = world.stream("one")
    empty = get(world, startFromHead=from_head)
    assert texts(empty) == []
    world.say(stream, ["a"], start_ms=9000)
    assert texts(get(world, nextToken=empty["nextForwardToken"])) == ["a"]
    assert texts(get(world, nextToken=empty["nextBackwardToken"])) == []


def test_the_start_is_included_and_the_end_is_not(world: ApiWorld) -> None:
    world.stream("one", numbered(5), start_ms=1000, step_ms=10)
    assert texts(get(world, startTime=1010, endTime=1030, startFromHead=True)) == ["line 1", "line 2"]
    assert texts(get(world, startTime=1010, limit=1)) == ["line 4"]
    assert texts(get(world, startTime=2**62, endTime=2**63 - 1)) == []


def test_a_page_has_at_most_a_mebibyte_of_events_and_26_bytes_each(world: ApiWorld) -> None:
    size = 1_048_576 // 4 - 26
    world.stream("one", [f"{number}{'x' * (size - 1)}" for number in range(6)])
    page = get(world, startFromHead=True)
    assert [text[0] for text in texts(page)] == ["0", "1", "2", "3"]
    assert [text[0] for text in texts(get(world, nextToken=page["nextForwardToken"]))] == ["4", "5"]
    assert [text[0] for text in texts(get(world))] == ["2", "3", "4", "5"]


def test_an_event_larger_than_a_page_comes_alone(world: ApiWorld) -> None:
    world.stream("one", ["ü" * 600_000, "small"])
    page = get(world, startFromHead=True)
    assert len(page["events"]) == 1
    assert texts(get(world, nextToken=page["nextForwardToken"])) == ["small"]


def test_ten_thousand_events_are_a_page(world: ApiWorld) -> None:
    world.stream("one", numbered(10_001))
    assert len(get(world, startFromHead=True)["events"]) == 10_000


@pytest.mark.parametrize(
    "garbage", ["x", "12", "f/", "f/x", "g/1", "f/-1", "f/٣", f"f/{2**70}", f"b/{'9' * 56}", "f/" + "1" * 5000, "f/1\n"]
)
def test_a_token_that_is_not_ours_is_refused(world: ApiWorld, garbage: str) -> None:
    world.stream("one", ["a"])
    answer = refused(world.logs.get_log_events, logStreamName=STREAM, nextToken=garbage)
    assert answer == ("InvalidParameterException", "The specified nextToken is invalid.")


def test_what_is_not_there_is_said_to_be_missing(world: ApiWorld) -> None:
    missing_group = ("ResourceNotFoundException", "The specified log group does not exist.")
    missing_stream = ("ResourceNotFoundException", "The specified log stream does not exist.")
    assert refused(world.logs.describe_log_streams) == missing_group
    assert refused(world.logs.filter_log_events) == missing_group
    assert refused(world.logs.get_log_events, logStreamName="none")[0] == "ResourceNotFoundException"
    world.stream("one", ["a"])
    assert refused(world.logs.get_log_events, logStreamName="none") == missing_stream
    assert refused(world.logs.get_log_events, logStreamName="one") == missing_stream
    assert refused(world.logs.filter_log_events, logStreamNames=[STREAM, "none"]) == missing_stream


def test_the_log_of_a_job_that_ran(world: ApiWorld) -> None:
    world.create("ran")
    host = world.host("ran")
    host.say("hello")
    host.end(0)
    world.ended("ran")
    (stream,) = world.logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix="ran/")["logStreams"]
    assert stream["logStreamName"] == f"ran/algo-1-{host.handle.started_ms // 1000}"
    (event,) = get(world, logStreamName=stream["logStreamName"])["events"]
    assert event["message"] == "hello"
    assert event["timestamp"] == stream["firstEventTimestamp"] == stream["lastEventTimestamp"]


# --- groups and streams ---------------------------------------------------------------------------------------------


def test_the_group_is_there_with_its_first_stream(world: ApiWorld) -> None:
    assert world.logs.describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"] == []
    world.stream("one", ["abc"])
    (group,) = world.logs.describe_log_groups(logGroupNamePrefix="/aws/sagemaker/")["logGroups"]
    assert (group["logGroupName"], group["storedBytes"], group["creationTime"]) == (GROUP, 3, 1000)
    assert world.client("logs", region="eu-west-1").describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"] == []


def streams(answer: dict[str, Any]) -> list[str]:
    return [stream["logStreamName"].partition("/")[0] for stream in answer["logStreams"]]


def test_a_next_token_only_when_more_remain_than_were_asked_for(world: ApiWorld) -> None:
    for name in "abc":
        world.stream(name)
    ask = world.logs.describe_log_streams
    two = ask(logGroupName=GROUP, limit=2)
    assert streams(two) == ["a", "b"]
    last = ask(logGroupName=GROUP, limit=2, nextToken=two["nextToken"])
    assert (streams(last), "nextToken" in last) == (["c"], False)
    assert "nextToken" not in ask(logGroupName=GROUP, limit=3)
    assert "nextToken" not in ask(logGroupName=GROUP, logStreamNamePrefix="a/", limit=1)


@pytest.mark.parametrize("order", ["LogStreamName", "LastEventTime"])
@pytest.mark.parametrize("descending", [False, True])
def test_every_stream_is_met_once_in_order(world: ApiWorld, order: str, descending: bool) -> None:
    times = {"a": 3000, "b": 1000, "c": 2000, "d": 2000}
    for name, time in times.items():
        world.stream(name, ["x"], start_ms=time)
    world.stream("silent")
    pages = world.logs.get_paginator("describe_log_streams").paginate(
        logGroupName=GROUP, orderBy=order, descending=descending, PaginationConfig={"PageSize": 2}
    )
    found = [name for page in pages for name in streams(page)]
    expected = ["a", "b", "c", "d", "silent"] if order == "LogStreamName" else ["silent", "b", "c", "d", "a"]
    assert found == (expected[::-1] if descending else expected)


def test_streams_made_between_two_pages_shift_nothing(world: ApiWorld) -> None:
    for name in "bcde":
        world.stream(name)
    first = world.logs.describe_log_streams(logGroupName=GROUP, limit=2)
    world.stream("a")
    rest = world.logs.describe_log_streams(logGroupName=GROUP, limit=2, nextToken=first["nextToken"])
    assert streams(first) + streams(rest) == ["b", "c", "d", "e"]


def test_time_order_and_a_prefix_do_not_go_together(world: ApiWorld) -> None:
    world.stream("one")
    parameters = {"orderBy": "LastEventTime", "logStreamNamePrefix": "o"}
    assert refused(world.logs.describe_log_streams, **parameters) == (
        "InvalidParameterException", "Cannot order by LastEventTime with a logStreamNamePrefix.",
    )  # fmt: skip


@pytest.mark.parametrize("garbage", ["x", "WzEsMl0=", "WzFd", "5"])
def test_a_token_for_streams_or_events_that_is_not_ours_is_refused(world: ApiWorld, garbage: str) -> None:
    world.stream("one", ["a"])
    for call in (world.logs.describe_log_streams, world.logs.filter_log_events):
        assert refused(call, nextToken=garbage) == (
            "InvalidParameterException", "The specified nextToken is invalid.",
        )  # fmt: skip


def test_ten_thousand_streams_are_looked_up_by_index(world: ApiWorld) -> None:
    with world.engine._store._connection() as db:
        for condition in ("name = ?", "name >= ? ORDER BY name LIMIT 5"):
            plan = db.execute(
                f"EXPLAIN QUERY PLAN SELECT * FROM log_streams WHERE account = ? AND region = ? AND {condition}",
                ("a", "r", "n"),
            ).fetchall()
            assert "USING INDEX" in plan[0][3]
            assert len(plan) == 1
    statements: list[str] = []
    world.stream("one", ["a"])
    # A thread that uses the store at the same time may have the connection that is traced.
    world.engine._outbox.close()
    world.engine._outbox.join()
    with world.engine._store._connection() as db:
        db.set_trace_callback(statements.append)
    for _ in range(3):
        get(world)
    assert len([line for line in statements if "log_streams" in line]) == 3
    assert all("name = 'one/algo-1-1'" in line for line in statements if "log_streams" in line)


# --- FilterLogEvents ------------------------------------------------------------------------------------------------


def interleaved(world: ApiWorld) -> list[str]:
    for offset, name in enumerate("ab"):
        world.stream(name, [f"{name}{number}" for number in range(5)], start_ms=1000 + offset, step_ms=2)
    return [f"{name}{number}" for number in range(5) for name in "ab"]


def test_events_of_several_streams_come_by_time(world: ApiWorld) -> None:
    expected = interleaved(world)
    answer = world.logs.filter_log_events(logGroupName=GROUP)
    assert texts(answer) == expected
    assert "nextToken" not in answer
    assert [event["logStreamName"][0] for event in answer["events"]] == list("ab" * 5)
    assert len({event["eventId"] for event in answer["events"]}) == 10


@pytest.mark.parametrize("limit", [1, 3, 5, 9, 10])
def test_filtered_pages_join_without_gap_or_double(world: ApiWorld, limit: int) -> None:
    expected = interleaved(world)
    pages = list(
        world.logs.get_paginator("filter_log_events").paginate(logGroupName=GROUP, PaginationConfig={"PageSize": limit})
    )
    assert [text for page in pages for text in texts(page)] == expected
    assert len(pages) == -(-10 // limit)


def test_streams_and_times_narrow_the_search(world: ApiWorld) -> None:
    interleaved(world)
    ask = world.logs.filter_log_events
    assert texts(ask(logGroupName=GROUP, logStreamNames=["b/algo-1-1"], limit=2)) == ["b0", "b1"]
    assert texts(ask(logGroupName=GROUP, logStreamNamePrefix="a/", startTime=1004, endTime=1006)) == ["a2", "a3"]
    assert texts(ask(logGroupName=GROUP, startTime=5000)) == []
    assert refused(ask, logStreamNames=["b/algo-1-1"], logStreamNamePrefix="a")[0] == "InvalidParameterException"


def test_a_filtered_page_has_at_most_a_mebibyte(world: ApiWorld) -> None:
    world.stream("one", ["x" * 300_000] * 5)
    page = world.logs.filter_log_events(logGroupName=GROUP)
    assert len(page["events"]) == 3
    rest = world.logs.filter_log_events(logGroupName=GROUP, nextToken=page["nextToken"])
    assert len(rest["events"]) == 2
    assert "nextToken" not in rest


# --- whose group ----------------------------------------------------------------------------------------------------


def test_other_groups_are_motos(world: ApiWorld) -> None:
    world.stream("one", ["ours"])
    other = f"mine{GROUP}"
    world.logs.create_log_group(logGroupName=other)
    world.logs.create_log_stream(logGroupName=other, logStreamName="s")
    assert streams(world.logs.describe_log_streams(logGroupName=other)) == ["s"]
    endpoints = "/aws/sagemaker/Endpoints/mine"
    world.logs.create_log_group(logGroupName=endpoints)
    (found,) = world.logs.describe_log_groups(logGroupNamePrefix=endpoints)["logGroups"]
    assert found["logGroupName"] == endpoints
    until(lambda: world.logs.delete_log_group(logGroupName=other))
    world.logs.delete_log_group(logGroupName=endpoints)


def test_the_group_by_its_arn(world: ApiWorld) -> None:
    world.stream("one", ["ours"])
    arn = f"arn:aws:logs:us-east-1:123456789012:log-group:{GROUP}"
    for identifier in (arn, GROUP):
        answer = world.logs.get_log_events(logGroupIdentifier=identifier, logStreamName=STREAM)
        assert texts(answer) == ["ours"]
    foreign = arn.replace("123456789012", "210987654321")
    with pytest.raises(ClientError):
        world.logs.get_log_events(logGroupIdentifier=foreign, logStreamName=STREAM)


def test_accounts_see_their_own_logs_only(world: ApiWorld) -> None:
    world.stream("one", ["ours"])
    other = world.client("logs", account="210987654321")
    with pytest.raises(ClientError, match="The specified log stream does not exist"):
        other.get_log_events(logGroupName=GROUP, logStreamName=STREAM)


# --- FilterLogEvents with a pattern ---------------------------------------------------------------------------------

LINES = [
    "[ERROR 400] BAD REQUEST",
    "[ERROR 401] UNAUTHORIZED REQUEST",
    "[INFO] started",
    '{"level": "warn", "loss": 0.5, "step": 7, "tags": ["a", "b"], "user": {"name": "ann"}, "last": null, "ok": true}',
    '{"level": "info", "loss": 2, "code": "400"}',
    'said "hello, world" 100%',
]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", [0, 1, 2, 3, 4, 5]),
        ("  ", [0, 1, 2, 3, 4, 5]),
        ("ERROR", [0, 1]),
        ("error", []),
        ("ERROR 401", [1]),
        ("AUTHORIZED", [1]),
        ('"BAD REQUEST"', [0]),
        ('"ERROR 401] UN" REQUEST', [1]),
        (r'"said \"hello"', [5]),
        ("?INFO ?BAD", [0, 2]),
        ('?"BAD REQUEST" ?said', [0, 5]),
        ("ERROR -BAD", [1]),
        ("-ERROR", [2, 3, 4, 5]),
        ('-ERROR -"level"', [2, 5]),
        ("REQUEST ?BAD", [0, 1]),
        ("%ERROR 40[02]%", [0]),
        (r"%^.INFO. s.arted$%", [2]),
        ("REQUEST -%40[02]%", [1]),
        ('{ $.level = "warn" }', [3]),
        ("{ $.level = warn }", [3]),
        ('{ $.level = "w*" }', [3]),
        ("{ $.level != warn }", [4]),
        ("{ $.loss > 1 }", [4]),
        ("{ $.loss >= 0.5 && $.loss < 2e0 }", [3]),
        ("{ $.loss = 2 || $.loss <= 0.5 }", [3, 4]),
        ("{ $.step = 7 && ($.loss = 9 || $.user.name = %^an+$%) }", [3]),
        ('{ $.tags[1] = "b" }', [3]),
        ("{ $.last IS NULL }", [3]),
        ("{ $.ok IS TRUE }", [3]),
        ("{ $.ok IS FALSE }", []),
        ("{ $.code NOT EXISTS }", [3]),
        ("{ $.missing = 1 }", []),
        ("{ $.code = 400 }", [4]),
        ("{ $.tags[7] = b }", []),
        ("[kind, what, rest]", [0, 1, 5]),
        ("[kind = ERROR*, what]", []),
        ("[kind = ERROR*, ...]", [0, 1]),
        ("[kind = %^ERROR 40[12]$%, what, rest]", [1]),
        ("[..., last = REQUEST]", [0, 1]),
        ("[kind = INFO || kind = WARN, ...]", [2]),
        ("[kind != INFO && kind != ERROR*, ..., percent]", [3, 4, 5]),
        ('[said, what = "hello, world", percent]', [5]),
    ],
)
def test_a_filter_pattern(world: ApiWorld, pattern: str, found: list[int]) -> None:
    world.stream("one", LINES)
    answer = world.logs.filter_log_events(logGroupName=GROUP, filterPattern=pattern)
    assert [LINES.index(text) for text in texts(answer)] == found
    assert "nextToken" not in answer


@pytest.mark.parametrize(
    "pattern",
    [
        '"open', "%open", "?", "a - b",
        "%(a)%", "%a!%", "%[%", "%a{100000}%", "{ $.a = 1", "{ }", "{ a = 1 }", "{ $.a }", "{ $.a ~ 1 }",
        "{ $.a > x }", "{ ($.a = 1 }", "{ $.a = 1 ) }", "{ $.a IS 7 }", "{ $.a NOT 7 }", "{ $.a = }", "{ $a[ = 1 }",
        "[a, b", "[a,, b]", "[]", "[a, ..., b, ...]", '[a, b = "x]', "[a ~ 1]", "[a, $.b = 1]", "[a = ]",
    ],
)  # fmt: skip
def test_a_filter_pattern_that_cannot_be_read_is_refused(world: ApiWorld, pattern: str) -> None:
    world.stream("one", LINES)
    code, message = refused(world.logs.filter_log_events, filterPattern=pattern)
    assert code == "InvalidParameterException"
    assert message.startswith("Invalid filter pattern: ")


@pytest.mark.parametrize(
    ("pattern", "message", "matches"),
    [
        # As regular expressions these would take longer than anybody waits, and let no other thread work meanwhile.
        ('{ $.a = "' + "*a" * 400 + '*b" }', '{"a": "' + "a" * 100_000 + '"}', False),
        ('{ $.a = "' + "*a" * 400 + '*" }', '{"a": "' + "a" * 100_000 + '"}', True),
        ("[a, ..., b]", "[ " * 100_000, True),
        ("[a, ..., b = x]", '" [ ' * 100_001, False),
    ],
)
def test_a_long_message_takes_linear_work(pattern: str, message: str, matches: bool) -> None:
    test = compile_pattern(pattern)
    assert test is not None
    assert test(message) is matches


@pytest.mark.parametrize(
    ("text", "value", "equal"),
    [
        ("a*b", "ab", True), ("a*b", "a", False), ("a*a", "a", False), ("*", "", True), ("**", "x", True),
        ("", "", True), ("*a*b*", "xaxbx", True), ("*a*b*", "xbxax", False), ("a*b*c", "abc", True),
        ("ab*bc", "abc", False), ("a*bc*c", "abc", False), ("a*bc*c", "abcc", True), ("x", 5, False), ("*", 5, False),
        ("a\nb*", "a\nb\nc", True),
    ],
)  # fmt: skip
def test_asterisks_of_a_text(text: str, value: Any, equal: bool) -> None:
    test = compile_pattern(f'{{ $.a = "{text}" }}')
    assert test is not None
    assert test(json.dumps({"a": value})) is equal


def test_a_field_that_is_not_closed_is_a_word() -> None:
    test = compile_pattern('[a = "[x", b = "y z", c]')
    assert test is not None
    assert test('[x "y z" "w')


@pytest.mark.parametrize("number", ["1_000", "\u0661\u0660\u0660\u0660", "\uff11000"])
def test_what_only_python_reads_as_a_number_is_a_text(number: str) -> None:
    """The same grammar as for metrics: neither `1_000` nor digits of other scripts."""
    for pattern in (f"{{ $.a = {number} }}", f"{{ $.a >= {number} }}"):
        try:
            test = compile_pattern(pattern)
        except LogsInvalidParameter:
            continue
        assert test is not None
        assert not test('{"a": 1000}')
    test, plain = compile_pattern("[a >= 10]"), compile_pattern("{ $.a = 1e3 }")
    assert test is not None
    assert plain is not None
    assert (test(number), test("1000"), plain('{"a": 1000}')) == (False, True, True)


def test_no_pattern_makes_the_server_fail() -> None:
    random = Random(7)
    pieces = [
        *'{}[]()"%$?-=!<>&|*\\., ',
        "&&",
        "||",
        "$.a",
        "$.a[0]",
        "IS",
        "NULL",
        "NOT",
        "EXISTS",
        "...",
        "w",
        "1e3",
        "ü",
    ]
    messages = ["", "w 1 2", '{"a": [1, {"b": null}]}', "{" * 2000, '{"a": NaN}', '[w] "1"']
    read = 0
    for number in range(20_000):
        inner = "".join(random.choices(pieces, k=random.randrange(1, 12)))
        text = (inner, f"{{ {inner} }}", f"[{inner}]", f"{{ $.a = {inner} }}", f"[a, b = {inner}]")[number % 5]
        try:
            matches = compile_pattern(text)
        except LogsInvalidParameter:
            continue
        read += 1
        for message in messages:
            assert matches is None or matches(message) in (True, False)
    assert read > 1000


def test_a_pattern_of_parentheses_only_is_refused(world: ApiWorld) -> None:
    world.stream("one", LINES)
    pattern = "{" + "(" * 1000 + "}"
    assert refused(world.logs.filter_log_events, filterPattern=pattern)[0] == "InvalidParameterException"


def test_a_regular_expression_that_backtracks_for_ever_is_refused(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagelet_api.services.logs.json_patterns.TIMEOUT_S", 0.3)
    world.stream("one", ["a" * 3000 + "!"])
    code, message = refused(world.logs.filter_log_events, filterPattern="%a*a*a*a*a*a*a*[bc]%")
    assert (code, "takes longer" in message) == ("InvalidParameterException", True)


def test_pages_of_a_pattern_join_without_gap_or_double(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagelet_api.services.logs.service.SCAN_EVENTS", 7)
    world.stream("one", numbered(100))
    pages = list(
        world.logs.get_paginator("filter_log_events").paginate(
            logGroupName=GROUP, filterPattern="%line .*3$%", PaginationConfig={"PageSize": 2}
        )
    )
    assert [text for page in pages for text in texts(page)] == [f"line {tens or ''}3" for tens in range(10)]
    assert any(not page["events"] for page in pages[:-1])
    assert "nextToken" not in pages[-1]


def test_newest_first_and_an_end_that_is_included(world: ApiWorld) -> None:
    expected = interleaved(world)[::-1]
    pages = world.logs.get_paginator("filter_log_events").paginate(
        logGroupName=GROUP, startFromHead=False, PaginationConfig={"PageSize": 3}
    )
    assert [text for page in pages for text in texts(page)] == expected
    assert texts(world.logs.filter_log_events(logGroupName=GROUP, endTime=1001)) == ["a0", "b0"]
    assert len(texts(world.logs.filter_log_events(logGroupName=GROUP, endTime=2**63 - 1))) == 10


def test_following_as_the_aws_cli_does_gives_every_event_once(world: ApiWorld) -> None:
    """`aws logs tail --follow` (version 2): from the newest time on again and again, leaving out ids it has seen."""
    first, second = world.stream("a", ["a0", "a1"], start_ms=1000), world.stream("b", ["b0"], start_ms=1001)
    seen: dict[str, str] = {}

    def poll(**parameters: Any) -> None:
        start = max((event["timestamp"] for event in events), default=0)
        token: dict[str, str] = {}
        while True:
            page = world.logs.filter_log_events(
                logGroupName=GROUP, startTime=start, interleaved=True, **token, **parameters
            )
            events.extend(page["events"])
            for event in page["events"]:
                assert seen.setdefault(event["eventId"], event["message"]) == event["message"]
            if "nextToken" not in page:
                return
            token = {"nextToken": page["nextToken"]}

    events: list[dict[str, Any]] = []
    for _ in range(2):
        poll(limit=2)
    first = world.say(first, ["a2", "a3"], start_ms=1001, step_ms=0)
    poll()
    world.say(second, ["b1"], start_ms=1001)
    world.say(first, ["a4"], start_ms=1002)
    for _ in range(2):
        poll()
    assert list(seen.values()) == ["a0", "a1", "b0", "a2", "a3", "b1", "a4"]


# --- the group as a whole -------------------------------------------------------------------------------------------


def group_names(world: ApiWorld, **parameters: Any) -> list[str]:
    pages = world.logs.get_paginator("describe_log_groups").paginate(**parameters)
    return [group["logGroupName"] for page in pages for group in page["logGroups"]]


def test_groups_of_jobs_and_motos_are_one_sorted_list(world: ApiWorld, account: str) -> None:
    logs = world.logs = world.client("logs", account=account)
    world.logs.create_log_group(logGroupName=GROUP)
    for name in ("/aws/lambda/f", "/aws/sagemaker/Endpoints/e", "zebra", "Alpha"):
        logs.create_log_group(logGroupName=name)
    expected = ["/aws/lambda/f", "/aws/sagemaker/Endpoints/e", GROUP, "Alpha", "zebra"]
    for size in (1, 2, 3, 50):
        assert group_names(world, PaginationConfig={"PageSize": size}) == expected
    assert group_names(world, logGroupNamePrefix="/aws/sagemaker") == expected[1:3]
    found = logs.describe_log_groups(logGroupNamePattern="sagemaker/T")["logGroups"]
    assert [set(group) for group in found] == [{"arn", "creationTime", "logGroupName"}]
    assert group_names(world, logGroupClass="INFREQUENT_ACCESS") == []
    parameters = {"logGroupNamePattern": "a", "logGroupNamePrefix": "b"}
    with pytest.raises(ClientError, match="mutually exclusive"):
        logs.describe_log_groups(**parameters)
    with pytest.raises(ClientError, match="The specified nextToken is invalid"):
        logs.describe_log_groups(nextToken="x")


@pytest.fixture
def account() -> str:
    """An account of one's own: moto's groups outlive a test."""
    return str(uuid.uuid4().int)[:12]


def test_a_group_that_is_made_before_the_first_job(world: ApiWorld) -> None:
    world.logs.create_log_group(logGroupName=GROUP, tags={"team": "a"})
    assert refused(world.logs.create_log_group)[0] == "ResourceAlreadyExistsException"
    assert world.logs.describe_log_streams(logGroupName=GROUP)["logStreams"] == []
    assert world.logs.list_tags_log_group(logGroupName=GROUP)["tags"] == {"team": "a"}
    arn = f"arn:aws:logs:us-east-1:123456789012:log-group:{GROUP}"
    world.logs.tag_resource(resourceArn=arn, tags={"x": "1", "y": "2"})
    world.logs.untag_log_group(logGroupName=GROUP, tags=["team"])
    world.logs.untag_resource(resourceArn=arn, tagKeys=["y"])
    world.restart()
    assert world.engine.log_groups.get("123456789012", "us-east-1", JobKind.TRAINING).tags == {"x": "1"}  # type: ignore[union-attr]


def test_tags_have_a_limit(world: ApiWorld) -> None:
    world.stream("one", ["a"])
    world.logs.tag_log_group(logGroupName=GROUP, tags={str(number): "" for number in range(50)})
    assert refused(world.logs.tag_log_group, tags={"one more": ""})[0] == "TooManyTagsException"


DAY_MS = 86_400_000


def test_events_older_than_the_retention_are_neither_shown_nor_kept(world: ApiWorld) -> None:
    now = world.clock.now_ms()
    old = world.stream("one", ["old"], start_ms=now - 8 * DAY_MS)
    world.say(old, ["young"], start_ms=now - DAY_MS)
    world.logs.put_retention_policy(logGroupName=GROUP, retentionInDays=7)
    (group,) = world.logs.describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"]
    assert (group["retentionInDays"], group["storedBytes"]) == (7, len("young"))
    assert texts(get(world, startFromHead=True)) == ["young"]
    assert texts(world.logs.filter_log_events(logGroupName=GROUP)) == ["young"]
    (stream,) = world.logs.describe_log_streams(logGroupName=GROUP)["logStreams"]
    assert stream["firstEventTimestamp"] == now - DAY_MS
    world.logs.delete_retention_policy(logGroupName=GROUP)
    assert "retentionInDays" not in world.logs.describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"][0]
    assert texts(get(world, startFromHead=True)) == ["young"], "what was removed stays away"


def test_an_event_that_grows_too_old_is_not_shown_and_is_gone_after_a_restart(world: ApiWorld) -> None:
    world.stream("one", ["a"], start_ms=world.clock.now_ms())
    world.logs.put_retention_policy(logGroupName=GROUP, retentionInDays=1)
    assert texts(get(world)) == ["a"]
    world.clock.turn(86_401)
    assert texts(get(world)) == []
    assert texts(world.logs.filter_log_events(logGroupName=GROUP)) == []
    world.restart()
    count = "SELECT count(*) FROM log_events"
    until(lambda: world.engine._store._rows(count) == [(0,)])
    assert world.engine.log_groups.get("123456789012", "us-east-1", JobKind.TRAINING).retention_days == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("days", [0, 2, 10_000])
def test_a_retention_that_aws_does_not_have_is_refused(world: ApiWorld, days: int) -> None:
    world.stream("one", ["a"])
    code, message = refused(world.logs.put_retention_policy, retentionInDays=days)
    assert code == "InvalidParameterException"
    assert f"Value '{days}' at 'retentionInDays' failed to satisfy constraint" in message


def test_a_group_that_is_not_there_cannot_be_changed(world: ApiWorld) -> None:
    missing = ("ResourceNotFoundException", "The specified log group does not exist.")
    assert refused(world.logs.put_retention_policy, retentionInDays=7) == missing
    assert refused(world.logs.delete_retention_policy) == missing
    assert refused(world.logs.delete_log_group) == missing
    assert refused(world.logs.list_tags_log_group) == missing
    assert refused(world.logs.delete_log_stream, logStreamName="x") == missing


def test_a_deleted_stream_of_a_job_that_runs_comes_back_with_its_next_line(world: ApiWorld) -> None:
    world.create("ran")
    host = world.host("ran")
    host.say("before")
    until(lambda: world.engine.logs.streams("123456789012", "us-east-1") and world.log("ran") == ["before"])
    name = world.engine.logs.streams("123456789012", "us-east-1")[0].name
    world.logs.delete_log_stream(logGroupName=GROUP, logStreamName=name)
    assert refused(world.logs.get_log_events, logStreamName=name)[0] == "ResourceNotFoundException"
    assert world.logs.describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"] == []
    host.say("after")
    until(lambda: world.engine.logs.streams("123456789012", "us-east-1"))
    assert texts(get(world, logStreamName=name, startFromHead=True)) == ["after"]
    (group,) = world.logs.describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"]
    assert group["storedBytes"] == len("after")
    host.end(0)
    assert world.ended("ran").status.value == "Completed"


def test_a_deleted_group_takes_streams_retention_and_tags_with_it(world: ApiWorld) -> None:
    world.stream("one", ["a"])
    world.logs.put_retention_policy(logGroupName=GROUP, retentionInDays=3653)
    world.logs.delete_log_group(logGroupName=GROUP)
    assert refused(world.logs.describe_log_streams)[0] == "ResourceNotFoundException"
    world.logs.create_log_group(logGroupName=GROUP)
    (group,) = world.logs.describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"]
    assert ("retentionInDays" in group, group["storedBytes"]) == (False, 0)
    assert world.logs.describe_log_streams(logGroupName=GROUP)["logStreams"] == []


def test_the_logs_of_a_deleted_job_are_gone(world: ApiWorld) -> None:
    world.create("ran")
    world.host("ran").say("hello")
    world.host("ran").end(0)
    world.ended("ran")
    world.sagemaker.delete_training_job(TrainingJobName="ran")
    assert refused(world.logs.describe_log_streams)[0] == "ResourceNotFoundException"


def test_what_the_group_does_not_have_is_refused_by_name(world: ApiWorld) -> None:
    world.stream("one", ["a"])
    query = {"startTime": 0, "endTime": 9, "queryString": "fields @message"}
    for parameters in ({"logGroupName": GROUP}, {"logGroupNames": [GROUP]}, {"logGroupIdentifiers": [GROUP]}):
        with pytest.raises(ClientError, match=r"InvalidParameterException.*sagelet does not have StartQuery"):
            world.logs.start_query(**query, **parameters)
    event = {"timestamp": 1, "message": "m"}
    code, message = refused(world.logs.put_log_events, logStreamName=STREAM, logEvents=[event])
    assert (code, "PutLogEvents" in message) == ("InvalidParameterException", True)
    assert "CreateLogStream" in refused(world.logs.create_log_stream, logStreamName="x")[1]
    assert world.logs.describe_subscription_filters(logGroupName=GROUP)["subscriptionFilters"] == []


def test_a_broken_constraint_is_an_invalid_parameter(world: ApiWorld) -> None:
    world.stream("one", ["a"])
    assert refused(world.logs.get_log_events, logStreamName=STREAM, limit=10_001) == (
        "InvalidParameterException",
        "1 validation error detected: Value '10001' at 'limit' failed to satisfy constraint:"
        " Member must have value less than or equal to 10000",
    )
    with pytest.raises(ClientError, match=r"InvalidParameterException.*'logStreamName'"):
        world.logs.get_log_events(logGroupName=GROUP)


def test_numbers_in_space_delimited_fields(world: ApiWorld) -> None:
    lines = ["GET 200 1500", "GET 404 20", "PUT 500 -", "GET 200"]
    world.stream("one", lines)

    def found(pattern: str) -> list[str]:
        return texts(world.logs.filter_log_events(logGroupName=GROUP, filterPattern=pattern))

    assert found("[verb, status >= 400, bytes]") == lines[1:3]
    assert found("[verb, status, bytes > 100]") == lines[:1]
    assert found("[verb, status = 4*, bytes]") == lines[1:2]
    assert found("[verb, status = 200.0, ...]") == [lines[0], lines[3]]
    assert found("[verb, status = 200 || status = 500, bytes]") == [lines[0], lines[2]]
