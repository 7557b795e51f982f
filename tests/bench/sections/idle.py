"""The cost of a server that nobody calls, and the time until it answers."""

import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil

from bench import machine, many_jobs, servers
from bench.tables import Bar, Figure, Row, Scale, Table, in_turns
from support.server import SageletProcess, ServerProcess

HEADS = (("server", "jobs", "ready s", "CPU % idle", "RSS MB", "RSS MB after calls", "threads", "promised"),)


class Plan(NamedTuple):
    jobs: int
    starts: int
    #: Seconds at rest.
    seconds: float


PLANS = {Scale.FULL: Plan(10_000, 7, 20.0), Scale.SHORT: Plan(20, 1, 0.5)}


def run(scale: Scale, directory: Path) -> list[Table]:
    plan = PLANS[scale]
    many_jobs.fill(directory / "full", plan.jobs)
    kinds = [("process", 0, "empty"), ("process", plan.jobs, "full")]
    if machine.docker() != machine.NONE:
        kinds.append(("docker", 0, "docker"))
    every: dict[tuple[str, int], ServerProcess] = {
        (f"sagelet, {runtime}", jobs): SageletProcess(directory / data, "--runtime", runtime)
        for runtime, jobs, data in kinds
    }
    every["moto_server", 0] = servers.moto_server()
    # A start that does not count makes the data directory and brings files into memory.
    ready = in_turns(plan.starts + 1, {key: partial(_ready, server) for key, server in every.items()})
    rows = [_row(*key, server, ready[key][1:], plan.seconds) for key, server in every.items()]
    conditions = (
        f"Medians of {plan.starts} start(s) in turns, after one that does not count; then {plan.seconds:g} s at rest, "
        "before anybody called. The calls are ListTrainingJobs and Search, once each."
    )
    counts = {"starts": (sum(map(len, ready.values())), (plan.starts + 1) * len(every))}
    return [Table("A server at rest", HEADS[0], rows, conditions, counts)]


def _ready(server: ServerProcess) -> float:
    began = time.perf_counter()
    with server:
        return time.perf_counter() - began


def _row(name: str, jobs: int, server: ServerProcess, starts: list[float], seconds: float) -> Row:
    with server:
        process = server.process
        cpu = _percent(process, seconds)
        before, threads = servers.memory_mb(process), process.num_threads()
        client = server.client("sagemaker")
        client.list_training_jobs()
        client.search(Resource="TrainingJob")
        after = servers.memory_mb(process)
    ready = Figure.of(starts)
    promises = (("ready s", ready, 0.4), ("CPU %", cpu, 1), ("RSS MB after calls", after, 120))
    bars = "; ".join(str(Bar(*promise, at_most=True)) for promise in promises)
    return name, jobs, ready, cpu, before, after, threads, "" if name == "moto_server" else bars


def _percent(process: psutil.Process, seconds: float) -> float:
    """CPU time as a share of one core. Work that is left from the start does not count."""
    servers.rest(process)
    used, began = servers.cpu(process), time.perf_counter()
    time.sleep(seconds)
    return 100 * (servers.cpu(process) - used) / (time.perf_counter() - began)
