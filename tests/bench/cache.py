"""`make bench-cache`: jobs of one script with a cold and a warm compile cache. Prints a table; `--write` puts it into
docs/how-to/compile-cache.md.

Real are the server, the jobs on the process runtime, the cache, and the library before the plugin. The GPU and its
plugin stand in (tests/support/cache_jobs.py): a program takes `--compile-ms` to compile and is as large as `--mib`
says. So the table shows what is compiled and what is read, and what the cache itself costs; how long a GPU's compiler
takes, and with it what a warm start saves, it cannot show.
"""

import argparse
import os
import platform
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bench import page
from sagelet_engine.compile_cache.store import CacheStore
from support.cache_jobs import CacheJobs, build_plugin, install_gpu
from support.jobs import Jobs
from support.server import SageletProcess

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "compile-cache.md"
HEAD = ("job", "programs", "hits", "misses", "compiled by the stand-in", "until all are there, s", "kept afterwards")


def row(title: str, job: dict[str, Any], store: CacheStore) -> tuple[str, ...]:
    if job["status"] != "Completed":
        raise SystemExit(f"{job['name']} has {job['status']}")
    cache = job["report"]["total"]["cache"]
    entries = store.entries()
    kept = f"{len(entries)} entries, {sum(one.size for one in entries) / 1024**2:.1f} MiB"
    counts = (len(job["made"]), cache["hits"], cache["misses"], job["compilations"])
    return (title, *map(str, counts), f"{job['seconds']:.2f}", kept)


def measure(directory: Path, options: argparse.Namespace) -> list[tuple[str, ...]]:
    build_plugin(directory / "plugin.so")
    os.environ["PATH"] = install_gpu(directory / "bin") + os.pathsep + os.environ["PATH"]
    server = SageletProcess(directory / "data", "--runtime", "process", "--gpus", "require").start()
    try:
        return [row(title, job, store) for title, job, store in jobs_of(server, directory, options)]
    finally:
        server.stop()


def jobs_of(server: SageletProcess, directory: Path, options: argparse.Namespace) -> Any:
    """Each job's title, what it told, and the cache when it had ended."""
    cached, store = CacheJobs(Jobs(server), directory / "plugin.so"), CacheStore(server.data, 0)
    programs = [f"program-{number}" for number in range(options.programs)]

    def run(more: int = 0, **variables: str) -> dict[str, Any]:
        asked = [*programs, *(f"new-{number}" for number in range(more))]
        return cached.run(asked, options.kib, FAKE_COMPILE_MS=str(options.compile_ms), **variables)

    yield "first (cold)", run(), store
    yield "second (warm)", run(), store
    yield "one program more", run(1), store
    yield "other XLA_FLAGS", run(XLA_FLAGS="--xla_gpu_enable_fast_math=true"), store


def conditions(options: argparse.Namespace) -> str:
    return (
        f"{datetime.now(timezone.utc):%Y-%m-%d}, {len(os.sched_getaffinity(0))} cores, Python "
        f"{platform.python_version()}, load of the machine {os.getloadavg()[0]:.1f}. **No GPU**: the plugin stands in, "
        f"compiles a program in {options.compile_ms} ms on purpose, and makes {options.kib:,} KiB of it."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=10)
    parser.add_argument("--kib", type=int, default=4096, help="size of a compiled program")
    parser.add_argument("--compile-ms", type=int, default=500, help="what the stand-in takes for one")
    parser.add_argument("--write", action="store_true", help="put the table into docs/how-to/compile-cache.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        text = f"{conditions(options)}\n\n{page.table(HEAD, measure(Path(directory), options))}"
    print(text)
    if options.write:
        page.write(PAGE, text)


if __name__ == "__main__":
    main()
