"""Trains two jobs again several times, in turn: what `sagelet compare --repeat` and `sagelet demo --repeat` measure."""

import os
import re
import statistics
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import click
from botocore.session import Session as BotocoreSession

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ask
from sagelet_api.cli.exit_codes import EndedWith
from sagelet_api.cli.kinds import Job
from sagelet_api.cli.training_jobs import TRAINING
from sagelet_api.cli.wait import exit_code, outcome, until_ended
from sagelet_api.protocol.members import Parameters
from sagelet_api.servers.server import Server
from sagelet_engine.comparison.repeated import Verdict, judge
from sagelet_engine.comparison.result import Comparison

#: Members of CreateTrainingJob that a copy must not have, because they would add it to the original's experiment.
_LEFT_OUT = ("ExperimentConfig",)
#: botocore shape TrainingJobName: characters of a name.
_LONGEST_NAME = 63
_MHZ = re.compile(r"^cpu MHz\s*:\s*([\d.]+)", re.MULTILINE)


class RunFailed(EndedWith):
    """A repeated run did not complete, so there is no verdict. The exit code is that of `sagelet wait`."""


def repeat(aws: Aws, server: Server, names: tuple[str, str], pairs: int) -> tuple[Verdict, list[Comparison]]:
    """Trains copies of a native and a compiled job `pairs` times, and judges them. Says what it does on stderr.

    The order is reversed from pair to pair (A B, B A, ...), so that neither job always has the warmer machine. Raises
    RunFailed. Raises ServerRefused for jobs that are not comparable, before it trains anything.
    """
    _compared(server, names)
    originals = [TRAINING.describe(aws, server, name) for name in names]
    here = urlsplit(server.endpoint).hostname in ("127.0.0.1", "localhost", "::1")
    load: list[float] = []
    frequency: list[float] = []
    comparisons = []
    for number in range(pairs):
        ran: dict[int, str] = {}
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            if here:
                load.append(round(os.getloadavg()[0], 2))
                frequency += _frequency()
            ran[side] = _run(aws, server, originals[side], f"pair {number + 1} of {pairs}")
        comparisons.append(_compared(server, (ran[0], ran[1])))
    return judge(comparisons, load, frequency), comparisons


def _run(aws: Aws, server: Server, original: Job, which: str) -> str:
    request = copy_of(original)
    name = str(request["TrainingJobName"])
    click.echo(f"{which}: {name}", err=True)
    aws.call("sagemaker", "create_training_job", **request)
    jobs = until_ended(aws, server, [name])
    if code := exit_code(jobs):
        raise RunFailed(
            f"There is no verdict, because {which} did not complete: {outcome(aws, jobs[0])}\n"
            f"`sagelet doctor {name}` says why; runs before it are jobs that `sagelet compare` can show",
            code,
        )
    return name


def copy_of(job: Job) -> Parameters:
    """Returns the request that trains a described job again, under a name and with checkpoints of its own."""
    name = f"{job['TrainingJobName'][: _LONGEST_NAME - 9].rstrip('-')}-{uuid.uuid4().hex[:8]}"
    request = {member: job[member] for member in _members() if member in job and member not in _LEFT_OUT}
    request["TrainingJobName"] = name
    checkpoints: Mapping[str, Any] | None = request.get("CheckpointConfig")
    if checkpoints:
        # The original's checkpoints would let the copy begin where the original ended.
        request["CheckpointConfig"] = {**checkpoints, "S3Uri": f"{checkpoints['S3Uri'].rstrip('/')}-{name}/"}
    return request


def _members() -> Iterator[str]:
    shape = BotocoreSession().get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape
    return iter(shape.members)


def _compared(server: Server, names: tuple[str, str]) -> Comparison:
    query = urlencode([*(("job", name) for name in names), ("account", server.account), ("region", server.region)])
    return Comparison.from_json(ask(server, "GET", f"compare?{query}"))


def _frequency() -> list[float]:
    """Returns the median frequency of the CPUs now, in MHz. Empty if Linux does not report it."""
    try:
        found = [float(mhz) for mhz in _MHZ.findall(Path("/proc/cpuinfo").read_text(encoding="ascii"))]
    except OSError:
        return []
    return [round(statistics.median(found), 1)] if found else []
