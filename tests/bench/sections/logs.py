"""Lines: how many a second come in, how long until a client sees one, and how fast a long log is read."""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.servers import Cost, Place, places, watched
from bench.tables import Bar, Figure, Row, Scale, Table, in_turns, percentiles_ms
from support.jobs import Jobs
from support.server import ENDED, GROUP, until

HEADS = (
    ("runtime, job", "lines/s", "server CPU us a line", "server's memory grows, MiB", "promised"),
    ("runtime, log", "p50 ms", "p99 ms", "max ms", "promised"),
    ("how", "lines", "pages", "s", "page p50 ms", "page p99 ms", "server's memory grows, MiB"),
)
METRICS = {
    "no metric definition": [],
    "two metric definitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}, {"Name": "lr", "Regex": "lr=([0-9.e-]+)"}],
}
#: Begins a line with the time at which it was printed.
MARK = "printed at "
#: Prints marks at an interval, each with lines of 100 bytes after it. It is short, because a request holds little.
PRINTER = """
import os, sys, time
marks, every, noise = eval(os.environ["PLAN"])
begin = time.time()
text = ("x" * 99 + "\\n") * noise
for n in range(marks):
    time.sleep(max(0, begin + n * every - time.time()))
    sys.stdout.write(f"printed at {time.time():.6f}\\n{text}")
    sys.stdout.flush()
"""


class Plan(NamedTuple):
    #: Lines of each job that prints as fast as it can.
    lines: int
    rounds: int
    #: Lines of the log that is read.
    long: int
    #: Marks of a lag, and seconds between two.
    marks: int
    every_s: float
    #: Lines after each mark of a busy log.
    noise: int


PLANS = {
    Scale.FULL: Plan(500_000, 3, 1_000_000, 500, 0.04, 400),
    Scale.SHORT: Plan(10_000, 1, 20_000, 20, 0.04, 50),
}


def run(scale: Scale, directory: Path) -> list[Table]:
    plan = PLANS[scale]
    with places(directory) as (users, absent):
        for lines in (plan.lines, plan.long):
            _upload_lines(lines, directory / "lines", users)
        return [_ingest(plan, users, absent), _lag(plan, users), _paging(plan, users[0])]


# --- in ---------------------------------------------------------------------------------------------------------------


class Taken(NamedTuple):
    """The lines of one job, as the server took them in."""

    rate: float
    cost: Cost
    seen: int
    out_of_order: int


def _ingest(plan: Plan, users: list[Place], absent: list[str]) -> Table:
    runs = {
        (place.name, title): partial(_take_in, plan.lines, place, metrics)
        for place in users
        for title, metrics in METRICS.items()
    }
    found = in_turns(plan.rounds, runs)
    conditions = (
        f"`cat` of {plan.lines:,} lines of 100 bytes, of which one in ten has both metrics; from the time of the first "
        f"line until a client that asks ten times a second has seen the last. Median of {plan.rounds} jobs each, in "
        "turns. Memory is the most that a job added."
    )
    rows = [_ingest_row(plan, *key, taken) for key, taken in found.items()]
    every = [one for taken in found.values() for one in taken]
    counts = {
        "lines": (sum(one.seen for one in every), plan.lines * plan.rounds * len(found)),
        "order errors": (sum(one.out_of_order for one in every), 0),
    }
    return Table("Lines in", HEADS[0], rows, " ".join([conditions, *absent]), counts)


def _ingest_row(plan: Plan, name: str, title: str, taken: list[Taken]) -> Row:
    rate = Figure.of([one.rate for one in taken])
    cpu = median(one.cost.cpu for one in taken) / plan.lines * 1e6
    growth = max(one.cost.growth_mb for one in taken)
    # The job with metrics is the harder one.
    return f"{name}, {title}", rate, cpu, round(growth), Bar("lines/s", rate, 50_000) if METRICS[title] else ""


def _upload_lines(count: int, path: Path, users: list[Place]) -> None:
    """Lines that begin with their number. Both metric definitions match one in ten."""
    with path.open("w") as file:
        for number in range(count):
            found = f" loss={1 / (number + 1):.6f} lr=5e-05" if number % 10 == 0 else ""
            file.write(f"{number:07d}{found} ".ljust(99, "x") + "\n")
    for place in users:
        place.shell.s3.upload_file(str(path), "tests", f"{count}/lines")


def _cat(lines: int, place: Place, metrics: list[dict[str, str]]) -> tuple[str, str]:
    """Starts a job that prints them. Returns its name and its log stream."""
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://tests/{lines}/"}
    channel = {"ChannelName": "text", "DataSource": {"S3DataSource": source}}
    name = place.shell.start("cat /opt/ml/input/data/text/lines", metrics=metrics, InputDataConfig=[channel])
    return name, _stream(place.shell, name)


def _stream(jobs: Jobs, name: str) -> str:
    return str(until(lambda: jobs.streams(name), seconds=600)[0]["logStreamName"])


def _page(jobs: Jobs, stream: str, **options: Any) -> dict[str, Any]:
    page: dict[str, Any] = jobs.logs.get_log_events(logGroupName=GROUP, logStreamName=stream, **options)
    return page


