"""`sagelet tune`: hyperparameter tuning jobs and their training jobs, and the search for the largest batch."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.batch_size import batch_size
from sagelet_api.cli.job_actions import delete_command, stop_command
from sagelet_api.cli.kind_rows import described, named
from sagelet_api.cli.listing import list_command
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import Column, console, facts, show_rows, status_text
from sagelet_api.cli.suggestions import Suggesting
from sagelet_api.cli.text import echo_json, say
from sagelet_api.cli.tuning_jobs import TUNING, trials_in_words, trials_of
from sagelet_api.cli.wait import wait_command
from sagelet_api.display import usd
from sagelet_api.durations import lasted
from sagelet_api.servers.server import Server
from sagelet_engine.base.errors import SageletError

#: A HyperParameterTuningJobSummary, a DescribeHyperParameterTuningJob answer, or a HyperParameterTrainingJobSummary.
Shown = Mapping[str, Any]


class NoBestYet(SageletError):
    """No training job of the tuning job has ended with an objective."""


def _objective(trial: Shown) -> str | None:
    metric = trial.get("FinalHyperParameterTuningJobObjectiveMetric")
    return None if metric is None else f"{metric['Value']:.6g}"


def _values(trial: Shown) -> str:
    return " ".join(f"{name}={value}" for name, value in trial["TunedHyperParameters"].items())


def _trained(trial: Shown) -> str | None:
    if "TrainingEndTime" not in trial or "TrainingStartTime" not in trial:
        return None
    return lasted((trial["TrainingEndTime"] - trial["TrainingStartTime"]).total_seconds())


_TRIALS: Sequence[Column[Shown]] = (
    Column("TRAINING JOB", lambda trial: trial["TrainingJobName"]),
    Column("STATUS", lambda trial: status_text(trial["TrainingJobStatus"])),
    Column("OBJECTIVE", _objective, right=True),
    Column("TRAINED", _trained, optional=1, right=True),
    Column("HYPERPARAMETERS", _values),
)


@click.group(cls=Suggesting)
def tune() -> None:
    """Hyperparameter tuning jobs, and the largest batch that fits.

    Programs make them: `HyperparameterTuner` of the SageMaker SDK, or CreateHyperParameterTuningJob.
    """


for command in (
    batch_size,
    list_command(TUNING),
    wait_command(TUNING),
    stop_command(TUNING, "Their training jobs are stopped, too. Returns at once. "),
    delete_command(TUNING, "Their training jobs stay."),
):
    tune.add_command(command)


@tune.command()
@named(TUNING)
@json_option
@server_options
def describe(name: str, as_json: bool, server: Server) -> None:
    """Show a tuning job and its training jobs, the oldest first.

    For compiled training jobs it says how many compiled, and how many read every program from the compile cache.
    """
    aws = Aws(server)
    job, trials = described(TUNING, aws, server, name), trials_of(aws, server, name)
    programs = TUNING.ask(server, name, "compilation")
    if as_json:
        echo_json({**job, "TrainingJobSummaries": trials, "Programs": programs})
        return
    config = job["HyperParameterTuningJobConfig"]
    pairs = [
        ("Status", status_text(job["HyperParameterTuningJobStatus"])),
        ("Strategy", config["Strategy"]),
        ("Training jobs", trials_in_words(job)),
        ("Bill", _bill(server, name)),
    ]
    if programs["text"]:
        pairs.append(("Programs", str(programs["text"])))
    if "FailureReason" in job:
        pairs.append(("Reason", job["FailureReason"]))
    if "BestTrainingJob" in job:
        best = job["BestTrainingJob"]
        pairs.append(("Best", f"{best['TrainingJobName']}: {_objective(best)} with {_values(best)}"))
    out = console()
    out.print(facts(pairs))
    if trials:
        out.print()
        show_rows(_TRIALS, trials)


@tune.command()
@named(TUNING)
@json_option
@server_options
def best(name: str, as_json: bool, server: Server) -> None:
    """Print the best training job so far.

    That is its name, its objective and its hyperparameters, with tabs between. `sagelet describe` and
    `sagelet artifacts` take the name.
    """
    found = described(TUNING, Aws(server), server, name).get("BestTrainingJob")
    if found is None:
        raise NoBestYet(f"No training job of {name} has ended with an objective: `sagelet tune describe {name}`")
    if as_json:
        echo_json(found)
        return
    say(f"{found['TrainingJobName']}\t{_objective(found)}\t{_values(found)}")


def _bill(server: Server, name: str) -> str:
    """Returns the sum of the training jobs' bills in words."""
    found = TUNING.ask(server, name, "bill")
    price = f", {usd(found['usd'])}" if found["usd"] is not None else ""
    return f"{found['seconds']} billable seconds{price}{' so far' if found['running'] else ''}"
