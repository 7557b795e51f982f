"""Jobs of one script with a cold and a warm compile cache.

Real are the server, the jobs on the process runtime, the cache, and the library before the plugin. The GPU and its
plugin stand in (tests/support/cache_jobs.py). So the table shows what is compiled and what is read, and what the cache
itself costs. It cannot show how long a GPU's compiler takes, and with it what a warm start saves.
"""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.tables import Cell, Scale, Table
from sagelet_engine.compile_cache.store import CacheStore
from support.cache_jobs import CacheJobs, build_plugin, install_gpu
from support.jobs import Jobs
from support.server import SageletProcess

HEADS = (
    ("job", "programs", "hits", "misses", "compiled by the stand-in", "until all are there, s", "kept afterwards"),
)


@dataclass(frozen=True)
class Plan:
    programs: int
    #: The size of a compiled program, and what the stand-in takes for one.
    kib: int
    compile_ms: int


PLANS = {Scale.FULL: Plan(10, 4096, 500), Scale.SHORT: Plan(3, 16, 10)}


def run(scale: Scale) -> list[Table]:
    plan = PLANS[scale]
    with tempfile.TemporaryDirectory(prefix="bench-cache-") as name:
        directory = Path(name)
        build_plugin(directory / "plugin.so")
        server = SageletProcess(directory / "data", "--runtime", "process", "--gpus", "require")
        server.environment["PATH"] = os.pathsep.join([install_gpu(directory / "bin"), os.environ["PATH"]])
        with server:
            jobs = CacheJobs(Jobs(server), directory / "plugin.so")
            store = CacheStore(server.data, 0)
            rows = [_row(title, job, store) for title, job in _jobs(jobs, plan)]
    return [
        Table(
            "Jobs with a cold and a warm cache",
            HEADS[0],
            rows,
            f"**No GPU**: the plugin stands in, compiles a program in {plan.compile_ms} ms on purpose, and makes "
            f"{plan.kib:,} KiB of it.",
            {"hits": sum(int(str(row[2])) for row in rows), "hits planned": 2 * plan.programs},
        )
    ]


def _jobs(jobs: CacheJobs, plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    programs = [f"program-{number}" for number in range(plan.programs)]
    variables: dict[str, Any] = {"FAKE_COMPILE_MS": str(plan.compile_ms)}
    yield "first (cold)", jobs.run(programs, plan.kib, **variables)
    yield "second (warm)", jobs.run(programs, plan.kib, **variables)
    yield "one program more", jobs.run([*programs, "new"], plan.kib, **variables)
    variables["XLA_FLAGS"] = "--xla_gpu_enable_fast_math=true"
    yield "other XLA_FLAGS", jobs.run(programs, plan.kib, **variables)


def _row(title: str, job: dict[str, Any], store: CacheStore) -> tuple[Cell, ...]:
    if job["status"] != "Completed":
        raise RuntimeError(f"{job['name']} has {job['status']}")
    cache, entries = job["report"]["total"]["cache"], store.entries()
    kept = f"{len(entries)} entries, {sum(one.size for one in entries) / 1024**2:.1f} MiB"
    return title, len(job["made"]), cache["hits"], cache["misses"], job["compilations"], job["seconds"], kept
