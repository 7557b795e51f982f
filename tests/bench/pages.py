"""How long the pages take with 10,000 jobs and a log of 1,000,000 lines: `make bench-pages`. Whole answers, over HTTP.

Prints a line a page: median and 95 % of 20 requests, in milliseconds, and the size of the answer.
"""

import statistics
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from sagelet_api.services.moto_bridge import MotoBridge
from sagelet_engine.telemetry.events import LogEvent
from sagelet_engine.telemetry.sink import MetricPoint
from support import front
from support.api_world import ApiWorld

JOBS = 10_000
LINES = 1_000_000
BATCH = 50_000
ROUNDS = 20


def fill(world: ApiWorld) -> str:
    for number in range(JOBS):
        world.waiting_job(f"job-{number:05}")
        world.clock.turn(1)
    stream = world.stream("job-long")
    for first in range(0, LINES, BATCH):
        events = [LogEvent(first + n, f"step {first + n} loss=0.{first + n:07} lr=5e-05") for n in range(BATCH)]
        points = [MetricPoint("loss", 1 / (first + n + 1), first + n) for n in range(0, BATCH, 10)]
        stream = world.engine._store.append_output(stream, events, "p", points, first)
    return quote(stream.name)


def main() -> None:
    with tempfile.TemporaryDirectory() as root, ApiWorld(Path(root), MotoBridge()) as world:
        stream = fill(world)
        log = "/_sagelet/ui/jobs/job-long/log"
        pages = {
            "list": "/",
            "list, last by name": "/?sort=name&order=ascending",
            "list, searched by name": "/?q=0999",
            "list, searched by property": "/?q=ResourceConfig.InstanceType%3Dml.m5.large",
            "list, nothing found": "/?q=none",
            "job": "/_sagelet/ui/jobs/job-long",
            "log": log,
            "log, a window": f"{log}/lines?stream={stream}&from=777777",
            "log, search step that finds nothing": f"{log}/find?stream={stream}&q=nothing&from=500000",
            "log, search step that finds 200": f"{log}/find?stream={stream}&q=loss&from=500000",
            "charts of 100,000 samples": "/_sagelet/ui/jobs/job-long/curves",
        }
        world.page("/")
        for name, path in pages.items():
            times, size = [], 0
            for _ in range(ROUNDS):
                began = time.perf_counter()
                answer = world.page(path)
                times.append((time.perf_counter() - began) * 1000)
                assert answer.status == 200, (path, answer.status)
                size = len(answer.data)
            p95 = statistics.quantiles(times, n=20)[-1]
            print(f"{name:40} {statistics.median(times):8.1f} ms {p95:8.1f} ms {size:10,} bytes", flush=True)
    front.stop()


if __name__ == "__main__":
    main()
