"""`sagelet demo`: trains a model natively and by both compilers, with only what is installed."""

import os
import shlex
import socket
import sysconfig
import time
from pathlib import Path
from urllib.parse import urlencode

import click

import sagelet_api
from sagelet_api.cli import repeating
from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ask, ask_health
from sagelet_api.cli.detached import start_detached, stop_server
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import console
from sagelet_api.cli.submission import (
    COMPILE,
    COMPILED_IMAGE,
    NATIVE_IMAGE,
    ensure_bucket,
    role_of,
    upload_sources,
)
from sagelet_api.cli.text import echo_json
from sagelet_api.cli.training_jobs import Job
from sagelet_api.cli.wait import exit_code, outcome, until_ended
from sagelet_api.comparison import table
from sagelet_api.servers.server import Server
from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.comparison.repeated import FEWEST_PAIRS, MOST_PAIRS
from sagelet_engine.comparison.result import Comparison
from sagelet_engine.settings import DEFAULT_PORT
from sagelet_engine.state.notice import read_notice

BUCKET = "sagelet-demo"
TEXT_BYTES = 500_000
IMAGES = {"native": NATIVE_IMAGE, "compiled": COMPILED_IMAGE, "inductor": COMPILED_IMAGE}
#: Environment of the jobs that need one.
ENVIRONMENTS = {"inductor": {"SAGELET_COMPILER": "inductor"}}
NUMBER = "([0-9.e+-]+)"
METRICS = [
    {"Name": "train_loss", "Regex": f"'loss': {NUMBER}"},
    {"Name": "train_samples_per_second", "Regex": f"'train_samples_per_second': {NUMBER}"},
]


#: Said beforehand. Measured on two CPU cores of an AMD EPYC.
_EXPECT = "Three trainings of a small GPT-2, natively, by XLA and by Inductor: 20 to 60 s each on two CPU cores"


class NoDemo(SageletError):
    """Something that the demo needs is not installed."""


@click.command()
@click.option("--steps", type=click.IntRange(min=20), default=30, show_default=True, help="Training steps of each job.")
@click.option(
    "--repeat",
    type=click.IntRange(FEWEST_PAIRS, MOST_PAIRS),
    metavar="N",
    help="Then train native and compiled N times more, in turn, for a verdict with intervals on each compiler.",
)
@click.option("--down", "end", is_flag=True, help="End the server afterwards if the demo has started it.")
@json_option
@click.pass_context
@server_options
def demo(context: click.Context, steps: int, repeat: int | None, end: bool, as_json: bool, server: Server) -> None:
    """Train a GPT-2 natively, by XLA and by Inductor; compare.

    Needs no checkout and no SDK. It trains on the sources of Python's standard library, on the server that runs, or on
    one that it starts and leaves running. Exits with 3 when a job fails.
    """
    server, own = _running(server, quiet=as_json)
    try:
        _train_and_compare(context, server, steps, repeat, own=own, end=end, as_json=as_json)
    except KeyboardInterrupt:
        if own:
            down = f"sagelet down --data {shlex.quote(str(server.data))}"
            click.echo(f"\nThe server that this has started runs on: `{down}` ends it", err=True)
        raise


def _train_and_compare(
    context: click.Context, server: Server, steps: int, repeat: int | None, *, own: bool, end: bool, as_json: bool
) -> None:
    _say(_EXPECT, quiet=as_json)
    aws = Aws(server)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    # Uploaded once: objects that were written after a job's start would make the comparison doubt its data.
    _bring_text(aws, server)
    jobs = []
    for kind in IMAGES:
        name = f"demo-{kind}-{stamp}"
        _submit(aws, server, name, kind, steps)
        _say(f"{name}: submitted ({IMAGES[kind]})", quiet=as_json)
        jobs += until_ended(aws, server, [name])
        _say(outcome(aws, jobs[-1]), quiet=as_json)
        if code := exit_code(jobs):
            _say(f"`sagelet logs {name}` shows what it printed; `sagelet doctor` checks the machine", quiet=False)
            context.exit(code)
    if repeat is None or not as_json:
        _compare(server, jobs, as_json=as_json)
    if repeat is not None:
        _repeat(aws, server, jobs, repeat, as_json=as_json)
    if own and end:
        stop_server(server.data)
    elif not as_json:
        _what_next(server, jobs, own=own)