def _take_in(lines: int, place: Place, metrics: list[dict[str, str]]) -> Taken:
    jobs, last = place.shell, f"{lines - 1:07d}"
    with watched(place.server.process) as cost:
        name, stream = _cat(lines, place, metrics)

        def seen() -> bool:
            events = _page(jobs, stream, limit=1)["events"]
            return bool(events) and events[0]["message"].startswith(last)

        until(seen, seconds=600, every=0.1)
        end = time.time()
    jobs.ended(name)
    first = _page(jobs, stream, startFromHead=True, limit=1)["events"][0]["timestamp"] / 1000
    numbers = [int(line[:7]) for line in jobs.log(name)]
    out_of_order = sum(number != wanted for wanted, number in enumerate(numbers))
    return Taken(lines / (end - first), cost, len(numbers), out_of_order)


# --- lag --------------------------------------------------------------------------------------------------------------


def _lag(plan: Plan, users: list[Place]) -> Table:
    noises = {"quiet": 0, f"{round(plan.noise / plan.every_s):,} lines/s beside it": plan.noise}
    rows: list[Row] = []
    marks = 0
    for place in users:
        for title, noise in noises.items():
            seconds = _lags(plan, noise, place)
            p50, p99, most = percentiles_ms(seconds, 50, 99, 100)
            promised = Bar("p99 ms", p99, 1000, at_most=True) if noise else ""
            rows.append((f"{place.name}, {title}", round(p50), round(p99), round(most), promised))
            marks += len(seconds)
    conditions = (
        f"A script prints the time every {plan.every_s * 1000:.0f} ms, {plan.marks} times; a boto3 client reads the "
        "whole log, page after page, with 10 ms between two calls."
    )
    return Table(
        "Lag from print to GetLogEvents", HEADS[1], rows, conditions, {"marks": (marks, plan.marks * len(rows))}
    )


def _lags(plan: Plan, noise: int, place: Place) -> list[float]:
    python = sys.executable if place.name == "process" else "python3"
    environment = {"PYTHON": python, "PRINTER": PRINTER, "PLAN": str((plan.marks, plan.every_s, noise))}
    jobs = place.training
    name = jobs.start('exec $PYTHON -u -c "$PRINTER"', environment=environment)
    stream, lags = _stream(jobs, name), []
    token: dict[str, str] = {}
    while True:
        over = jobs.describe(name)["TrainingJobStatus"] in ENDED
        page = _page(jobs, stream, startFromHead=True, **token)
        now = time.time()
        marks = [event["message"] for event in page["events"] if event["message"].startswith(MARK)]
        lags += [now - float(line.removeprefix(MARK)) for line in marks]
        if over and not page["events"]:
            return lags
        token = {"nextToken": page["nextForwardToken"]}
        time.sleep(0.01)


# --- out --------------------------------------------------------------------------------------------------------------

Pages = Iterator[list[dict[str, Any]]]


def _paging(plan: Plan, place: Place) -> Table:
    name, stream = _cat(plan.long, place, [])
    jobs = place.shell
    jobs.ended(name)
    ways: dict[str, Callable[[], Pages]] = {
        "GetLogEvents, from the head": lambda: _got(jobs, stream, forward=True),
        "GetLogEvents, from the tail": lambda: _got(jobs, stream, forward=False),
        "FilterLogEvents": lambda: _filtered(jobs, stream, ""),
        "FilterLogEvents, a word of one line in ten": lambda: _filtered(jobs, stream, "loss"),
        "FilterLogEvents, a word of no line": lambda: _filtered(jobs, stream, "absent"),
    }
    rows = [_read_row(place, way, pages) for way, pages in ways.items()]
    conditions = "One boto3 client, which takes its part of the time of a page: 10,000 lines or 1 MiB."
    counts = {"lines": (sum(int(str(row[1])) for row in rows), plan.long * 3 + plan.long // 10)}
    return Table(f"A log of {plan.long:,} lines, read", HEADS[2], rows, conditions, counts)


def _read_row(place: Place, way: str, pages: Callable[[], Pages]) -> Row:
    lines, took = 0, []
    with watched(place.server.process) as cost:
        begin = time.perf_counter()
        for events in pages():
            took.append(time.perf_counter() - begin)
            lines += len(events)
            begin = time.perf_counter()
    p50, p99 = percentiles_ms(took, 50, 99)
    return way, lines, len(took), sum(took), round(p50), round(p99), round(cost.growth_mb)


def _got(jobs: Jobs, stream: str, *, forward: bool) -> Pages:
    token: dict[str, str] = {}
    while (page := _page(jobs, stream, startFromHead=forward, **token))["events"]:
        yield page["events"]
        token = {"nextToken": page["nextForwardToken" if forward else "nextBackwardToken"]}


def _filtered(jobs: Jobs, stream: str, pattern: str) -> Pages:
    wanted = {"logGroupName": GROUP, "logStreamNames": [stream], "filterPattern": pattern}
    for page in jobs.logs.get_paginator("filter_log_events").paginate(**wanted):
        yield page["events"]
