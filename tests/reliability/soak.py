"""`make soak`: many jobs and many lines through one live server, and what the server takes meanwhile.

Jobs are real processes of the process runtime, each a shell that prints its lines and leaves a model. Files of ended
jobs go by size (`--keep-files-size`), so the disk holds the jobs' records, lines and models, and no more.
"""

import argparse
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import psutil
from botocore.config import Config

from sagelet_engine.data.removal import bytes_below
from support.server import GROUP, NATIVE, ROLE, SageletProcess, until

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
MARKS = ("<!-- soak: made by `make soak SOAK_ARGS=--write` -->", "<!-- /soak -->")
#: Jobs that the client has under way at most.
AHEAD = 48
OPTIONS = (
    "--runtime", "process", "--max-jobs", "12", "--max-hosts", "12", "--keep-files-size", "50M",
)  # fmt: skip
WINDOWS = 10
CALLS = ("create", "describe", "list", "get_log_events")


@dataclass
class Window:
    """What was seen while a tenth of the jobs ran."""

    jobs: int
    seconds: float
    rss_mb: float
    descriptors: int
    threads: int
    #: Of the data directory: jobs' directories, database, objects.
    files_mb: float
    database_mb: float
    objects_mb: float
    #: By call, in ms.
    latency: dict[str, list[float]]

    def row(self) -> list[str]:
        times = [_times(self.latency[call]) for call in CALLS]
        counts = [
            f"{self.jobs:,}",
            f"{self.seconds:.0f}",
            f"{self.rss_mb:.0f}",
            str(self.descriptors),
            str(self.threads),
        ]
        return [*counts, f"{self.files_mb:.0f}", f"{self.database_mb:.0f}", f"{self.objects_mb:.0f}", *times]


HEAD = (
    "jobs", "s", "RSS MB", "descriptors", "threads", "jobs/ MB", "database MB", "s3/ MB",
    *(f"{call} ms p50 / p99" for call in CALLS),
)  # fmt: skip


