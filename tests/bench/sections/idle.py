"""What a server costs that nobody asks for anything, and how soon it answers."""

import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import boto3
import psutil
from botocore.config import Config

from bench import machine, many_jobs, servers
from bench.tables import Bar, Scale, Table

Running = AbstractContextManager[tuple[str, psutil.Process]]
HEAD = (
    "server", "jobs", "starts", "ready s", "ready s, min to max", "CPU % idle", "RSS MB",
    "RSS MB after calls", "threads",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    jobs: int
    starts: int
    #: Of doing nothing.
    seconds: float


PLANS = {Scale.FULL: Plan(10_000, 7, 20.0), Scale.SHORT: Plan(20, 1, 0.5)}


@dataclass(frozen=True)
class Idle:
    name: str
    jobs: int
    ready: list[float]
    cpu: float
    rss: float
    rss_after: float
    threads: int

    @property
    def row(self) -> tuple[str | float | int, ...]:
        spread = f"{min(self.ready):.2f} to {max(self.ready):.2f}"
        figures = (len(self.ready), median(self.ready), spread, self.cpu, self.rss, self.rss_after, self.threads)
        return self.name, self.jobs, *figures

    @property
    def bars(self) -> tuple[Bar, ...]:
        said = f"{self.name}, {self.jobs:,} jobs"
        return (
            Bar(f"{said}, ready s", median(self.ready), 1, at_most=True),
            Bar(f"{said}, CPU % idle", self.cpu, 1, at_most=True),
            Bar(f"{said}, RSS MB after calls", self.rss_after, 120, at_most=True),
        )


def run(scale: Scale) -> list[Table]:
    plan = PLANS[scale]
    with tempfile.TemporaryDirectory(prefix="bench-idle-") as directory:
        full = Path(directory, "full")
        many_jobs.fill(full, plan.jobs)
        ours = [
            _measure("sagelet, process", 0, lambda: _sagelet(Path(directory, "empty"), "process"), plan),
            _measure("sagelet, process", plan.jobs, lambda: _sagelet(full, "process"), plan),
        ]
        if machine.docker() != "none":
            ours.append(_measure("sagelet, docker", 0, lambda: _sagelet(Path(directory, "docker"), "docker"), plan))
        moto = _measure("moto_server", 0, servers.moto, plan)
    return [
        Table(
            "A server at rest",
            HEAD,
            (*(one.row for one in ours), moto.row),
            f"{plan.starts} start(s) after one that counts for nothing; of the last one {plan.seconds:g} s at rest, "
            "before anybody called. The calls are ListTrainingJobs and Search, once each.",
            tuple(bar for one in ours for bar in one.bars),
            {"starts": sum(len(one.ready) for one in ours), "starts planned": plan.starts * len(ours)},
        )
    ]


def _sagelet(data: Path, runtime: str) -> Running:
    return servers.sagelet(data, "--runtime", runtime)


def _measure(name: str, jobs: int, start: Callable[[], Running], plan: Plan) -> Idle:
    ready: list[float] = []
    # It makes the data directory, and brings files into memory.
    with start():
        pass
    for _ in range(plan.starts):
        began = time.perf_counter()
        with start() as (endpoint, process):
            ready.append(time.perf_counter() - began)
            if len(ready) == plan.starts:
                cpu, rss, threads = _at_rest(process, plan.seconds), _rss(process), process.num_threads()
                _call(endpoint)
                return Idle(name, jobs, ready, cpu, rss, _rss(process), threads)
    raise AssertionError("a plan has at least one start")


def _at_rest(process: psutil.Process, seconds: float) -> float:
    """Percent of a core. What a start leaves to be done is no part of it."""
    servers.rest(process)
    used, began = servers.cpu(process), time.perf_counter()
    time.sleep(seconds)
    return 100 * (servers.cpu(process) - used) / (time.perf_counter() - began)


def _rss(process: psutil.Process) -> float:
    return float(process.memory_info().rss / 2**20)


def _call(endpoint: str) -> None:
    client = boto3.client(
        "sagemaker", endpoint_url=endpoint, region_name=many_jobs.REGION, aws_access_key_id=many_jobs.ACCOUNT,
        aws_secret_access_key="any", config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip
    client.list_training_jobs()
    client.search(Resource="TrainingJob")
