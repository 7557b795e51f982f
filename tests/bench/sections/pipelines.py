"""Pipelines: what a step costs above its job, and how long a long list of steps takes."""

import itertools
import time
from functools import partial
from pathlib import Path
from typing import Any

from bench import lists
from bench.tables import Bar, Cell, Figure, Scale, Table, in_turns
from sagelet.testing import FastForward, ProcessingJob
from support import pipelines
from support.processing import processing_request
from support.server import SageletProcess

HEADS = (("plain processing job s", "step s", "above it, s", "promised"), lists.HEADS)
#: Rounds, jobs or steps of a round, and lists of all steps in a round.
PLANS = {Scale.FULL: (7, 10, 30), Scale.SHORT: (1, 3, 3)}
LISTED, PAGE = 1000, 100
_fresh = itertools.count()


def run(scale: Scale, directory: Path) -> list[Table]:
    rounds, jobs, count = PLANS[scale]
    with FastForward(directory) as server:
        overhead, arn, data = _overhead(server, rounds, jobs), _executed(server), server.data
    return [overhead, _lists(data, arn, rounds, count)]


def _started(server: FastForward, *steps: dict[str, Any]) -> str:
    sagemaker, name = server.session().client("sagemaker"), f"pipe-{next(_fresh):05}"
    text = pipelines.definition(*steps)
    sagemaker.create_pipeline(PipelineName=name, PipelineDefinition=text, RoleArn=pipelines.ROLE)
    return str(sagemaker.start_pipeline_execution(PipelineName=name)["PipelineExecutionArn"])


def _overhead(server: FastForward, rounds: int, jobs: int) -> Table:
    @server.process
    def work(job: ProcessingJob) -> None:
        job.clock.advance(60)

    ways = {"plain": partial(_plain, server, jobs), "steps": partial(_steps, server, jobs)}
    in_turns(1, ways)  # once for what is loaded at its first use
    found = in_turns(rounds, ways)
    above = Figure.of([step - plain for step, plain in zip(found["steps"], found["plain"], strict=True)])
    bar = Bar("above it, s", above, 0.1, at_most=True)
    rows: list[tuple[Cell, ...]] = [(Figure.of(found["plain"]), Figure.of(found["steps"]), above, bar)]
    return Table(
        "A step and a plain processing job",
        HEADS[0],
        rows,
        f"In fast-forward: {jobs} processing jobs of a function one after the other, seconds for each. A plain one is "
        "created when the one before it is seen to have ended, the others are the steps of one execution. Medians of "
        f"{rounds} rounds in turns.",
        {"rounds": (len(found["steps"]), rounds)},
    )


def _plain(server: FastForward, jobs: int) -> float:
    sagemaker, began = server.session().client("sagemaker"), time.monotonic()
    for _ in range(jobs):
        name = f"plain-{next(_fresh):05}"
        sagemaker.create_processing_job(**processing_request(name))
        server.wait(name, "Completed", kind="processing")
    return (time.monotonic() - began) / jobs


def _steps(server: FastForward, jobs: int) -> float:
    body, began = processing_request("x"), time.monotonic()
    del body["ProcessingJobName"]
    chain = [pipelines.step(f"s{n}", "Processing", body, DependsOn=[f"s{n - 1}"] if n else []) for n in range(jobs)]
    server.wait_execution(_started(server, *chain), "Succeeded")
    return (time.monotonic() - began) / jobs


def _lists(data: Path, arn: str, rounds: int, count: int) -> Table:
    with SageletProcess(data, "--runtime", "process") as server:
        ask = server.client("sagemaker").list_pipeline_execution_steps
        return lists.table(
            f"A list of {LISTED:,} steps", server, "ListPipelineExecutionSteps", ask,
            {"PipelineExecutionArn": arn, "MaxResults": PAGE},
            of="PipelineExecutionSteps", planned=LISTED, rounds=rounds, lists=count, most_ms=50,
        )  # fmt: skip


def _executed(server: FastForward) -> str:
    """Executes a pipeline of 1,000 steps. Returns the ARN of the execution."""
    always = [pipelines.compare("Equals", 1, 1)]
    arn = _started(server, *(pipelines.condition(f"c{n}", always, []) for n in range(LISTED)))
    server.wait_execution(arn, "Succeeded", seconds=300)
    return arn
