"""The store: what is durable, guarded, ordered, and what a crash leaves."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest

from sagelet_engine.base.database import MOST_IDLE, DatabaseDamaged, StoreUnavailable, UnknownSchema
from sagelet_engine.base.errors import JobNameInUse, JobNotFound
from sagelet_engine.model import lifecycle, training
from sagelet_engine.model.job import JobStatus, PoolStatus, SecondaryStatus, StopCause, WarmPool
from sagelet_engine.model.listing import JobQuery, ListedJob, SortBy
from sagelet_engine.model.log_events import LogEvent
from sagelet_engine.model.search import Condition, Group, JobSearch, Kind, Operator, Property
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.store import logs as sql_append
from sagelet_engine.store import search as sql_search
from sagelet_engine.store.jobs import StaleRecord, Store
from support.world import key, request

ACCOUNT, REGION = "123456789012", "us-east-1"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "sagelet.db")


def add(store: Store, name: str, created_ms: int = 1000, job_id: str = "", **where: str) -> TrainingJob:
    job_key = replace(key(name), **where)
    job = training.create(job_key, job_id or f"id-{name}", request(name), {}, created_ms)
    store.insert(job)
    return job


def end(store: Store, job: TrainingJob) -> TrainingJob:
    return store.update(lifecycle.advance(job, SecondaryStatus.FAILED, job.modified_ms + 10, failure_reason="x"))


def names(store: Store, **query: Any) -> list[str]:
    return [job.key.name for job in store.page(JobQuery(ACCOUNT, REGION, **{"limit": 100, **query})).jobs]


# --- jobs -----------------------------------------------------------------------------------------------------------


def test_a_record_comes_back_whole(store: Store) -> None:
    body = request("One", HyperParameters={"text": '"x y" ü \U0001f600'}, Environment={"A": ""})
    job = training.create(key("One"), "id", body, {"k": "v", "a": "b"}, 1000)
    job = lifecycle.advance(job, SecondaryStatus.DOWNLOADING, 2000, gpus=("GPU-1", "GPU-2"), stand_in="s", image="i")
    job = lifecycle.request_stop(job, StopCause.USER, 3000)
    store.insert(job)
    assert store.get(key("oNE")) == store.get_by_id("id") == job


def test_a_name_is_taken_without_regard_to_case_in_its_account_and_region_only(store: Store) -> None:
    add(store, "One")
    with pytest.raises(JobNameInUse):
        add(store, "oNe", job_id="other")
    add(store, "One", job_id="b", account="210987654321")
    add(store, "One", job_id="c", region="eu-west-1")
    assert names(store) == ["One"]


def test_unknown_jobs_are_said_to_be_unknown(store: Store) -> None:
    with pytest.raises(JobNotFound):
        store.get(key("none"))
    with pytest.raises(JobNotFound):
        store.get_by_id("none")


def test_a_record_with_attempts_comes_back_whole(store: Store) -> None:
    job = training.create(key("one"), "id", request("one", EnableManagedSpotTraining=True), {}, 1000, 0.5)
    for step, now in ((SecondaryStatus.DOWNLOADING, 2000), (SecondaryStatus.INTERRUPTED, 3000)):
        job = lifecycle.advance(job, step, now)
    job = lifecycle.advance(lifecycle.restart(job, 4000), SecondaryStatus.DOWNLOADING, 5000)
    store.insert(job)
    assert store.get_by_id("id") == job
    assert (job.attempt, job.launch_id, job.running_ms(6000)) == (2, "id-2", 3000)


def test_an_update_of_an_older_version_is_refused(store: Store) -> None:
    job = add(store, "one")
    newer = store.update(lifecycle.advance(job, SecondaryStatus.PENDING, 2000))
    assert newer.version == job.version + 1
    with pytest.raises(StaleRecord):
        store.update(lifecycle.advance(job, SecondaryStatus.DOWNLOADING, 3000))
    assert store.get(key("one")) == newer


def test_of_many_threads_that_update_one_job_one_wins_each_round(store: Store) -> None:
    job = add(store, "one")
    barrier = threading.Barrier(16)

    def attempt(number: int) -> TrainingJob | None:
        barrier.wait()
        try:
            return store.update(replace(job, stand_in=str(number)))
        except StaleRecord:
            return None

    with ThreadPoolExecutor(16) as pool:
        won = [done for done in pool.map(attempt, range(16)) if done]
    assert won == [store.get(key("one"))]


def test_many_threads_insert_and_read_at_once(store: Store) -> None:
    def work(number: int) -> str:
        job = add(store, f"job-{number:03}", created_ms=1000 + number)
        store.page(JobQuery(ACCOUNT, REGION))
        return store.get(job.key).key.name

    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(work, range(100)))
    assert names(store) == made
    assert store.counts() == {"InProgress": 100}


def test_jobs_survive_the_store(store: Store, tmp_path: Path) -> None:
    add(store, "one")
    store.close()
    assert names(Store(tmp_path / "sagelet.db")) == ["one"]


def test_unfinished_jobs_of_all_accounts_come_oldest_first(store: Store) -> None:
    add(store, "late", 3000)
    add(store, "early", 1000, account="210987654321")
    end(store, add(store, "ended", 2000))
    add(store, "same-time", 3000, job_id="a")
    assert [job.key.name for job in store.unfinished()] == ["early", "late", "same-time"]


# --- lists ----------------------------------------------------------------------------------------------------------


def twelve(store: Store) -> None:
    """Twelve jobs, three to a creation time; every third has failed."""
    for number in range(12):
        job = add(store, f"job-{(number * 5) % 12:02}", 1000 + number // 3)
        if number % 3 == 0:
            end(store, job)


@pytest.mark.parametrize("sort_by", list(SortBy))
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 5, 12, 13])
def test_pages_join_to_the_whole_list_ties_or_not(store: Store, sort_by: SortBy, ascending: bool, limit: int) -> None:
    twelve(store)
    whole = names(store, sort_by=sort_by, ascending=ascending)
    query = JobQuery(ACCOUNT, REGION, sort_by=sort_by, ascending=ascending, limit=limit)
    paged: list[str] = []
    while True:
        page = store.page(query)
        paged += [job.key.name for job in page.jobs]
        if page.next is None:
            break
        query = replace(query, after=page.next)
    assert paged == whole
    assert len(set(paged)) == 12


@pytest.mark.parametrize("sort_by", list(SortBy))
def test_a_listing_has_the_jobs_of_the_page(store: Store, sort_by: SortBy) -> None:
    twelve(store)
    query = JobQuery(ACCOUNT, REGION, sort_by=sort_by, limit=5)
    pool = WarmPool(PoolStatus.AVAILABLE, "cluster", 5, available_ms=7)
    store.update(replace(store.page(query).jobs[2], warm_pool=pool, training_end_ms=9))
    whole, listing = store.page(query), store.listing(query)
    shown = [tuple(getattr(job, name, None) for name in ListedJob._fields) for job in whole.jobs]
    assert listing.jobs == shown
    assert listing.next == whole.next
    assert (pool, 9) in [(job.warm_pool, job.training_end_ms) for job in listing.jobs]


def test_a_row_that_cannot_be_listed_is_said_to_be_damaged(store: Store) -> None:
    """A record that was unreadable when its columns were made leaves them empty."""
    add(store, "one")
    with store._write() as db:
        db.execute("UPDATE jobs SET secondary = ''")
    with pytest.raises(DatabaseDamaged, match="the row of job id-one cannot be read"):
        store.listing(JobQuery(ACCOUNT, REGION))


def test_a_list_in_the_usual_order_reads_an_index_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[str] = []
    rows = store._rows

    def explained(sql: str, parameters: Any) -> list[Any]:
        plans.extend(row[3] for row in rows(f"EXPLAIN QUERY PLAN {sql}", parameters))
        return rows(sql, parameters)

    monkeypatch.setattr(store, "_rows", explained)
    store.listing(JobQuery(ACCOUNT, REGION, status=JobStatus.COMPLETED, created_after_ms=5))
    assert [plan.partition(" (")[0] for plan in plans if " jobs" in plan] == [
        "SEARCH jobs USING COVERING INDEX jobs_by_creation"
    ]
    assert "TEMP B-TREE" not in " ".join(plans)


@pytest.mark.parametrize(
    "condition",
    [
        Condition(Property((("TrainingJobStatus",),), Kind.TEXT), Operator.EQUALS, "Completed"),
        Condition(Property((("HyperParameters",),), Kind.PARAMETER, key="epochs"), Operator.GREATER_THAN, "2"),
        Condition(Property((("Tags",),), Kind.TEXT, key="team"), Operator.NOT_EQUALS, "blue"),
    ],
    ids=lambda condition: condition.property.segments[0][0],
)
@pytest.mark.parametrize("sort_by", ["CreationTime", "LastModifiedTime"])
def test_a_search_passes_by_the_records(store: Store, condition: Condition, sort_by: str) -> None:
    """They are kilobytes each: with ten thousand jobs it would take ten times as long."""
    asked = JobSearch(ACCOUNT, REGION, Group((condition,)), sort_by=Property(((sort_by,),), Kind.TIME))
    text, parameters = sql_search.search(asked)
    plan = [row[3] for row in store._rows(f"EXPLAIN QUERY PLAN {text}", parameters)]
    assert [step.partition(" (")[0] for step in plan if " jobs" in step] == [
        "SEARCH jobs USING COVERING INDEX jobs_by_creation"
    ]


@pytest.mark.parametrize("ascending", [True, False])
def test_lists_are_sorted(store: Store, ascending: bool) -> None:
    twelve(store)
    assert names(store, sort_by=SortBy.NAME, ascending=ascending) == sorted(names(store), reverse=not ascending)
    for sort_by, value in ((SortBy.CREATION_TIME, "created_ms"), (SortBy.STATUS, "status")):
        page = store.page(JobQuery(ACCOUNT, REGION, sort_by=sort_by, ascending=ascending, limit=100))
        values = [getattr(job, value) for job in page.jobs]
        assert values == sorted(values, reverse=not ascending)


def test_the_default_order_is_by_creation(store: Store) -> None:
    for number in (3, 1, 2):
        add(store, f"job-{number}", number)
    assert names(store) == ["job-1", "job-2", "job-3"]


def test_jobs_made_between_two_pages_neither_hide_nor_double_others(store: Store) -> None:
    twelve(store)
    before = names(store)
    first = store.page(JobQuery(ACCOUNT, REGION, limit=5))
    for job_id in ("0", "zzz"):
        add(store, f"new-{job_id}", first.jobs[-1].created_ms, job_id=job_id)
    rest = store.page(JobQuery(ACCOUNT, REGION, limit=100, after=first.next))
    seen = [job.key.name for job in (*first.jobs, *rest.jobs)]
    assert [name for name in seen if not name.startswith("new")] == before
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"created_after_ms": 1000}, {"b", "Cab"}),
        ({"created_before_ms": 3000}, {"a", "b"}),
        ({"created_after_ms": 1000, "created_before_ms": 3000}, {"b"}),
        ({"modified_after_ms": 2009}, {"b", "Cab"}),
        ({"modified_before_ms": 2010}, {"a"}),
        ({"name_contains": "B"}, {"b", "Cab"}),
        ({"name_contains": ""}, {"a", "b", "Cab"}),
        ({"name_contains": "%"}, set()),
        ({"status": JobStatus.FAILED}, {"b"}),
        ({"status": JobStatus.IN_PROGRESS, "name_contains": "c"}, {"Cab"}),
    ],
)
def test_filters(store: Store, filters: dict[str, Any], expected: set[str]) -> None:
    add(store, "a", 1000)
    end(store, add(store, "b", 2000))
    add(store, "Cab", 3000)
    add(store, "ab", 2000, job_id="other", region="eu-west-1")
    assert set(names(store, **filters)) == expected


def test_a_filter_applies_before_the_page_is_cut(store: Store) -> None:
    for number in range(20):
        add(store, f"{'odd' if number % 2 else 'even'}-{number:02}", number)
    page = store.page(JobQuery(ACCOUNT, REGION, name_contains="odd", limit=3))
    assert [job.key.name for job in page.jobs] == ["odd-01", "odd-03", "odd-05"]
    assert page.next is not None


# --- tags -----------------------------------------------------------------------------------------------------------


def test_tags_are_added_replaced_and_deleted(store: Store) -> None:
    job = training.create(key("one"), "id", request("one"), {"a": "1"}, 1000)
    store.insert(job)
    store.put_tags("id", {"a": "2", "b": "3"}, 50)
    assert store.get(key("one")).tags == {"a": "2", "b": "3"}
    store.delete_tags("id", ["a", "absent"])
    assert store.get(key("one")).tags == {"b": "3"}


def test_tags_do_not_stand_in_the_way_of_an_update(store: Store) -> None:
    job = add(store, "one")
    store.put_tags(job.id, {"a": "1"}, 50)
    moved = store.update(lifecycle.advance(job, SecondaryStatus.PENDING, 2000))
    assert moved.version == 1
    assert store.get(key("one")).tags == {"a": "1"}


def test_calls_of_a_job_that_was_deleted_meanwhile_are_not_throttled(store: Store) -> None:
    job = end(store, add(store, "one"))
    assert [store.throttle(job.id, 2) for _ in range(3)] == [True, True, False]
    store.delete(job)
    assert not store.throttle(job.id, 9)


# --- logs and metrics -----------------------------------------------------------------------------------------------


def test_a_stream_is_opened_once(store: Store) -> None:
    job = add(store, "one")
    stream = store.open_stream(job, "algo-1", "one/algo-1-1", 1000)
    store.append_output(stream, [LogEvent(1000, "x")], "p", [], 1001)
    again = store.open_stream(job, "algo-1", "one/algo-1-2", 2000)
    assert (again.id, again.name, again.position, again.events) == (stream.id, "one/algo-1-1", "p", 1)


def test_times_never_go_back_within_a_stream(store: Store) -> None:
    stream = store.open_stream(add(store, "one"), "algo-1", "s", 1000)
    stream = store.append_output(stream, [LogEvent(5000, "a"), LogEvent(4000, "b")], "2", [], 9000)
    stream = store.append_output(stream, [LogEvent(3000, "c"), LogEvent(6000, "d")], "4", [], 9001)
    events = store.logs.events(stream, limit=10)
    assert [(event.seq, event.time_ms, event.text) for event in events] == [
        (0, 5000, "a"), (1, 5000, "b"), (2, 5000, "c"), (3, 6000, "d"),
    ]  # fmt: skip
    assert (stream.first_ms, stream.last_ms, stream.ingested_ms, stream.events) == (5000, 6000, 9001, 4)


def test_lines_points_and_position_are_kept_together_or_not_at_all(store: Store) -> None:
    job = add(store, "one")
    stream = store.open_stream(job, "algo-1", "s", 1000)
    after = store.append_output(stream, [LogEvent(1000, "a")], "1", [MetricPoint("m", 1.0, 1000)], 1000)
    clash = replace(after, events=0)
    with pytest.raises(sqlite3.IntegrityError):
        store.append_output(clash, [LogEvent(1001, "b")], "2", [MetricPoint("m", 2.0, 1001)], 1001)
    assert store.open_stream(job, "algo-1", "s", 1000) == after
    assert [event.text for event in store.logs.events(stream, limit=10)] == ["a"]
    assert [point.value for point in store.last_points(job.id)] == [1.0]


@pytest.mark.parametrize("number", [0, 1, sql_append.ROWS - 1, sql_append.ROWS, 2 * sql_append.ROWS + 7])
def test_any_number_of_lines_may_come_at_once(store: Store, number: int) -> None:
    stream = store.open_stream(add(store, "one"), "algo-1", "s", 1000)
    for offset in (0, number):
        lines = [LogEvent(2000 + offset + line, f"line {offset + line}") for line in range(number)]
        stream = store.append_output(stream, lines, "p", [], 3000)
    expected = [LogEvent(2000 + seq, f"line {seq}", seq, 3000) for seq in range(2 * number)]
    assert store.logs.events(stream, limit=2 * number + 1) == expected
    assert (stream.events, stream.ingested_ms) == (2 * number, 3000 if number else None)


def test_any_text_can_be_kept(store: Store) -> None:
    stream = store.open_stream(add(store, "one"), "algo-1", "s", 1000)
    texts = ["", "\0", "a\rb", "\ufffd", "\U0001f600" * 1000]
    stream = store.append_output(stream, [LogEvent(1000, text) for text in texts], "1", [], 1000)
    assert [event.text for event in store.logs.events(stream, limit=10)] == texts
    assert stream.bytes == sum(len(text.encode()) for text in texts)


def test_the_last_value_of_each_metric_counts(store: Store) -> None:
    job = add(store, "one")
    stream = store.open_stream(job, "algo-1", "s", 1000)
    for value in (1.0, 3.0, 2.0):
        points = [MetricPoint("loss", value, 1000), MetricPoint("acc", -value, 1000)]
        stream = store.append_output(stream, [], None, points, 1000)
    assert [(point.name, point.value) for point in store.last_points(job.id)] == [("acc", -2.0), ("loss", 2.0)]
    assert [(where.name, len(points)) for where, points in store.newest_points(store.known_points(9999), 100)] == [
        ("one", 6)
    ]


def test_points_of_the_newest_jobs_go_to_cloudwatch_again(store: Store) -> None:
    for name in ("one", "two", "without", "three"):
        stream = store.open_stream(add(store, name), "algo-1", f"{name}/algo-1-1", 1000)
        if name != "without":
            store.append_output(stream, [], None, [MetricPoint("loss", value, 1000) for value in range(4)], 1000)

    def found(most: int) -> list[str]:
        return [where.name for where, _ in store.newest_points(store.known_points(9999), most)]

    assert found(100) == ["one", "two", "three"]
    assert found(8) == ["two", "three"]
    assert found(5) == ["two", "three"]
    assert found(4) == ["three"]


def test_points_that_come_later_are_not_among_the_known(store: Store) -> None:
    job = add(store, "one")
    stream = store.open_stream(job, "algo-1", "one/algo-1-1", 1000)

    def say(time_ms: int) -> None:
        store.append_output(stream, [], None, [MetricPoint("loss", time_ms, time_ms)], time_ms)
        store.points.put_host(job.id, [MetricPoint("CPUUtilization", time_ms, time_ms, "algo-1")])

    say(1000)
    known = store.known_points(2000)
    say(2000)
    ((_, points),) = store.newest_points(known, 100)
    assert [(point.name, point.value) for point in points] == [("loss", 1000), ("CPUUtilization", 1000)]


def test_streams_are_found_by_prefix_taken_literally(store: Store) -> None:
    for name in ("a_b", "a-b", "aXb"):
        store.open_stream(add(store, name), "algo-1", f"{name}/algo-1-1", 1000)
    store.open_stream(add(store, "a-b", job_id="far", region="eu-west-1"), "algo-1", "a-b/algo-1-1", 1000)
    assert [stream.name for stream in store.logs.streams(ACCOUNT, REGION, "a_")] == ["a_b/algo-1-1"]
    assert [stream.name for stream in store.logs.streams(ACCOUNT, REGION)] == [
        "a-b/algo-1-1", "aXb/algo-1-1", "a_b/algo-1-1",
    ]  # fmt: skip


# --- the file -------------------------------------------------------------------------------------------------------


def test_a_new_file_has_a_log(store: Store, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "sagelet.db") as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_database_that_stays_locked_is_unavailable(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = add(store, "one")
    store.close()
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **options: connect(path, **{**options, "timeout": 0.05}))
    impatient = Store(tmp_path / "sagelet.db")
    other = connect(tmp_path / "sagelet.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        impatient.update(job)
    assert impatient.get(key("one")) == job
    other.execute("ROLLBACK")
    other.close()
    assert impatient.update(job).version == 1


def open_files(path: Path) -> list[str]:
    return [file.path for file in psutil.Process().open_files() if file.path.startswith(str(path))]


def test_a_closed_store_has_no_file_open_even_when_it_was_in_use(store: Store, tmp_path: Path) -> None:
    add(store, "one")
    with store._write() as db:
        store.close()
        db.execute("SELECT 1")
    assert open_files(tmp_path) == []


def test_connections_of_a_rush_are_not_kept(store: Store) -> None:
    with ExitStack() as rush:
        for _ in range(3 * MOST_IDLE):
            rush.enter_context(store._connection())
    assert store.counts() == {}
    assert len(store._idle) == MOST_IDLE


def test_a_refused_file_is_not_left_open(store: Store, tmp_path: Path) -> None:
    store.close()
    with sqlite3.connect(tmp_path / "sagelet.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(UnknownSchema):
        Store(tmp_path / "sagelet.db")
    assert open_files(tmp_path) == []


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_merged_events_are_in_order_whatever_lies_between_them(store: Store, newest_first: bool, limit: int) -> None:
    random = Random(limit)
    expected, streams = [], []
    for number in range(3):
        job = add(store, f"job-{number}")
        stream = store.open_stream(job, "algo-1", f"job-{number}/algo-1-1", 0)
        times = sorted(random.choice((1, 60_000, 10**7, 10**11)) * random.randrange(5) for _ in range(30))
        store.append_output(stream, [LogEvent(time, "x") for time in times], None, [], 0)
        streams.append(stream)
        expected += [(time, stream.id, seq) for seq, time in enumerate(times)]
    found: list[tuple[int, int, int]] = []
    after: tuple[int, ...] = ()
    while True:
        page = store.logs.merged_events(
            streams, start_ms=0, end_ms=2**62, limit=limit, after=after, newest_first=newest_first
        )
        found += [(event.time_ms, stream_id, event.seq) for stream_id, event in page.events]
        if page.place is None:
            break
        assert page.place == found[-1]
        after = page.place
    assert found == sorted(expected, reverse=newest_first)
