"""The API against moto_server, with as many jobs in both."""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import boto3
import psutil
from botocore.config import Config

from bench import calls, load, many_jobs, servers
from bench.calls import CREATE, DESCRIBE, KINDS, LIST, SEARCH, SEARCH_PROPERTY, Kind
from bench.load import Outcome
from bench.tables import Bar, Scale, Table

HEAD = (
    "clients", "server", "calls", "p50 ms", "p99 ms", "calls/s", "calls/s, min to max", "CPU ms a call", "RSS MB",
    "connection errors", "moto / sagelet",
)  # fmt: skip
#: What the design promises: of calls/s.
RATIOS = {CREATE: 8, DESCRIBE: 15}
#: Of the 99th percentile of one client, in milliseconds.
LIMITS = {LIST: 20, SEARCH: 100, SEARCH_PROPERTY: 100}


#: From so many clients on one round is enough.
MOST_CLIENTS = 1000
#: Calls of a kind before those that count.
WARM_UP = 2


@dataclass(frozen=True)
class Plan:
    jobs: int
    rounds: int
    #: Number of calls in a round, by clients.
    ours: dict[int, int]
    theirs: dict[int, int]


PLANS = {
    Scale.FULL: Plan(10_000, 3, {1: 200, 16: 480, 1000: 1000}, {1: 60, 16: 160, 1000: 1000}),
    Scale.SHORT: Plan(100, 1, {1: 10, 16: 32, 100: 100}, {1: 3, 16: 16, 100: 100}),
}


@dataclass
class Server:
    name: str
    endpoint: str
    process: psutil.Process
    plan: dict[int, int]


@dataclass
class Found:
    """One kind of call with so many clients, against one server."""

    server: str
    rounds: list[Outcome] = field(default_factory=list)
    cpu: float = 0.0
    rss: float = 0.0

    @property
    def all(self) -> Outcome:
        return Outcome(
            [one for outcome in self.rounds for one in outcome.seconds],
            sum(outcome.elapsed for outcome in self.rounds),
            sum(outcome.connection_errors for outcome in self.rounds),
            sum(outcome.wrong for outcome in self.rounds),
            next((outcome.excerpt for outcome in self.rounds if outcome.excerpt), ""),
        )

    @property
    def rate(self) -> float:
        return median(outcome.rate for outcome in self.rounds)


def run(scale: Scale) -> list[Table]:
    plan = PLANS[scale]
    with tempfile.TemporaryDirectory(prefix="bench-api-") as directory:
        data = Path(directory, "data")
        many_jobs.fill(data, plan.jobs)
        many_jobs.take_the_place(data, int(time.time() * 1000))
        with servers.moto() as theirs, servers.sagelet(data, "--runtime", "process", "--max-jobs", "1") as ours:
            pair = (Server("sagelet", *ours, plan.ours), Server("moto", *theirs, plan.theirs))
            for server in pair:
                # Jobs of a bucket that is not there are refused, by one of the two.
                _client("s3", server).create_bucket(Bucket="models")
            _fill_moto(pair[1], plan.jobs)
            return [_table(kind, plan, pair) for kind in KINDS]


def _fill_moto(server: Server, jobs: int) -> None:
    bodies = (calls.with_tags(many_jobs.body(many_jobs.name(number))) for number in range(jobs))
    wanted = [calls.signed(server.endpoint, CREATE.operation, body) for body in bodies]
    made = load.send(server.endpoint, wanted, 4, CREATE.holds)
    if len(made.seconds) != jobs or made.wrong:
        raise RuntimeError(f"moto made {len(made.seconds)} of {jobs} jobs, {made.wrong} wrong: {made.excerpt}")


