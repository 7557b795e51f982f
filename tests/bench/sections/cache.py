"""Jobs of one script with a cold and a warm compile cache.

The server, the jobs on the process runtime, the cache, and the library before the plugin are real. The GPU and its
plugin are stand-ins (tests/support/cache_jobs.py). So the table shows what is compiled and what is read, and what the
cache itself costs. It cannot show how long a GPU's compiler takes, and so not what a warm start saves.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.tables import Row, Scale, Table
from sagelet_engine.compile_cache.store import CacheStore
from support.cache_jobs import CacheJobs, build_plugin, install_gpu
from support.jobs import Jobs
from support.server import SageletProcess

HEADS = (
    ("job", "programs", "hits", "misses", "compiled by the stand-in", "until all are there, s", "kept afterwards"),
)


class Plan(NamedTuple):
    programs: int
    #: The size of a compiled program.
    kib: int
    #: The time that the stand-in takes to compile one.
    compile_ms: int


PLANS = {Scale.FULL: Plan(10, 4096, 500), Scale.SHORT: Plan(3, 16, 10)}


def run(scale: Scale, directory: Path) -> list[Table]:
    plan = PLANS[scale]
    build_plugin(directory / "plugin.so")
    server = SageletProcess(directory / "data", "--runtime", "process", "--gpus", "require")
    server.environment["PATH"] = os.pathsep.join([install_gpu(directory / "bin"), os.environ["PATH"]])
    with server:
        jobs = CacheJobs(Jobs(server), directory / "plugin.so")
        store = CacheStore(server.data, 0)
        rows = [_row(title, job, store) for title, job in _jobs(jobs, plan)]
    conditions = (
        f"**No GPU**: the plugin stands in, compiles a program in {plan.compile_ms} ms on purpose, and makes "
        f"{plan.kib:,} KiB of it."
    )
    counts = {"hits": (sum(int(str(row[2])) for row in rows), 2 * plan.programs)}
    return [Table("Jobs with a cold and a warm cache", HEADS[0], rows, conditions, counts)]


def _jobs(jobs: CacheJobs, plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    programs = [f"program-{number}" for number in range(plan.programs)]
    variables: dict[str, Any] = {"FAKE_COMPILE_MS": str(plan.compile_ms)}
    yield "first (cold)", jobs.run(programs, plan.kib, **variables)
    yield "second (warm)", jobs.run(programs, plan.kib, **variables)
    yield "one program more", jobs.run([*programs, "new"], plan.kib, **variables)
    variables["XLA_FLAGS"] = "--xla_gpu_enable_fast_math=true"
    yield "other XLA_FLAGS", jobs.run(programs, plan.kib, **variables)


def _row(title: str, job: dict[str, Any], store: CacheStore) -> Row:
    if job["status"] != "Completed":
        raise RuntimeError(f"{job['name']} has {job['status']}")
    cache, entries = job["report"]["total"]["cache"], store.entries()
    kept = f"{len(entries)} entries, {sum(one.size for one in entries) / 1024**2:.1f} MiB"
    return title, len(job["made"]), cache["hits"], cache["misses"], job["compilations"], job["seconds"], kept
