"""A long queue in front of a cluster. Measures sagelet's CPU time, its calls of Slurm, and the delay of its statuses.

Sleeping jobs of the server and somebody else's job hold all but a few nodes. A queue of short jobs goes through the
others. Scripts with the names of Slurm's commands, first on the server's PATH, note when each begins and ends.
"""

import os
import stat
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from support.server import NATIVE, ROLE, SageletProcess, until
from support.slurm_cluster import SlurmCluster

COMMANDS = ("sbatch", "squeue", "scancel", "sacct", "sinfo", "scontrol")
#: A short job. Its last line is the time of its end, by the machine's clock.
SHORT = "sleep 2; date +%s%3N"
HOLD = "exec sleep 86400"


class CountedCommands:
    """Slurm's commands, with a note of every run."""

    def __init__(self, directory: Path, path: str) -> None:
        directory.mkdir()
        self._notes = directory / "notes"
        self._notes.touch()
        self.path = f"{directory}{os.pathsep}{path}"
        for name in COMMANDS:
            script = directory / name
            script.write_text(
                f'#!/bin/sh\necho "B {name}" >>"{self._notes}"\nPATH="{path}" {name} "$@"\ncode=$?\n'
                f'echo "E {name}" >>"{self._notes}"\nexit $code\n'
            )
            script.chmod(stat.S_IRWXU)

    def since(self, mark: int = 0) -> tuple[Counter[str], int]:
        """Returns how often each command ran since a mark, and how many ran at once at most."""
        calls: Counter[str] = Counter()
        running = most = 0
        for line in self._notes.read_text()[mark:].splitlines():
            kind, name = line.split()
            running += 1 if kind == "B" else -1
            most = max(most, running)
            calls[name] += kind == "B"
        return calls, most

    def mark(self) -> int:
        return self._notes.stat().st_size


@dataclass(frozen=True)
class Figures:
    """The figures of one window of time."""

    queued: int
    seconds: float
    #: Jobs that ended in the window.
    ended: int
    #: CPU seconds of the server and of the commands that it ran.
    server_cpu: float
    commands_cpu: float
    calls: Mapping[str, int]
    #: Of Slurm's commands.
    most_at_once: int
    threads: int
    memory_mib: float
    #: Seconds from the end of a job's program to sagelet's next status, for each job that ended.
    lags: tuple[float, ...]


class Queue:
    """A server in front of a cluster. All but `rotating` nodes are held, `own` of them by the server's own jobs."""

    def __init__(self, cluster: SlurmCluster, directory: Path, rotating: int, own: int, *options: str) -> None:
        self.commands = CountedCommands(directory / "counted", cluster.environment["PATH"])
        self._environment = {**cluster.environment, "PATH": self.commands.path}
        self._before = {name: os.environ.get(name) for name in self._environment}
        os.environ.update(self._environment)
        self.server = SageletProcess(directory / "data", "--runtime", "slurm", *options).start()
        self._sagemaker = self.server.client("sagemaker")
        self._logs = self.server.client("logs")
        self.server.client("s3").create_bucket(Bucket="tests")
        self._count = 0
        others = len(cluster.nodes) - rotating - own
        if others > 0:
            wrapped = ("--output=/dev/null", f"--nodes={others}", "--wrap=sleep 86400")
            cluster.run("sbatch", "--chdir=/", *wrapped)
        self.submit(own, HOLD)

    def close(self) -> None:
        self.server.stop()
        for name, value in self._before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

    def submit(self, count: int, script: str) -> list[str]:
        names = [f"job-{number:05d}" for number in range(self._count, self._count + count)]
        self._count += count
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: self._create(name, script), names))
        return names

    def _create(self, name: str, script: str) -> None:
        self._sagemaker.create_training_job(
            TrainingJobName=name,
            AlgorithmSpecification={
                "TrainingImage": NATIVE,
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["/bin/sh", "-c", script],
            },
            RoleArn=ROLE,
            OutputDataConfig={"S3OutputPath": "s3://tests/out"},
            ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
            StoppingCondition={"MaxRuntimeInSeconds": 86400},
        )

    def describe(self, name: str) -> dict[str, Any]:
        description: dict[str, Any] = self._sagemaker.describe_training_job(TrainingJobName=name)
        return description

    def training(self) -> int:
        return len(self._all("InProgress", "Training"))

    def ended(self) -> list[str]:
        return self._all("Completed")

    def _all(self, status: str, secondary: str | None = None) -> list[str]:
        pages = self._sagemaker.get_paginator("list_training_jobs").paginate(StatusEquals=status)
        found = [one for page in pages for one in page["TrainingJobSummaries"]]
        return [one["TrainingJobName"] for one in found if secondary in (None, one.get("SecondaryStatus"))]

    def watch(self, queued: int, seconds: float) -> Figures:
        """Measures a window of time with `queued` jobs in the queue."""
        process = psutil.Process(self.server.pid)
        before, ended, mark, began = process.cpu_times(), set(self.ended()), self.commands.mark(), time.monotonic()
        threading.Event().wait(seconds)
        after, took, calls = process.cpu_times(), time.monotonic() - began, self.commands.since(mark)
        threads, memory = process.num_threads(), process.memory_info().rss / 2**20
        done = set(self.ended()) - ended
        return Figures(
            queued,
            took,
            len(done),
            after.user + after.system - before.user - before.system,
            after.children_user + after.children_system - before.children_user - before.children_system,
            dict(calls[0]),
            calls[1],
            threads,
            memory,
            tuple(sorted(self._lag(name) for name in done)),
        )

    def _lag(self, name: str) -> float:
        """Returns the delay between two times of this machine's clock."""
        streams = self._logs.describe_log_streams(
            logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=f"{name}/"
        )["logStreams"]
        events = self._logs.get_log_events(
            logGroupName="/aws/sagemaker/TrainingJobs", logStreamName=streams[0]["logStreamName"]
        )["events"]
        said = next(int(event["message"]) for event in events if event["message"].isdigit())
        uploading = next(
            one for one in self.describe(name)["SecondaryStatusTransitions"] if one["Status"] == "Uploading"
        )
        return float(uploading["StartTime"].timestamp()) - said / 1000


def wait_until_held(queue: Queue, holding: int) -> None:
    """Waits until `holding` nodes are held."""
    until(lambda: queue.training() >= holding, seconds=1200, every=1.0)
