"""What a server costs that nobody asks for anything, and how soon it answers."""

import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from bench import many_jobs, servers
from bench.tables import Bar, Cell, Figure, Scale, Table, in_turns
from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.images.engine import connect
from support.server import SageletProcess, ServerProcess

HEADS = (("server", "jobs", "ready s", "CPU % idle", "RSS MB", "RSS MB after calls", "threads", "promised"),)


@dataclass(frozen=True)
class Plan:
    jobs: int
    starts: int
    #: Of doing nothing.
    seconds: float


PLANS = {Scale.FULL: Plan(10_000, 7, 20.0), Scale.SHORT: Plan(20, 1, 0.5)}


def run(scale: Scale) -> list[Table]:
    plan = PLANS[scale]
    with tempfile.TemporaryDirectory(prefix="bench-idle-") as name:
        directory = Path(name)
        many_jobs.fill(directory / "full", plan.jobs)
        ours = {
            ("sagelet, process", 0): SageletProcess(directory / "empty", "--runtime", "process"),
            ("sagelet, process", plan.jobs): SageletProcess(directory / "full", "--runtime", "process"),
        }
        if _has_docker():
            ours["sagelet, docker", 0] = SageletProcess(directory / "docker", "--runtime", "docker")
        every: dict[tuple[str, int], ServerProcess] = {**ours, ("moto_server", 0): servers.moto_server()}
        # A start that does not count makes the data directory and brings files into memory.
        ready = in_turns(plan.starts + 1, {key: partial(_ready, server) for key, server in every.items()})
        rows = [_row(*key, server, ready[key][1:], plan.seconds) for key, server in every.items()]
    return [
        Table(
            "A server at rest",
            HEADS[0],
            rows,
            f"Medians of {plan.starts} start(s) in turns, after one that does not count; then {plan.seconds:g} s at "
            "rest, before anybody called. The calls are ListTrainingJobs and Search, once each.",
            {"starts": sum(map(len, ready.values())), "starts planned": (plan.starts + 1) * len(every)},
        )
    ]


def _has_docker() -> bool:
    try:
        connect()
    except RuntimeUnavailable:
        return False
    return True


def _ready(server: ServerProcess) -> float:
    began = time.perf_counter()
    with server:
        return time.perf_counter() - began


def _row(name: str, jobs: int, server: ServerProcess, starts: list[float], seconds: float) -> tuple[Cell, ...]:
    with server:
        process = server.process
        cpu = _percent(process, seconds)
        before, threads = servers.memory_mb(process), process.num_threads()
        client = server.client("sagemaker")
        client.list_training_jobs()
        client.search(Resource="TrainingJob")
        after = servers.memory_mb(process)
    ready = Figure.of(starts)
    bars = (
        Bar("ready s", ready, 1, at_most=True),
        Bar("CPU %", cpu, 1, at_most=True),
        Bar("RSS MB after calls", after, 120, at_most=True),
    )
    return name, jobs, ready, cpu, before, after, threads, "" if name == "moto_server" else "; ".join(map(str, bars))


def _percent(process: psutil.Process, seconds: float) -> float:
    """Of a core. What a start leaves to be done is no part of it."""
    servers.rest(process)
    used, began = servers.cpu(process), time.perf_counter()
    time.sleep(seconds)
    return 100 * (servers.cpu(process) - used) / (time.perf_counter() - began)