def _running(server: Server, *, quiet: bool) -> tuple[Server, bool]:
    """Returns the server that is named or runs, otherwise one that it starts on the data directory; and True if it
    started one."""
    if server.address is not None and (server.is_named or read_notice(server.data) is not None):
        ask_health(server)
        return server, False
    port = [] if "SAGELET_PORT" in os.environ else ["--port", str(_port())]
    started = start_detached(server.data, ["up", "--data", str(server.data), *port])
    _say(started.output.rstrip(), quiet=quiet)
    return server.at(started.notice.endpoint), True


def _port() -> int:
    """Returns the port that every document names, if it is free."""
    try:
        with socket.create_server(("127.0.0.1", DEFAULT_PORT)):
            return DEFAULT_PORT
    except OSError:
        return 0


def _bring_text(aws: Aws, server: Server) -> None:
    ensure_bucket(aws, server, BUCKET)
    aws.call("s3", "put_object", Bucket=BUCKET, Key="train/stdlib.txt", Body=_text())


def _submit(aws: Aws, server: Server, name: str, kind: str, steps: int) -> None:
    sources = upload_sources(aws, BUCKET, f"{name}/sourcedir.tar.gz", scripts() / "train.py", None)
    aws.call(
        "sagemaker",
        "create_training_job",
        TrainingJobName=name,
        AlgorithmSpecification={
            "TrainingImage": IMAGES[kind],
            "TrainingInputMode": "File",
            "MetricDefinitions": METRICS,
        },
        RoleArn=role_of(server),
        InputDataConfig=[
            {
                "ChannelName": "train",
                "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/train"}},
            }
        ],
        OutputDataConfig={"S3OutputPath": f"s3://{BUCKET}/"},
        ResourceConfig={"InstanceType": "ml.g4dn.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 10},
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
        HyperParameters={
            **sources,
            "max_steps": str(steps),
            "batch_size": "8",
            **(COMPILE if kind != "native" else {}),
        },
        Environment=ENVIRONMENTS.get(kind, {}),
    )


def scripts() -> Path:
    """Returns the directory of train.py: in an installed wheel `sagelet_api/_demo`, in a checkout
    `examples/gpt2/scripts`.
    """
    package = Path(sagelet_api.__file__).resolve().parent
    for found in (package / "_demo", package.parents[1] / "examples" / "gpt2" / "scripts"):
        if (found / "train.py").is_file():
            return found
    raise NoDemo(f"The demo's training script is not there ({package / '_demo'}): install sagelet again")


def _text() -> bytes:
    """Returns real text that every machine has: the sources of Python's standard library."""
    parts: list[bytes] = []
    for source in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        if sum(map(len, parts)) >= TEXT_BYTES:
            break
        parts.append(source.read_bytes())
    return b"".join(parts)


def _compare(server: Server, jobs: list[Job], *, as_json: bool) -> None:
    names = [("job", job["TrainingJobName"]) for job in jobs]
    query = urlencode([*names, ("account", server.account), ("region", server.region)])
    answer = ask(server, "GET", f"compare?{query}")
    if as_json:
        echo_json(answer)
        return
    click.echo()
    table.show(Comparison.from_json(answer), console())


def _repeat(aws: Aws, server: Server, jobs: list[Job], pairs: int, *, as_json: bool) -> None:
    """Judges each compiled job against the native one. As JSON: XLA's verdict and pairs, and Inductor's within it."""
    native, *compiled = (str(job["TrainingJobName"]) for job in jobs)
    found: list[JsonObject] = []
    for name in compiled:
        verdict, comparisons = repeating.repeat(aws, server, (native, name), pairs)
        found.append({"verdict": verdict.to_json(), "pairs": [one.to_json() for one in comparisons]})
        if not as_json:
            click.echo()
            table.show_verdict(verdict, console())
    if as_json:
        echo_json({**found[0], "inductor": found[1]})


def _what_next(server: Server, jobs: list[Job], *, own: bool) -> None:
    names = [str(job["TrainingJobName"]) for job in jobs]
    lines = [
        f"sagelet report {names[-1]}",
        f"sagelet compare {' '.join(names)} --html report.html",
        "sagelet demo --repeat 3      # verdicts: one run of each does not say which is faster",
        "sagelet run -- python YOUR_PROGRAM.py      # boto3, the SageMaker SDKs",
        f"{server.endpoint}/      # in a browser",
    ]
    if own:
        lines.append("sagelet down      # the server that this has started runs on until then")
    click.echo("\nWhat next:\n" + "\n".join(f"  {line}" for line in lines))


def _say(text: str, *, quiet: bool) -> None:
    click.echo(text, err=quiet)
