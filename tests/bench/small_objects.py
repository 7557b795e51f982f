"""S3 with many small objects: puts of parallel clients, and the checkpoints of a job.

Nothing is deleted between the runs: for a minute or more after 20,000 deletions ext4 takes 0.5 ms to make a file
(its `recently_deleted`).
"""

import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

from bench import load, servers
from bench.tables import Bar, Figure, Row, Table, in_turns
from support.server import NATIVE, SageletProcess, ServerProcess
from support.shell_jobs import ShellJobs

HEADS = (
    ("puts of 4 kB", "sagelet puts/s", "nothing kept puts/s", "files with fsync /s", "sagelet CPU ms", "promised"),
    ("a job's files", "sagelet s", "cp and sync s", "sagelet CPU s", "promised"),
)
BUCKET = "small"
SIZE = 4000
CLIENTS = (1, 16)
#: Promises: puts of all clients against those of one, and seconds until a job with its checkpoints is Completed.
PARALLEL, CHECKPOINTS_S = 2, 30
#: Makes files of SIZE bytes in directories of a thousand.
_SCRIPT = (
    'cd /opt/ml/checkpoints; d=$($B printf "%0{size}d" 0); i=0; while [ $i -lt {files} ]; do '
    'case $i in *000|0) $B mkdir -p $((i/1000));; esac; printf %s "$d" > $((i/1000))/$i; i=$((i+1)); done'
)


class Plan(NamedTuple):
    rounds: int
    #: Puts of each run, for all of its clients together.
    puts: int
    #: Files of the job.
    files: int


def run(plan: Plan, sagelet: SageletProcess, sink: ServerProcess, directory: Path) -> list[Table]:
    return [_puts(plan, {"sagelet": sagelet, "nothing kept": sink}, directory), _checkpoints(plan, sagelet, directory)]


# --- puts of parallel clients -----------------------------------------------------------------------------------------


class Rate(NamedTuple):
    #: A second.
    puts: float
    #: The server's, in ms a put.
    cpu: float
    done: int


def _puts(plan: Plan, both: dict[str, Any], directory: Path) -> Table:
    runs: dict[tuple[str, int], Any] = {}
    for server in both.values():
        server.client("s3").create_bucket(Bucket=BUCKET)
    for clients in CLIENTS:
        for name, server in both.items():
            runs[name, clients] = partial(_put_all, server, plan.puts, clients)
        runs["disk", clients] = partial(_write_all, directory, plan.puts, clients)
    found = in_turns(plan.rounds, runs)
    rates = {run: Figure.of([one.puts for one in several]) for run, several in found.items()}
    rows: list[Row] = []
    for clients in CLIENTS:
        figures = [rates[name, clients] for name in (*both, "disk")]
        cpu = Figure.of([one.cpu for one in found["sagelet", clients]])
        ratio = rates["sagelet", clients].over(rates["sagelet", CLIENTS[0]])
        promised = Bar("puts/s over one client's", ratio, PARALLEL) if clients > 1 else ""
        rows.append((f"by {clients} client{'s' if clients > 1 else ''}", *figures, cpu, promised))
    done = sum(one.done for several in found.values() for one in several)
    conditions = (
        f"Medians of {plan.rounds} rounds in turns, {plan.puts:,} presigned puts each, by one process with as many "
        "connections as clients. Nothing kept: the same puts to a server that forgets them. Files with fsync: as many "
        "threads write as many files, each with its own flush."
    )
    return Table("Small puts", HEADS[0], rows, conditions, {"puts": (done, plan.puts * len(runs) * plan.rounds)})


def _put_all(server: ServerProcess, puts: int, clients: int) -> Rate:
    requests = _requests(server, puts)
    servers.rest(server.process)
    before = servers.cpu(server.process)
    outcome = load.send(server.endpoint, requests, clients, b"")
    cpu = 1000 * (servers.cpu(server.process) - before) / puts
    return Rate(outcome.rate, cpu, len(outcome.seconds) - outcome.wrong)