@dataclass
class Soak:
    """One run. `windows` and what stands in `found` are its result."""

    server: SageletProcess
    jobs: int
    lines: int
    windows: list[Window] = field(default_factory=list)
    #: What must be true at the end: jobs by status, lines of all jobs, models, processes of hosts that are left.
    found: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        config = Config(max_pool_connections=8, retries={"total_max_attempts": 1})
        self._sagemaker = self.server.client("sagemaker", config=config)
        self._logs = self.server.client("logs", config=config)
        self._process = _server_process(self.server)
        self._latency: dict[str, list[float]] = {call: [] for call in CALLS}
        self._submitted = 0

    def run(self) -> None:
        self.server.client("s3").create_bucket(Bucket="soak")
        for number in range(1, WINDOWS + 1):
            begin = time.monotonic()
            self._until_ended(self.jobs * number // WINDOWS)
            self.windows.append(self._look(time.monotonic() - begin))
            self._latency = {call: [] for call in CALLS}
        self._check()

    # --- load ------------------------------------------------------------------------------------------------

    def _until_ended(self, wanted: int) -> None:
        while (ended := self._ended()) < wanted:
            while self._submitted < self.jobs and self._submitted - ended < AHEAD:
                self._submit()
            self._probe()

    def _submit(self) -> None:
        script = f"seq -f '{self._submitted}: line %.0f' {self.lines}; echo done > /opt/ml/model/w"
        with self._timed("create"):
            self._sagemaker.create_training_job(
                TrainingJobName=f"soak-{self._submitted:06}",
                AlgorithmSpecification={
                    "TrainingImage": NATIVE, "TrainingInputMode": "File", "ContainerEntrypoint": ["sh", "-c", script],
                },
                RoleArn=ROLE,
                OutputDataConfig={"S3OutputPath": "s3://soak/out"},
                ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
                StoppingCondition={"MaxRuntimeInSeconds": 3600},
            )  # fmt: skip
        self._submitted += 1

    def _probe(self) -> None:
        """Calls as people make them while jobs run."""
        name = f"soak-{max(0, self._submitted - AHEAD):06}"
        with self._timed("describe"):
            self._sagemaker.describe_training_job(TrainingJobName=name)
        with self._timed("list"):
            self._sagemaker.list_training_jobs(MaxResults=100)
        streams = self._logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=f"{name}/")["logStreams"]
        for stream in streams:
            with self._timed("get_log_events"):
                self._logs.get_log_events(logGroupName=GROUP, logStreamName=stream["logStreamName"], startFromHead=True)

    @contextmanager
    def _timed(self, call: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self._latency[call].append(1000 * (time.perf_counter() - begin))

    def _ended(self) -> int:
        counts: dict[str, int] = self.server.health()["jobs"]
        return sum(count for status, count in counts.items() if status not in ("InProgress", "Stopping"))

    # --- what it takes ---------------------------------------------------------------------------------------

    def _look(self, seconds: float) -> Window:
        data = self.server.data
        database = sum(path.stat().st_size for path in data.glob("sagelet.db*"))
        with self._process.oneshot():
            rss, threads = self._process.memory_info().rss, self._process.num_threads()
        return Window(
            self._ended(), seconds, rss / 1e6, self._process.num_fds(), threads, bytes_below(data / "jobs") / 1e6,
            database / 1e6, bytes_below(data / "s3") / 1e6, self._latency,
        )  # fmt: skip

    def _check(self) -> None:
        until(lambda: self._process.num_threads() <= self.windows[0].threads)
        self.found = {
            "jobs": self.server.health()["jobs"],
            "lines": sum(self._lines()),
            "models": sum(1 for _ in (self.server.data / "s3" / "soak").rglob("model.tar.gz")),
            "left": [child.cmdline() for child in self._process.children(recursive=True)],
        }

    def _lines(self) -> Iterator[int]:
        """Of each job, after a look at what they are: all of them, in order, none twice."""
        wanted = [f"line {number}" for number in range(1, self.lines + 1)]
        pages = self._logs.get_paginator("describe_log_streams").paginate(logGroupName=GROUP)
        for stream in (stream for page in pages for stream in page["logStreams"]):
            number = int(stream["logStreamName"].split("/")[0].removeprefix("soak-"))
            events = self._logs.get_log_events(
                logGroupName=GROUP, logStreamName=stream["logStreamName"], startFromHead=True, limit=10_000
            )["events"]
            printed = [event["message"].removeprefix(f"{number}: ") for event in events]
            assert printed == wanted, f"{stream['logStreamName']}: {len(printed)} lines"
            yield len(printed)


def _server_process(server: SageletProcess) -> psutil.Process:
    return psutil.Process(server.pid)


def _times(values: list[float]) -> str:
    return f"{median(values):.0f} / {quantiles(values, n=100)[98]:.0f}" if len(values) > 1 else "-"


def table(soak: Soak) -> str:
    rows = [HEAD, ["---"] * len(HEAD), *(window.row() for window in soak.windows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--lines", type=int, default=100, help="of each job")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        server = SageletProcess(Path(directory, "data"), *OPTIONS).start()
        try:
            soak = Soak(server, arguments.jobs, arguments.lines)
            soak.run()
        finally:
            server.stop()
    print(table(soak))
    print(soak.found)
    if arguments.write:
        write(table(soak), soak)


def write(text: str, soak: Soak) -> None:
    page = PAGE.read_text(encoding="utf-8")
    load = f"{psutil.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB"
    result = f"{time.strftime('%Y-%m-%d', time.gmtime())}, {load}; at the end: {soak.found}"
    between = re.escape(MARKS[0]) + ".*?" + re.escape(MARKS[1])
    made = "\n\n".join([MARKS[0], text, result, MARKS[1]])
    PAGE.write_text(re.sub(between, lambda _: made, page, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
