"""One job of a script that does next to nothing, against a bare `docker run` and the SDK's local mode.

All three have the same script, image and toolkit. They differ in what is done around these.
"""

import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench import local_mode
from bench.servers import Place, places
from bench.tables import Bar, Figure, Row, Scale, Table, in_turns
from sagelet_engine.base.keys import read_key_pair
from sagelet_engine.images.engine import connect
from sagelet_engine.runtimes.docker.engine import probe
from sagelet_engine.runtimes.docker.spec import JOB_NAME
from support.clients import ENVIRONMENT, NO_TELEMETRY
from support.server import ACCOUNT, ENDED, until

HEADS = (
    ("how", "first line s", "total s", "above the bare run, s", "promised"),
    ("how", "jobs", "first tenth s", "last tenth s", "rise s", "above the bare run, s", "promised"),
)
ROUNDS = {Scale.FULL: 7, Scale.SHORT: 1}
#: Jobs of a command that does nothing, one after the other.
IN_A_ROW = {Scale.FULL: 200, Scale.SHORT: 2}
NOTHING = ("/bin/sh", "-c", "true")
#: Seconds, with Docker above `docker run` and as a process from the beginning; and the rise over all jobs, which is
#: more than the pause between two looks for a job's end.
ABOVE_S, PROCESS_S, RISE_S = 0.15, 0.3, 0.03
MARK = "mark at "
SCRIPT = f"""
import time
print(f"{MARK}{{time.time():.6f}}", flush=True)
with open("/opt/ml/model/model.bin", "wb") as model:
    model.write(bytes(100_000))
"""
BARE, LOCAL = "bare docker run", "SDK v2, local mode"


class Run(NamedTuple):
    """One run, in seconds from its beginning."""

    first_line: float
    total: float


def run(scale: Scale, directory: Path) -> list[Table]:
    rounds = ROUNDS[scale]
    with ExitStack() as stack:
        users, absent = stack.enter_context(places(directory))
        ways: dict[str, Callable[[], Run]] = {f"sagelet, {place.name}": partial(_job, place) for place in users}
        for docker in users[1:]:
            ways = {BARE: Bare.like(docker, directory).run, **ways}
            if why := _no_local_mode(scale):
                absent = [*absent, f"Left out: {LOCAL}: {why}."]
            else:
                ways[LOCAL] = partial(_local_job, stack.enter_context(_local_mode(docker, directory)))
        if scale is Scale.FULL:
            in_turns(1, ways)  # fills the caches of images and of programs
        runs = in_turns(rounds, ways)
        in_a_row = [_in_a_row(place, IN_A_ROW[scale]) for place in users]
    conditions = (
        "A script that prints a line and writes a model of 100 kB, through the training image's toolkit; no torch. "
        "sagelet: from CreateTrainingJob until DescribeTrainingJob, asked 50 times a second, says Completed. The bare "
        "run has the job's command, environment and directory, until `docker run --rm` is over. Local mode: `fit()` of "
        f"a process that has loaded the SDK, with sagelet's S3. Medians of {rounds} rounds in turns; what is above the "
        "bare run is of the pairs of a round."
    )
    rows = [_row(way, found, runs.get(BARE)) for way, found in runs.items()]
    counts = {"runs": (sum(map(len, runs.values())), rounds * len(ways))}
    return [
        Table("A job, from its beginning to its model", HEADS[0], rows, " ".join([conditions, *absent]), counts),
        Table(
            "Jobs in a row",
            HEADS[1],
            in_a_row,
            f"A job of `{' '.join(NOTHING)}`, which has no toolkit and leaves no model; the next one is created when "
            "DescribeTrainingJob says Completed. Every tenth job is compared to a bare `docker run --rm`. Medians.",
        ),
    ]


def _row(way: str, found: list[Run], bare: list[Run] | None) -> Row:
    figures = (Figure.of([one.first_line for one in found]), Figure.of([one.total for one in found]))
    if bare is None or way == BARE:
        return way, *figures, "", ""
    above = Figure.of([one.total - other.total for one, other in zip(found, bare, strict=True)])
    promised = Bar("above the bare run, s", above, ABOVE_S, at_most=True) if way == "sagelet, docker" else ""
    return way, *figures, above, promised


