"""ListTrainingJobs while others do the most that one call may: how long the slowest takes, beside a server at rest."""

import threading
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import load, many_jobs, servers
from bench.tables import Bar, Figure, Row, Scale, Table
from support.pipelines import largest
from support.server import ACCOUNT, ROLE, SageletProcess, until

HEADS = (("meanwhile", "lists", "p50 ms", "slowest ms", "slowest at rest ms", "times as long", "promised"),)
JOBS, PAGE, AT_ONCE = 1000, 100, 3
PROMISE = 3.0


class Plan(NamedTuple):
    rounds: int
    #: Of each job that is deleted.
    files: int
    pipelines: int


PLANS = {Scale.FULL: Plan(3, 60_000, 5), Scale.SHORT: Plan(1, 200, 1)}


class Lists(NamedTuple):
    """Milliseconds of each list of a round, and of as many at rest."""

    beside: list[float]
    at_rest: list[float]


class Bench:
    """A server with jobs, some of which have left many files."""

    def __init__(self, plan: Plan, data: Path, server: SageletProcess) -> None:
        self._plan = plan
        self._data = data
        self._server = server
        self._next_job = 0
        self._next_pipeline = 0
        self._definition = largest()
        body = {"MaxResults": PAGE, "SortBy": "CreationTime", "SortOrder": "Descending"}
        self._list = load.signed(server.endpoint, "ListTrainingJobs", body)

    def deletions(self) -> int:
        """Deletes jobs at the same time, and returns when their files are gone. Returns the number of deletions."""
        names = [many_jobs.name(self._next_job + number) for number in range(AT_ONCE)]
        self._next_job += AT_ONCE
        calls = [load.signed(self._server.endpoint, "DeleteTrainingJob", {"TrainingJobName": name}) for name in names]
        done = load.send(self._server.endpoint, calls, AT_ONCE, b"")
        until(lambda: not any((self._data / "removed").iterdir()), seconds=600)
        return len(done.seconds) - done.wrong

    def fill(self) -> None:
        """Puts files where the jobs that are deleted next have left theirs."""
        for number in range(AT_ONCE):
            job_id = f"id-{many_jobs.name(self._next_job + number)}"
            for file in range(self._plan.files):
                path = self._data / "jobs" / ACCOUNT / many_jobs.REGION / job_id / "algo-1" / str(file % 60) / str(file)
                if file < 60:
                    path.parent.mkdir(parents=True)
                path.touch()

    def pipelines(self) -> int:
        """Creates pipelines one after the other. Returns their number."""
        calls = []
        for _ in range(self._plan.pipelines):
            self._next_pipeline += 1
            body = {
                "PipelineName": f"p-{self._next_pipeline}", "PipelineDefinition": self._definition, "RoleArn": ROLE,
                "ClientRequestToken": f"{self._next_pipeline:032}",
            }  # fmt: skip
            calls.append(load.signed(self._server.endpoint, "CreatePipeline", body))
        done = load.send(self._server.endpoint, calls, 1, b"PipelineArn")
        return len(done.seconds) - done.wrong

    def lists_beside(self, work: Callable[[], int]) -> tuple[Lists, int]:
        """Lists until the work is done, and then as often at rest. Returns what the work counts, too."""
        counts: list[int] = []
        thread = threading.Thread(target=lambda: counts.append(work()))
        beside: list[float] = []
        thread.start()
        while thread.is_alive():
            beside += self._lists(10)
        servers.rest(self._server.process)
        return Lists(beside, self._lists(len(beside))), counts[0]

    def _lists(self, number: int) -> list[float]:
        outcome = load.send(self._server.endpoint, [self._list] * number, 1, b"TrainingJobSummaries")
        if outcome.wrong or outcome.connection_errors:
            raise RuntimeError(f"sagelet answered with {outcome.excerpt}")
        return [1000 * seconds for seconds in outcome.seconds]


def run(scale: Scale, directory: Path) -> list[Table]:
    plan, data = PLANS[scale], directory / "data"
    many_jobs.fill(data, JOBS)
    with SageletProcess(data, "--runtime", "process") as server:
        bench = Bench(plan, data, server)
        bench.lists_beside(bench.pipelines)  # once for what is loaded at its first use
        deletions, pipelines = [], []
        for _ in range(plan.rounds):
            bench.fill()
            servers.rest(server.process)
            deletions.append(bench.lists_beside(bench.deletions))
            pipelines.append(bench.lists_beside(bench.pipelines))
    rows = [
        _row(f"{AT_ONCE} jobs of {plan.files:,} files are deleted", [lists for lists, _ in deletions]),
        _row("pipelines of the largest size are created, one after another", [lists for lists, _ in pipelines]),
    ]
    conditions = (
        f"ListTrainingJobs of {JOBS:,} jobs in pages of {PAGE}, one client, until the work is done: for deletions "
        f"until no file is left. As many at rest after it. The slowest of each of {plan.rounds} rounds, and the ratio."
    )
    counts = {
        "jobs deleted": (sum(count for _, count in deletions), plan.rounds * AT_ONCE),
        "pipelines created": (sum(count for _, count in pipelines), plan.rounds * plan.pipelines),
    }
    return [Table("A list beside large work of others", HEADS[0], rows, conditions, counts)]


def _row(meanwhile: str, rounds: list[Lists]) -> Row:
    beside = [one for lists in rounds for one in lists.beside]
    slowest, rest = ([max(times) for times in column] for column in zip(*rounds, strict=True))
    ratio = Figure.of([most / least for most, least in zip(slowest, rest, strict=True)])
    promise = Bar("times as long", ratio, PROMISE, at_most=True)
    return meanwhile, len(beside), median(beside), Figure.of(slowest), Figure.of(rest), ratio, promise