def _table(kind: Kind, plan: Plan, pair: tuple[Server, Server]) -> Table:
    found = {clients: _measure(kind, clients, plan, pair) for clients in plan.ours}
    ours = [one["sagelet"].all for one in found.values()]
    planned = sum(_count(kind, clients, number, pair[0]) for clients in plan.ours for number in range(plan.rounds))
    wrong = next((outcome.excerpt for outcome in ours if outcome.wrong), "")
    if wrong:
        raise RuntimeError(f"sagelet answered {kind.operation} with {wrong}")
    return Table(
        f"{kind.title}, {plan.jobs:,} jobs",
        HEAD,
        tuple(row for clients, servers_ in found.items() for row in _rows(clients, servers_)),
        "",
        tuple(_bars(kind, found)),
        {
            "calls": sum(len(outcome.seconds) for outcome in ours),
            "calls planned": planned,
            "connection errors": sum(outcome.connection_errors for outcome in ours),
        },
    )


def _measure(kind: Kind, clients: int, plan: Plan, pair: tuple[Server, Server]) -> dict[str, Found]:
    found: dict[str, Found] = {}
    for server in pair:
        # The first call of a kind loads what it needs.
        load.send(server.endpoint, calls.requests(server.endpoint, kind, plan.jobs, WARM_UP), 1)
    for number in range(plan.rounds):
        for server in pair:
            if count := _count(kind, clients, number, server):
                _round(kind, clients, plan.jobs, count, server, found.setdefault(server.name, Found(server.name)))
    return found


def _count(kind: Kind, clients: int, number: int, server: Server) -> int:
    """Of the calls in a round. Where each reads all jobs, fewer say as much; of moto, which takes seconds, three."""
    count = server.plan[clients] if clients < MOST_CLIENTS or number == 0 else 0
    if not kind.reads_all:
        return count
    if server.name == "moto":
        return 3 if clients == 1 and number == 0 else 0
    return count and max(clients, count // 10)


def _round(kind: Kind, clients: int, jobs: int, count: int, server: Server, found: Found) -> None:
    wanted = calls.requests(server.endpoint, kind, jobs, count)
    before = servers.cpu(server.process)
    found.rounds.append(load.send(server.endpoint, wanted, clients, kind.holds))
    found.rss = max(found.rss, server.process.memory_info().rss / 2**20)
    servers.rest(server.process)
    found.cpu += servers.cpu(server.process) - before


def _rows(clients: int, found: dict[str, Found]) -> Iterator[tuple[str | float | int, ...]]:
    ratio = found["sagelet"].rate / found["moto"].rate if "moto" in found else ""
    for name, one in found.items():
        total, rates = one.all, [outcome.rate for outcome in one.rounds]
        number = len(total.seconds)
        yield (
            f"{clients:,}", name, number, total.percentile(50), total.percentile(99), one.rate,
            f"{min(rates):,.0f} to {max(rates):,.0f}", 1000 * one.cpu / number, one.rss, total.connection_errors,
            ratio if name == "sagelet" else "",
        )  # fmt: skip


def _bars(kind: Kind, found: dict[int, dict[str, Found]]) -> Iterator[Bar]:
    *few, most = found
    for clients in few if kind in RATIOS else ():
        ratio = found[clients]["sagelet"].rate / found[clients]["moto"].rate
        yield Bar(f"{kind.title}, {_clients(clients)}, moto / sagelet", ratio, RATIOS[kind])
    if kind in LIMITS:
        p99 = found[1]["sagelet"].all.percentile(99)
        yield Bar(f"{kind.title}, p99 ms", p99, LIMITS[kind], at_most=True)
    errors = found[most]["sagelet"].all.connection_errors
    yield Bar(f"{kind.title}, {_clients(most)}, connection errors", errors, 0, at_most=True)


def _clients(number: int) -> str:
    return f"{number:,} client{'s' if number > 1 else ''}"


def _client(service: str, server: Server) -> Any:
    return boto3.client(
        service, endpoint_url=server.endpoint, region_name=many_jobs.REGION, aws_access_key_id=many_jobs.ACCOUNT,
        aws_secret_access_key="any", config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip
