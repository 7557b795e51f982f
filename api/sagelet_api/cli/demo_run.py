"""Follows the demo's jobs to their end, and says what they show. `sagelet demo` and `make demo` share it."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ServerRefused
from sagelet_api.cli.demo_board import Board, Row
from sagelet_api.cli.demo_figures import Figures, Mark, Run, figures, lines, mark_in
from sagelet_api.cli.demo_jobs import AGAIN, COMPILED, KINDS, NATIVE
from sagelet_api.cli.exit_codes import EndedWith
from sagelet_api.cli.kinds import Job
from sagelet_api.cli.logs import JobLog
from sagelet_api.cli.output import console
from sagelet_api.cli.text import say
from sagelet_api.cli.training_jobs import TRAINING, Wanted, activity, find
from sagelet_api.cli.wait import exit_code, outcome, said_to_run_on, until_ended
from sagelet_api.comparison.charts import Curve, Frame, line_picture
from sagelet_api.comparison.html import page
from sagelet_api.servers.server import Server
from sagelet_engine.telemetry.compiler.report import CompilerReport

#: Seconds between looks at a job.
EVERY_S = 0.25
#: What the demo does, by compiler, before it begins. Times: two CPU cores of an AMD EPYC with nothing else on them.
EXPECT = {
    "xla": "a small GPT-2 trains three times, one job after the other: compiled by XLA, natively, compiled once more; "
    "two minutes on two CPU cores (SAGELET_XLA_TRACING=once: the model is traced once, not at each step)",
    "inductor": "a small GPT-2 trains three times, one job after the other: compiled by Inductor, natively, compiled "
    "once more; a few minutes on two CPU cores, of which Inductor's first compilation takes most",
}


_EMPTY = "The jobs printed no losses"


class JobEnded(EndedWith):
    """A job of the demo did not complete. The exit code is that of `sagelet wait`."""


@dataclass(frozen=True)
class Shown:
    """What the demo showed."""

    native: Run
    compiled: Run
    again: Run
    figures: Figures

    @property
    def names(self) -> list[str]:
        """Returns the names of the jobs, the native one first."""
        return [run.name for run in (self.native, self.compiled, self.again)]

    @property
    def sentences(self) -> Sequence[str]:
        """Returns the four lines."""
        return tuple(lines(self.figures, self.compiled, self.again))


def run(server: Server, submitted: Iterable[tuple[str, str]], *, to_stderr: bool = False) -> Shown:
    """Follows jobs, kind and name each, of all KINDS. Raises JobEnded, NoServer."""
    aws = Aws(server)
    board = Board(console(stderr=to_stderr), KINDS)
    runs: dict[str, Run] = {}
    with board.shown():
        for kind, name in submitted:
            job, marks = _follow(aws, server, kind, name, board)
            if code := exit_code([job]):
                raise JobEnded(
                    f"{outcome(aws, job)}\n`sagelet logs {name}` shows what it printed; `sagelet doctor` checks the "
                    "machine",
                    code,
                )
            runs[kind] = _measured(server, name, marks)
    native, compiled, again = (runs[kind] for kind in (NATIVE, COMPILED, AGAIN))
    return Shown(native, compiled, again, figures(native, compiled, again))


def stop_running(server: Server) -> list[str]:
    """Stops the training jobs of the account and region that have not ended, and waits until they have. Returns names.

    A job outlives its server. One of a demo that was interrupted would slow the next demo down, and would fill the
    compile cache after it was emptied.
    """
    aws = Aws(server)
    names = [str(job["TrainingJobName"]) for job in find(aws, Wanted(statuses=("InProgress", "Stopping")), None)]
    for name in names:
        try:
            aws.call("sagemaker", "stop_training_job", TrainingJobName=name)
        except ServerRefused:
            # It has ended meanwhile. If it has not, it is waited for.
            continue
    if names:
        until_ended(aws, server, names)
    return names


def _follow(aws: Aws, server: Server, kind: str, name: str, board: Board) -> tuple[Job, tuple[Mark, ...]]:
    log = JobLog(aws, name, None, None)
    marks: tuple[Mark, ...] = ()
    with said_to_run_on([name]):
        while True:
            # All lines are stored before a status becomes terminal, so this order misses none.
            job = TRAINING.describe(aws, server, name)
            log.look()
            marks += tuple(mark for line in log.lines() if (mark := mark_in(line.text)))
            has_ended = TRAINING.has_ended(job)
            board.update(kind, Row(_doing(server, job, marks), marks, has_ended))
            if has_ended:
                return job, marks
            time.sleep(EVERY_S)


def _doing(server: Server, job: Job, marks: tuple[Mark, ...]) -> str:
    if TRAINING.has_ended(job):
        return TRAINING.status(job)
    return "" if marks else activity(server, job) or str(job["SecondaryStatus"])


def _measured(server: Server, name: str, marks: tuple[Mark, ...]) -> Run:
    total = CompilerReport.from_json(TRAINING.ask(server, name, "compiler-report")).total
    return Run(name, marks, tuple(total.compiling_steps), total.cache.hits, total.cache.misses)


def show(shown: Shown, path: Path, next_steps: Sequence[str]) -> None:
    """Prints the four lines, what to look at next, and the address of the page, which it writes."""
    click.echo()
    for sentence in shown.sentences:
        say(sentence)
    click.echo("\nWhat next:\n" + "\n".join(f"  {step}" for step in next_steps))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(picture(shown), encoding="utf-8")
    click.echo(f"\nThe picture: {path.absolute().as_uri()}")


def picture(shown: Shown) -> str:
    """Returns a page with the four lines and two pictures: steps by the clock, and losses by steps."""
    runs = {"native": shown.native, "compiled": shown.compiled, "compiled again": shown.again}
    by_clock = [
        Curve(label, ((0.0, 0.0), *((mark.seconds, mark.step) for mark in one.marks))) for label, one in runs.items()
    ]
    by_step = [Curve(label, tuple((mark.step, mark.loss) for mark in one.marks)) for label, one in runs.items()]
    words = " ".join(f"{sentence}." for sentence in shown.sentences)
    steps = Frame("steps", "Steps by the clock", "Steeper is faster", "Steps", description=words)
    losses = Frame("loss", "Training loss", "Where curves coincide, losses agree", "Loss", description=words)
    pictures = (
        line_picture(steps, "Seconds", by_clock, _EMPTY),
        line_picture(losses, "Steps", by_step, _EMPTY),
    )
    return page("One training, natively and compiled", shown.sentences, pictures)
