"""One job of a script that does next to nothing, against a bare `docker run` and the SDK's local mode.

The script, the image and the toolkit in it are the same in all three: what differs is what is done around them.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import runtimes
from bench.runtimes import User
from bench.tables import Bar, Scale, Table
from bench.training import BUCKET, spread, until
from sagelet_engine.base.keys import read_key_pair
from sagelet_engine.images.engine import connect
from sagelet_engine.runtimes.docker.engine import probe
from sagelet_engine.runtimes.docker.spec import JOB_NAME
from support.jobs import archive

ROOT = Path(__file__).resolve().parents[3]
SDK_PYTHON = ROOT / ".venv-sdk" / "bin" / "python"
ROUNDS = {Scale.FULL: 7, Scale.SHORT: 1}
OVERHEAD_BAR_S = 0.5
MARK = "mark at "
SCRIPT = f"""
import time
print(f"{MARK}{{time.time():.6f}}", flush=True)
with open("/opt/ml/model/model.bin", "wb") as model:
    model.write(bytes(100_000))
print(f"{MARK}{{time.time():.6f}}", flush=True)
"""
BARE, LOCAL = "bare docker run", "SDK v2, local mode"


@dataclass(frozen=True)
class Run:
    """One run, in seconds from its beginning."""

    first_line: float
    last_line: float
    total: float


def run(scale: Scale) -> list[Table]:
    places, absent = runtimes.found()
    usable = [place for place in places if place.python]
    absent |= {f"sagelet, {place.name}": place.without_python for place in places if not place.python}
    runs: dict[str, list[Run]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-job-") as directory, ExitStack() as stack:
        users = stack.enter_context(runtimes.servers(usable, Path(directory)))
        for user in users:
            _upload_script(user)
        kinds: dict[str, Any] = {f"sagelet, {user.place.name}": lambda user=user: _job(user) for user in users}
        docker = next((user for user in users if user.place.name == "docker"), None)
        if docker is not None:
            bare = Bare.like(docker, Path(directory))
            kinds = {BARE: bare.run, **kinds}
            absent |= _with_local_mode(scale, docker, Path(directory), stack, kinds)
        for kind in kinds.values():  # once for caches, of images and of programs
            kind()
        for _ in range(ROUNDS[scale]):
            for name, kind in kinds.items():
                runs.setdefault(name, []).append(kind())
    return [_totals(runs, absent)]


# --- the tables -------------------------------------------------------------------------------------------------------


def _totals(runs: dict[str, list[Run]], absent: dict[str, str]) -> Table:
    rounds = max(map(len, runs.values()))
    planned = rounds * len(runs)
    return Table(
        "A job, from its beginning to its model",
        ("how", "first line s", "total s", "total, min-max", "above the bare run, s", "min-max"),
        (
            *(_total_row(name, found, runs.get(BARE)) for name, found in runs.items()),
            *((name, f"left out: {why}", "", "", "", "") for name, why in absent.items()),
        ),
        "A script that prints two lines and writes a model of 100 kB, in the training image, through its toolkit; no "
        "torch. sagelet: from CreateTrainingJob until DescribeTrainingJob, asked 50 times a second, says Completed and "
        "the model is in S3. The bare run has the job's command, environment and directory, until `docker run "
        "--rm` is over. Local mode: `fit()` of a process that has loaded the SDK, with sagelet's S3. Medians of "
        f"{rounds} rounds, one of each in turns; what is above is of the pairs of a round.",
        tuple(
            Bar(
                f"seconds above a bare docker run, {name}",
                median(_above(found, runs[BARE])),
                OVERHEAD_BAR_S,
                at_most=True,
            )
            for name, found in runs.items()
            if name == "sagelet, docker"
        ),
        {"runs": sum(map(len, runs.values())), "runs planned": planned},
    )


def _above(found: list[Run], bare: list[Run]) -> list[float]:
    return [one.total - other.total for one, other in zip(found, bare, strict=True)]


def _total_row(name: str, found: list[Run], bare: list[Run] | None) -> tuple[str | float | int, ...]:
    first, totals = median(one.first_line for one in found), [one.total for one in found]
    row = (name, round(first, 2), round(median(totals), 2), spread(totals))
    if bare is None or name == BARE:
        return (*row, "", "")
    above = _above(found, bare)
    return (*row, round(median(above), 2), spread(above))


def _upload_script(user: User) -> None:
    body = archive({"train.py": SCRIPT})
    user.account.s3.put_object(Bucket=BUCKET, Key="code/sourcedir.tar.gz", Body=body)


def _submit(user: User) -> str:
    source = f'"s3://{BUCKET}/code/sourcedir.tar.gz"'
    parameters = {"sagemaker_program": '"train.py"', "sagemaker_submit_directory": source}
    return user.account.submit(image=user.place.image, HyperParameters=parameters)


def _job(user: User) -> Run:
    begin = time.time()
    name = _submit(user)
    description = user.account.ended(name)
    end = time.time()
    if description["TrainingJobStatus"] != "Completed":
        raise RuntimeError(f"{name}: {description.get('FailureReason')}")
    user.account.s3.head_object(Bucket=BUCKET, Key=f"out/{name}/output/model.tar.gz")
    return Run(*_marks(user.account.lines(name), begin), end - begin)


def _marks(lines: list[str], begin: float) -> tuple[float, float]:
    """Seconds until the script's first and last line."""
    first, last = (float(line.partition(MARK)[2]) - begin for line in lines if MARK in line)
    return first, last