def _requests(server: ServerProcess, puts: int) -> list[bytes]:
    s3, data, host = server.client("s3"), os.urandom(SIZE), urlsplit(server.endpoint).netloc
    made = []
    for number in range(puts):
        place = {"Bucket": BUCKET, "Key": f"{number // 100:04}/{number:06}"}
        url = urlsplit(s3.generate_presigned_url("put_object", Params=place))
        head = f"PUT {url.path}?{url.query} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {SIZE}\r\n\r\n"
        made.append(head.encode() + data)
    return made


def _write_all(directory: Path, files: int, threads: int) -> Rate:
    place = Path(mkdtemp(dir=directory))
    data = os.urandom(SIZE)

    def write(number: int) -> None:
        with (place / str(number)).open("wb", buffering=0) as out:
            out.write(data)
            os.fsync(out.fileno())

    began = perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        done = len([*pool.map(write, range(files))])
    return Rate(done / (perf_counter() - began), 0, done)


# --- checkpoints ------------------------------------------------------------------------------------------------------


def _checkpoints(plan: Plan, sagelet: SageletProcess, directory: Path) -> Table:
    jobs = ShellJobs(sagelet, NATIVE)
    runs = {"sagelet": partial(_job, jobs, plan.files), "disk": partial(_copy, directory, plan.files)}
    found = in_turns(plan.rounds, runs)
    seconds = {name: Figure.of([one[0] for one in several]) for name, several in found.items()}
    cpu = Figure.of([one[1] for one in found["sagelet"]])
    bar = Bar("s", seconds["sagelet"], CHECKPOINTS_S, at_most=True)
    row: Row = (f"{plan.files:,} checkpoint files of 4 kB", seconds["sagelet"], seconds["disk"], cpu, bar)
    conditions = (
        f"Medians of {plan.rounds} rounds in turns. sagelet: from the start of a job that writes the files and ends, "
        "until it is Completed with all of them in S3. The copy is of such files, without the writing."
    )
    done = sum(one[2] for one in found["sagelet"])
    return Table("Checkpoints", HEADS[1], [row], conditions, {"files": (done, plan.files * plan.rounds)})


Took = tuple[float, float, int]


def _job(jobs: ShellJobs, files: int) -> Took:
    """Returns seconds, CPU seconds of the server, and objects."""
    prefix = uuid4().hex
    with servers.watched(jobs.server.process) as cost:
        script = _SCRIPT.format(size=SIZE, files=files)
        name = jobs.start(script, CheckpointConfig={"S3Uri": f"s3://{BUCKET}/{prefix}"})
        told = jobs.ended(name)
    if told["TrainingJobStatus"] != "Completed":
        raise RuntimeError(f"the job with the checkpoints: {told.get('FailureReason')}")
    steps = {step["Status"]: step for step in told["SecondaryStatusTransitions"]}
    seconds = (steps["Completed"]["StartTime"] - steps["Training"]["StartTime"]).total_seconds()
    pages = jobs.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{prefix}/")
    return seconds, cost.cpu, sum(page["KeyCount"] for page in pages)


def _copy(directory: Path, files: int) -> Took:
    source, target = (Path(mkdtemp(dir=directory)) / name for name in ("source", "target"))
    for number in range(files):
        place = source / str(number // 1000)
        if not number % 1000:
            place.mkdir(parents=True)
        (place / str(number)).write_bytes(b"0" * SIZE)
    os.sync()
    return _timed(["cp", "-r", str(source), str(target)], ["sync", "-f", str(target)]), 0, files


def _timed(*commands: Sequence[str]) -> float:
    began = perf_counter()
    for command in commands:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - began


def copied_and_summed(source: Path) -> float:
    """Returns the seconds to copy a file, to bring the copy to the disk, and to compute its MD5."""
    target = source.with_name("copied")
    seconds = _timed(["cp", str(source), str(target)], ["sync", str(target)], ["md5sum", str(target)])
    target.unlink()
    return seconds
