"""The API against moto_server, with as many jobs in both."""

import random
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from bench import load, many_jobs, servers
from bench.load import Outcome
from bench.tables import Bar, Cell, Figure, Row, Scale, Table, against_peer, in_turns, percentiles_ms
from support.server import SageletProcess, ServerProcess

HEADS = (
    ("call", "clients", "sagelet calls/s", "p50 ms", "p99 ms", "CPU ms", "moto calls/s", "p50 ms", "p99 ms", "CPU ms",
     "moto / sagelet", "promised"),
)  # fmt: skip
#: Calls of a kind before those that count: the first loads what it needs.
WARM_UP = 2


class Plan(NamedTuple):
    jobs: int
    rounds: int
    #: Number of calls in a round, by server and clients.
    calls: dict[str, dict[int, int]]


PLANS = {
    Scale.FULL: Plan(10_000, 3, {"sagelet": {1: 200, 16: 480, 1000: 1000}, "moto": {1: 60, 16: 160, 1000: 1000}}),
    Scale.SHORT: Plan(100, 1, {"sagelet": {1: 10, 16: 32, 100: 100}, "moto": {1: 3, 16: 16, 100: 100}}),
}


class Kind(NamedTuple):
    title: str
    operation: str
    #: The body of a call to a server with this many jobs.
    body: Callable[[int], dict[str, Any]]
    #: Promises: of calls/s against moto, by the number of clients.
    ratios: Mapping[int, float] = MappingProxyType({})
    #: Promises of one client: the 99th percentile and the CPU of a call, in milliseconds.
    p99_ms: float = 0
    cpu_ms: float = 0
    #: moto reads all jobs, for seconds: one client asks it once a round.
    slow: bool = False


def _search(name: str, value: str) -> dict[str, Any]:
    where = {"Filters": [{"Name": name, "Operator": "Equals", "Value": value}]}
    return {"Resource": "TrainingJob", "SearchExpression": where, **NEWEST}


def _body(name: str) -> dict[str, Any]:
    tags = [{"Key": key, "Value": value} for key, value in many_jobs.TAGS.items()]
    return {**many_jobs.body(name), "Tags": tags}


NEWEST = {"MaxResults": 100, "SortBy": "CreationTime", "SortOrder": "Descending"}
_choice, _fresh = random.Random(7), count()
#: Creation last: what it queues stays.
KINDS = (
    Kind("DescribeTrainingJob", "DescribeTrainingJob",
         lambda jobs: {"TrainingJobName": many_jobs.name(_choice.randrange(jobs))}, {1: 12}, cpu_ms=0.4),
    Kind("ListTrainingJobs", "ListTrainingJobs", lambda _: NEWEST, {1: 10}, p99_ms=20),
    Kind("Search by status", "Search", lambda _: _search("TrainingJobStatus", "Completed"), p99_ms=100, slow=True),
    Kind("Search by a hyperparameter", "Search", lambda _: _search("HyperParameters.epochs", "3"), p99_ms=100,
         slow=True),
    Kind("CreateTrainingJob", "CreateTrainingJob", lambda _: _body(f"new-{next(_fresh):07}"), {1: 4, 16: 8}),
)  # fmt: skip

#: An outcome, and the CPU seconds that the server took.
Round = tuple[Outcome, float]


def run(scale: Scale, directory: Path) -> list[Table]:
    plan, data = PLANS[scale], directory / "data"
    many_jobs.fill(data, plan.jobs)
    many_jobs.take_the_place(data, int(time.time() * 1000))
    with servers.moto_server() as theirs, SageletProcess(data, "--runtime", "process", "--max-jobs", "1") as ours:
        for server in (ours, theirs):
            # Only one of the two creates jobs whose bucket does not exist.
            server.client("s3").create_bucket(Bucket="models")
        _fill(theirs, plan.jobs)
        return [_table(plan, {"sagelet": ours, "moto": theirs})]


