"""Lines: how many a second come in, how long until a client sees one, and how fast a long log is read."""

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench import runtimes
from bench.runtimes import User
from bench.tables import Bar, Scale, Table
from bench.training import BUCKET, GROUP, Account, Cost, is_over, log_lines, quantile, spread, until, watched

METRICS = [{"Name": "loss", "Regex": "loss=([0-9.]+)"}, {"Name": "lr", "Regex": "lr=([0-9.e-]+)"}]
LINES_BAR, LAG_BAR_S = 50_000, 1.0
#: Begins a line that says when it was printed.
MARK = "printed at "
#: Prints a mark every so many seconds, and lines of 100 bytes after it. What a request can carry is short.
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
RUN_PRINTER = "import os; exec(os.environ['PRINTER'])"


@dataclass(frozen=True)
class Plan:
    #: Of each job that prints as fast as it can.
    lines: int
    rounds: int
    #: Of the log that is read.
    long: int
    #: Of a lag, and seconds between two.
    marks: int
    every_s: float
    #: Lines after each mark of a busy log.
    noise: int


PLANS = {
    Scale.FULL: Plan(500_000, 3, 1_000_000, 500, 0.04, 400),
    Scale.SHORT: Plan(10_000, 1, 20_000, 20, 0.04, 50),
}


def run(scale: Scale) -> list[Table]:
    plan = PLANS[scale]
    places, absent = runtimes.found()
    with (
        tempfile.TemporaryDirectory(prefix="bench-logs-") as directory,
        runtimes.servers(places, Path(directory)) as users,
    ):
        for lines in (plan.lines, plan.long):
            _upload_lines(lines, Path(directory), users)
        return [_ingest(plan, users, absent), _lag(plan, users, absent), _paging(plan, users[0])]


# --- in ---------------------------------------------------------------------------------------------------------------


@dataclass
class Taken:
    """What several jobs with as many lines took."""

    rates: list[float] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    seen: int = 0
    out_of_order: int = 0


def _ingest(plan: Plan, users: list[User], absent: dict[str, str]) -> Table:
    found: dict[str, Taken] = {}
    for _ in range(plan.rounds):
        for user in users:
            for title, metrics in (("no metric definition", []), ("two metric definitions", METRICS)):
                taken = found.setdefault(f"{user.place.name}, {title}", Taken())
                _take_in(plan.lines, user, metrics, taken)
    rows = [_ingest_row(plan, *one) for one in found.items()]
    return Table(
        "Lines in",
        ("runtime, job", "lines/s", "min-max", "server CPU us a line", "server's memory grows, MiB", "lines seen"),
        (*rows, *((name, f"left out: {why}", "", "", "", "") for name, why in absent.items())),
        f"`cat` of {plan.lines:,} lines of 100 bytes, of which one in ten has both metrics; from the time of the first "
        f"line until a client that asks ten times a second has seen the last. Median of {plan.rounds} jobs each, in "
        "turns. Memory is the most that a job added.",
        tuple(Bar(f"lines/s, {name}", median(taken.rates), LINES_BAR) for name, taken in found.items()),
        {
            "lines": sum(taken.seen for taken in found.values()),
            "lines planned": plan.lines * plan.rounds * len(found),
            "lines out of order": sum(taken.out_of_order for taken in found.values()),
        },
    )


def _ingest_row(plan: Plan, name: str, taken: Taken) -> tuple[str | float | int, ...]:
    cpu = median(cost.cpu_s for cost in taken.costs) / plan.lines * 1e6
    growth = max(cost.growth_mib for cost in taken.costs)
    return name, round(median(taken.rates)), spread(taken.rates, 0), round(cpu, 1), round(growth), taken.seen


def _upload_lines(lines: int, directory: Path, users: list[User]) -> None:
    path = directory / "lines"
    log_lines(path, lines)
    for user in users:
        user.account.s3.upload_file(str(path), BUCKET, f"{lines}/lines")


def _cat(lines: int, user: User, metrics: list[dict[str, str]]) -> str:
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/{lines}/"}
    channel = {"ChannelName": "text", "DataSource": {"S3DataSource": source}}
    command = ["cat", "/opt/ml/input/data/text/lines"]
    return user.account.submit(command, image=user.place.tiny_image, metrics=metrics, InputDataConfig=[channel])


def _take_in(lines: int, user: User, metrics: list[dict[str, str]], taken: Taken) -> None:
    account = user.account
    with watched(user.process) as cost:
        name = _cat(lines, user, metrics)
        stream = account.stream(name)
        last = f"{lines - 1:07d}"

        def seen() -> bool:
            events = account.page(stream, limit=1)["events"]
            return bool(events) and events[0]["message"].startswith(last)

        until(f"the last line of {name}", seen, every_s=0.1)
        end = time.time()
    account.ended(name)
    first = account.page(stream, startFromHead=True, limit=1)["events"][0]["timestamp"] / 1000
    taken.rates.append(lines / (end - first))
    taken.costs.append(cost)
    numbers = [int(line[:7]) for line in account.lines(name)]
    taken.seen += len(numbers)
    taken.out_of_order += sum(number != wanted for wanted, number in enumerate(numbers))


# --- lag --------------------------------------------------------------------------------------------------------------


def _lag(plan: Plan, users: list[User], absent: dict[str, str]) -> Table:
    lags: dict[str, list[float]] = {}
    for user in users:
        if user.place.python is None:
            absent = {**absent, user.place.name: user.place.without_python}
            continue
        for title, noise in (("quiet", 0), (f"{round(plan.noise / plan.every_s):,} lines/s beside it", plan.noise)):
            lags[f"{user.place.name}, {title}"] = _lags(plan, noise, user.account, user.place.python, user.place.image)
    return Table(
        "Lag from print to GetLogEvents",
        ("runtime, log", "p50 ms", "p99 ms", "max ms", "lines measured"),
        (
            *((name, *_milliseconds(seconds), len(seconds)) for name, seconds in lags.items()),
            *((name, f"left out: {why}", "", "", "") for name, why in absent.items()),
        ),
        f"A script prints the time every {plan.every_s * 1000:.0f} ms, {plan.marks} times; a boto3 client reads the "
        "whole log, page after page, with 10 ms between two calls.",
        tuple(
            Bar(f"p99 s, {name}", quantile(seconds, 0.99), LAG_BAR_S, at_most=True) for name, seconds in lags.items()
        ),
        {"marks": sum(map(len, lags.values())), "marks planned": plan.marks * len(lags)},
    )


def _milliseconds(seconds: list[float]) -> tuple[int, int, int]:
    p50, p99, most = quantile(seconds, 0.5), quantile(seconds, 0.99), max(seconds)
    return round(p50 * 1000), round(p99 * 1000), round(most * 1000)


def _lags(plan: Plan, noise: int, account: Account, python: str, image: str) -> list[float]:
    environment = {"PRINTER": PRINTER, "PLAN": str((plan.marks, plan.every_s, noise))}
    name = account.submit([python, "-u", "-c", RUN_PRINTER], image=image, Environment=environment)
    stream, token, lags = account.stream(name), {}, []
    while True:
        over = is_over(account.describe(name))
        page = account.page(stream, startFromHead=True, **token)
        now = time.time()
        told = [event["message"] for event in page["events"] if event["message"].startswith(MARK)]
        lags += [now - float(line.removeprefix(MARK)) for line in told]
        if over and not page["events"]:
            return lags
        token = {"nextToken": page["nextForwardToken"]}
        time.sleep(0.01)


# --- out --------------------------------------------------------------------------------------------------------------


@dataclass
class Read:
    """A whole log, read page by page."""

    lines: int = 0
    pages_s: list[float] = field(default_factory=list)

    def page(self, events: list[Any], seconds: float) -> None:
        self.lines += len(events)
        self.pages_s.append(seconds)


def _paging(plan: Plan, user: User) -> Table:
    account = user.account
    name = _cat(plan.long, user, [])
    account.ended(name)
    stream = account.stream(name)
    reads = {
        "GetLogEvents, from the head": lambda: _got(account, stream, forward=True),
        "GetLogEvents, from the tail": lambda: _got(account, stream, forward=False),
        "FilterLogEvents": lambda: _filtered(account, stream, ""),
        "FilterLogEvents, a word of one line in ten": lambda: _filtered(account, stream, "loss"),
        "FilterLogEvents, a word of no line": lambda: _filtered(account, stream, "absent"),
    }
    found = {}
    for title, read in reads.items():
        with watched(user.process) as cost:
            found[title] = read(), cost
    seen = [read.lines for read, _ in found.values()]
    return Table(
        f"A log of {plan.long:,} lines, read",
        ("how", "lines", "pages", "s", "page p50 ms", "page p99 ms", "page max ms", "server's memory grows, MiB"),
        tuple((title, *_read_row(*one)) for title, one in found.items()),
        "One boto3 client, which takes its part of the time of a page: 10,000 lines or 1 MiB. Spread is of the pages.",
        counts={
            "lines": sum(seen),
            "lines planned": plan.long * 3 + plan.long // 10,
        },
    )


def _read_row(read: Read, cost: Cost) -> tuple[str | float | int, ...]:
    pages = len(read.pages_s)
    return read.lines, pages, round(sum(read.pages_s), 1), *_milliseconds(read.pages_s), round(cost.growth_mib)


def _got(account: Account, stream: str, *, forward: bool) -> Read:
    read, begin = Read(), time.perf_counter()
    for events in account.pages(stream, forward=forward):
        read.page(events, time.perf_counter() - begin)
        begin = time.perf_counter()
    return read


def _filtered(account: Account, stream: str, pattern: str) -> Read:
    read, token = Read(), {}
    while True:
        begin = time.perf_counter()
        page = account.logs.filter_log_events(
            logGroupName=GROUP, logStreamNames=[stream], filterPattern=pattern, **token
        )
        read.page(page["events"], time.perf_counter() - begin)
        if "nextToken" not in page:
            return read
        token = {"nextToken": page["nextToken"]}