# --- docker run -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bare:
    """`docker run` of what a job's container was."""

    command: tuple[str, ...]
    #: What the container sees as /opt/ml.
    opt_ml: Path

    @classmethod
    def like(cls, user: User, directory: Path) -> "Bare":
        """Looks at the container of a job while it is there."""
        client, name = connect(), _submit(user)
        filters = {"label": f"{JOB_NAME}={name}"}
        (facts,) = until(
            "the container",
            lambda: [one.attrs for one in client.containers.list(all=True, ignore_removed=True, filters=filters)],
        )
        user.account.ended(name)
        source = next(bind.split(":")[0] for bind in facts["HostConfig"]["Binds"] if bind.endswith(":/opt/ml:rw"))
        opt_ml = directory / "bare"
        shutil.copytree(source, opt_ml, symlinks=True)
        variables = [word for pair in facts["Config"]["Env"] for word in ("-e", pair)]
        mount = ["-v", f"{opt_ml}:/opt/ml", "--hostname", facts["Config"]["Hostname"]]
        return cls(
            ("docker", "run", "--rm", *mount, *variables, facts["Config"]["Image"], *facts["Config"]["Cmd"]), opt_ml
        )

    def run(self) -> Run:
        model = self.opt_ml / "model" / "model.bin"
        model.unlink(missing_ok=True)
        begin = time.time()
        done = subprocess.run(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
        total = time.time() - begin
        if not model.exists():
            raise RuntimeError(f"the bare run left no model: {done.stdout[-2000:]}")
        return Run(*_marks(done.stdout.splitlines(), begin), total)


# --- local mode -------------------------------------------------------------------------------------------------------


def _with_local_mode(
    scale: Scale, user: User, directory: Path, stack: ExitStack, kinds: dict[str, Any]
) -> dict[str, str]:
    """Adds it to the kinds, or says why not."""
    if scale is Scale.SHORT:
        return {LOCAL: "in the full run only"}
    if not SDK_PYTHON.exists():
        return {LOCAL: "the SDK is not there: `make setup-sdk`"}
    if not _has_compose():
        return {LOCAL: "it needs Docker Compose, which is not there (Debian: the package docker-compose)"}
    process = stack.enter_context(_local_mode(user, directory))
    kinds[LOCAL] = lambda: _local_job(process)
    return {}


def _has_compose() -> bool:
    """What the SDK looks for."""
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, text=True)
    return "v2" in plugin.stdout or shutil.which("docker-compose") is not None


@contextmanager
def _local_mode(user: User, directory: Path) -> Iterator["subprocess.Popen[str]"]:
    script = directory / "train.py"
    script.write_text(SCRIPT)
    command = [str(SDK_PYTHON), str(ROOT / "tests" / "bench" / "local_mode.py"), user.place.image, BUCKET, str(script)]
    before = _composed(user.place.image)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, **_reachable(user), "TMPDIR": str(directory)}, cwd=directory,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            for container in _composed(user.place.image) - before:
                connect().api.remove_container(container, force=True)


def _composed(image: str) -> set[str]:
    """The containers of Docker Compose: local mode leaves its own."""
    filters = {"label": "com.docker.compose.project", "ancestor": image}
    return {one["Id"] for one in connect().api.containers(all=True, filters=filters)}


def _reachable(user: User) -> dict[str, str]:
    """The server as containers of another network reach it, who have to sign."""
    facts, keys = probe(), read_key_pair(user.data)
    assert facts is not None
    assert keys is not None
    port = user.account.s3.meta.endpoint_url.rpartition(":")[2]
    return {
        "AWS_ENDPOINT_URL": f"http://{facts.bridge_gateway}:{port}",
        "AWS_ACCESS_KEY_ID": "123456789012",
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
            told = json.loads(line)
            return Run(*_marks(lines, told["begin"]), told["end"] - told["begin"])
    raise RuntimeError("local mode ended: " + "\n".join(lines[-30:]))