def _in_a_row(place: Place, jobs: int) -> Row:
    """Runs jobs of a command that does nothing."""
    on_docker = place.name == "docker"
    found: list[float] = []
    above: list[float] = []
    for number in range(jobs):
        name = place.training.submit(
            SCRIPT, image=place.training_image, instance_type="ml.m5.large", entrypoint=list(NOTHING)
        )
        found.append(_completed(place, name)[1])
        if on_docker and (number + 1) % min(10, jobs) == 0:
            began = time.perf_counter()
            command = ("docker", "run", "--rm", "--entrypoint", NOTHING[0], place.training_image, *NOTHING[1:])
            subprocess.run(command, check=True, capture_output=True)
            above.append(found[-1] - (time.perf_counter() - began))
    tenth = max(1, jobs // 10)
    first, last = Figure.of(found[:tenth]), Figure.of(found[-tenth:])
    rise = statistics.median(found[-tenth:]) - statistics.median(found[:tenth])
    bars = [Bar("rise s", rise, RISE_S, at_most=True)]
    bars += [Bar("above the bare run, s", Figure.of(above), ABOVE_S, at_most=True)] if on_docker else []
    bars += [] if on_docker else [Bar("last tenth s", last, PROCESS_S, at_most=True)]
    what = Figure.of(above) if on_docker else ""
    return f"sagelet, {place.name}", jobs, first, last, rise, what, "; ".join(map(str, bars))


def _submit(place: Place) -> str:
    return place.training.submit(SCRIPT, image=place.training_image, instance_type="ml.m5.large")


def _job(place: Place) -> Run:
    jobs, name = place.training, _submit(place)
    begin, total = _completed(place, name)
    jobs.artifact(name)
    return Run(_mark(jobs.log(name), begin), total)


def _completed(place: Place, name: str) -> tuple[float, float]:
    """Waits for a job's end. Returns when it was created, since the epoch, and how many seconds it took."""
    jobs = place.training
    until(lambda: jobs.describe(name)["TrainingJobStatus"] in ENDED, every=0.02)
    end, description = time.time(), jobs.describe(name)
    if description["TrainingJobStatus"] != "Completed":
        raise RuntimeError(f"{name}: {description.get('FailureReason')}")
    begin = description["CreationTime"].timestamp()
    return begin, end - begin


def _mark(lines: list[str], begin: float) -> float:
    """Seconds until the script's line."""
    (mark,) = (line for line in lines if MARK in line)
    return float(mark.partition(MARK)[2]) - begin


# --- docker run -------------------------------------------------------------------------------------------------------


class Bare(NamedTuple):
    """`docker run` of a job's container."""

    command: tuple[str, ...]
    #: The container's /opt/ml on this machine.
    opt_ml: Path

    @classmethod
    def like(cls, place: Place, directory: Path) -> "Bare":
        """Looks at the container of a job while it exists."""
        client, name = connect(), _submit(place)
        query: dict[str, Any] = {"all": True, "ignore_removed": True, "filters": {"label": f"{JOB_NAME}={name}"}}
        (facts,) = until(lambda: [one.attrs for one in client.containers.list(**query)])
        place.training.ended(name)
        source = next(bind.split(":")[0] for bind in facts["HostConfig"]["Binds"] if bind.endswith(":/opt/ml:rw"))
        opt_ml = directory / "bare"
        shutil.copytree(source, opt_ml, symlinks=True)
        config = facts["Config"]
        variables = [word for pair in config["Env"] for word in ("-e", pair)]
        options = ["-v", f"{opt_ml}:/opt/ml", "--hostname", config["Hostname"], *variables]
        return cls(("docker", "run", "--rm", *options, config["Image"], *config["Cmd"]), opt_ml)

    def run(self) -> Run:
        model = self.opt_ml / "model" / "model.bin"
        model.unlink(missing_ok=True)
        begin = time.time()
        done = subprocess.run(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
        total = time.time() - begin
        if not model.exists():
            raise RuntimeError(f"the bare run left no model: {done.stdout[-2000:]}")
        return Run(_mark(done.stdout.splitlines(), begin), total)


# --- local mode -------------------------------------------------------------------------------------------------------


def _no_local_mode(scale: Scale) -> str:
    """The reason why local mode cannot run, or an empty text."""
    if scale is Scale.SHORT:
        return "in the full run only"
    if not ENVIRONMENT.exists():
        return "the SDK is not there: `make setup-sdk`"
    # As the SDK looks for it.
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, text=True)
    has_compose = "v2" in plugin.stdout or shutil.which("docker-compose") is not None
    return "" if has_compose else "it needs Docker Compose (Debian: the package docker-compose)"


@contextmanager
def _local_mode(place: Place, directory: Path) -> Iterator["subprocess.Popen[str]"]:
    script = directory / "train.py"
    script.write_text(SCRIPT)
    python = ENVIRONMENT / "bin" / "python"
    before = _composed(place)
    with subprocess.Popen(
        [python, local_mode.__file__, place.training_image, "tests", script],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, **_reachable(place), **NO_TELEMETRY, "TMPDIR": str(directory)}, cwd=directory,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            # Local mode leaves its containers.
            for container in _composed(place) - before:
                connect().api.remove_container(container, force=True)


def _composed(place: Place) -> set[str]:
    """The containers of Docker Compose."""
    filters = {"label": "com.docker.compose.project", "ancestor": place.training_image}
    return {one["Id"] for one in connect().api.containers(all=True, filters=filters)}


def _reachable(place: Place) -> dict[str, str]:
    """Variables by which containers of another network reach the server. They have to sign."""
    facts, keys = probe(), read_key_pair(place.server.data)
    assert facts is not None
    assert keys is not None
    port = place.server.endpoint.rpartition(":")[2]
    return {
        "AWS_ENDPOINT_URL": f"http://{facts.bridge_gateway}:{port}",
        "AWS_ACCESS_KEY_ID": ACCOUNT,
        "AWS_SECRET_ACCESS_KEY": keys.secret,
        "AWS_DEFAULT_REGION": "us-east-1",
        "PYTHONPATH": "",
    }


def _local_job(process: "subprocess.Popen[str]") -> Run:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if line.startswith('{"begin": '):
            times: dict[str, Any] = json.loads(line)
            return Run(_mark(lines, times["begin"]), times["end"] - times["begin"])
    raise RuntimeError("local mode ended: " + "\n".join(lines[-30:]))