def _fill(moto: ServerProcess, jobs: int) -> None:
    wanted = [load.signed(moto.endpoint, "CreateTrainingJob", _body(many_jobs.name(number))) for number in range(jobs)]
    made = load.send(moto.endpoint, wanted, 4, b"TrainingJobArn")
    if len(made.seconds) != jobs or made.wrong:
        raise RuntimeError(f"moto made {len(made.seconds)} of {jobs} jobs, {made.wrong} wrong: {made.excerpt}")


def _table(plan: Plan, pair: dict[str, ServerProcess]) -> Table:
    rows: list[Row] = []
    outcomes: list[Outcome] = []
    planned = 0
    for kind in KINDS:
        for server in pair.values():
            _calls(kind, 1, plan.jobs, WARM_UP, server)
        for clients in plan.calls["sagelet"]:
            counts = {name: _count(kind, clients, name, plan) for name in pair}
            runs = {
                name: partial(_calls, kind, clients, plan.jobs, number, pair[name])
                for name, number in counts.items()
                if number
            }
            found = in_turns(plan.rounds, runs)
            outcomes += [outcome for outcome, _ in found["sagelet"]]
            planned += plan.rounds * counts["sagelet"]
            rows.append(_row(kind, clients, found))
    if wrong := next((outcome.excerpt for outcome in outcomes if outcome.wrong), ""):
        raise RuntimeError(f"sagelet answered with {wrong}")
    memory = {name: servers.memory_mb(server.process) for name, server in pair.items()}
    errors = sum(outcome.connection_errors for outcome in outcomes)
    conditions = (
        f"Lists and searches give pages of 100. Calls/s are the median of {plan.rounds} rounds in turns, milliseconds "
        f"of all calls, CPU a call's with what follows its answer. Connection errors of sagelet: {errors} (promised: "
        f"none). Memory at the end: sagelet {memory['sagelet']:.0f} MB, moto {memory['moto']:.0f} MB."
    )
    counted = {"calls": (sum(len(one.seconds) for one in outcomes), planned), "connection errors": (errors, 0)}
    return Table(f"{plan.jobs:,} jobs", HEADS[0], rows, conditions, counted)


def _count(kind: Kind, clients: int, name: str, plan: Plan) -> int:
    """The number of calls in a round. Fewer are enough if each reads all jobs."""
    count = plan.calls[name][clients]
    if not kind.slow:
        return count
    return max(clients, count // 10) if name == "sagelet" else int(clients == 1)


def _calls(kind: Kind, clients: int, jobs: int, number: int, server: ServerProcess) -> Round:
    wanted = [load.signed(server.endpoint, kind.operation, kind.body(jobs)) for _ in range(number)]
    with servers.watched(server.process) as cost:
        outcome = load.send(server.endpoint, wanted, clients, b"TrainingJobArn")
    return outcome, cost.cpu


def _row(kind: Kind, clients: int, found: dict[str, list[Round]]) -> Row:
    cells: list[Cell] = []
    times = {name: [one for outcome, _ in rounds for one in outcome.seconds] for name, rounds in found.items()}
    rates = {name: Figure.of([outcome.rate for outcome, _ in rounds]) for name, rounds in found.items()}
    for name, rounds in found.items():
        cpu_ms = 1000 * sum(cpu for _, cpu in rounds) / len(times[name])
        cells += [rates[name], *percentiles_ms(times[name], 50, 99), cpu_ms]
    ratio = rates["sagelet"].over(rates["moto"]) if "moto" in rates else None
    bars: list[Bar] = []
    if ratio and clients in kind.ratios:
        bars.append(Bar("moto / sagelet", ratio, kind.ratios[clients]))
    if clients == 1 and kind.p99_ms:
        bars.append(Bar("p99 ms", percentiles_ms(times["sagelet"], 99)[0], kind.p99_ms, at_most=True))
    if clients == 1 and kind.cpu_ms:
        cpu_ms = 1000 * sum(cpu for _, cpu in found["sagelet"]) / len(times["sagelet"])
        bars.append(Bar("CPU ms", cpu_ms, kind.cpu_ms, at_most=True))
    promised = "; ".join(map(str, bars))
    return kind.title, clients, *cells, *[""] * (8 - len(cells)), against_peer(ratio) if ratio else "", promised
