"""CloudWatch Logs of training jobs through boto3, as the SDKs read them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto_bridge import MotoBridge
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
    world.engine._announcer.close()
    world.engine._announcer.join()
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
    assert texts(ask(logGroupName=GROUP, logStreamNamePrefix="a/", startTime=1004, endTime=1008)) == ["a2", "a3"]
    assert texts(ask(logGroupName=GROUP, startTime=5000)) == []
    assert refused(ask, logStreamNames=["b/algo-1-1"], logStreamNamePrefix="a")[0] == "InvalidParameterException"
    assert "filterPattern" in refused(ask, filterPattern="x")[1]


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
