"""`sagelet tune`: hyperparameter tuning jobs and their training jobs, and the search for the largest batch."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.batch_size import batch_size
from sagelet_api.cli.control_client import ServerRefused, ask
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import Column, age, console, facts, show_rows, status_text
from sagelet_api.cli.suggestions import Suggesting
from sagelet_api.cli.text import echo_json, iso, say
from sagelet_api.cli.tuning_jobs import TuningName, known, trials_of
from sagelet_api.cli.tuning_jobs import describe as describe_tuning
from sagelet_api.display import usd
from sagelet_api.durations import lasted
from sagelet_api.servers.server import Server
from sagelet_engine.base.errors import SageletError

#: A HyperParameterTuningJobSummary, a DescribeHyperParameterTuningJob answer, or a HyperParameterTrainingJobSummary.
Shown = Mapping[str, Any]


class NoBestYet(SageletError):
    """No training job of the tuning job has ended with an objective."""


def _trials(shown: Shown) -> str:
    counters = shown["TrainingJobStatusCounters"]
    failed = counters["RetryableError"] + counters["NonRetryableError"]
    words = [f"{counters['Completed']} completed"]
    for count, word in ((counters["InProgress"], "running"), (failed, "failed"), (counters["Stopped"], "stopped")):
        if count:
            words.append(f"{count} {word}")
    return ", ".join(words)


def _objective(trial: Shown) -> str | None:
    metric = trial.get("FinalHyperParameterTuningJobObjectiveMetric")
    return None if metric is None else f"{metric['Value']:.6g}"


def _values(trial: Shown) -> str:
    return " ".join(f"{name}={value}" for name, value in trial["TunedHyperParameters"].items())


def _trained(trial: Shown) -> str | None:
    if "TrainingEndTime" not in trial or "TrainingStartTime" not in trial:
        return None
    return lasted((trial["TrainingEndTime"] - trial["TrainingStartTime"]).total_seconds())


_JOBS: Sequence[Column[Shown]] = (
    Column("NAME", lambda job: job["HyperParameterTuningJobName"]),
    Column("STATUS", lambda job: status_text(job["HyperParameterTuningJobStatus"])),
    Column("CREATED", lambda job: age(job["CreationTime"]), plain=lambda job: iso(job["CreationTime"]), optional=1),
    Column("STRATEGY", lambda job: job["Strategy"], optional=2),
    Column("TRAINING JOBS", _trials),
)
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


tune.add_command(batch_size)


@tune.command("list")
@json_option
@server_options
def list_(as_json: bool, server: Server) -> None:
    """List tuning jobs, the newest first."""
    pages = Aws(server).pages(
        "sagemaker", "list_hyper_parameter_tuning_jobs", SortBy="CreationTime", SortOrder="Descending", MaxResults=100
    )
    found = [job for page in pages for job in page["HyperParameterTuningJobSummaries"]]
    if as_json:
        echo_json(found)
        return
    show_rows(_JOBS, found)
    if not found:
        click.echo(f"no tuning jobs of account {server.account} in {server.region} on {server.endpoint}", err=True)


@tune.command()
@click.argument("name", metavar="TUNING-JOB", type=TuningName())
@json_option
@server_options
def describe(name: str, as_json: bool, server: Server) -> None:
    """Show a tuning job and its training jobs, the oldest first.

    For compiled training jobs it says how many compiled, and how many read every program from the compile cache.
    """
    aws = Aws(server)
    job, trials = describe_tuning(aws, server, name), trials_of(aws, server, name)
    with known(server, name):
        programs = ask(server, "GET", server.tuning_path(name, "compilation"))
    if as_json:
        echo_json({**job, "TrainingJobSummaries": trials, "Programs": programs})
        return
    config = job["HyperParameterTuningJobConfig"]
    pairs = [
        ("Status", status_text(job["HyperParameterTuningJobStatus"])),
        ("Strategy", config["Strategy"]),
        ("Training jobs", _trials(job)),
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
@click.argument("name", metavar="TUNING-JOB", type=TuningName())
@json_option
@server_options
def best(name: str, as_json: bool, server: Server) -> None:
    """Print the best training job so far.

    That is its name, its objective and its hyperparameters, with tabs between. `sagelet describe` and
    `sagelet artifacts` take the name.
    """
    found = describe_tuning(Aws(server), server, name).get("BestTrainingJob")
    if found is None:
        raise NoBestYet(f"No training job of {name} has ended with an objective: `sagelet tune describe {name}`")
    if as_json:
        echo_json(found)
        return
    say(f"{found['TrainingJobName']}\t{_objective(found)}\t{_values(found)}")


@tune.command()
@click.argument("name", metavar="TUNING-JOB", type=TuningName())
@json_option
@server_options
def stop(name: str, as_json: bool, server: Server) -> None:
    """Stop a tuning job and its training jobs.

    Returns at once. A tuning job that has ended already is left as it is.
    """
    aws = Aws(server)
    if describe_tuning(aws, server, name)["HyperParameterTuningJobStatus"] == "InProgress":
        try:
            aws.call("sagemaker", "stop_hyper_parameter_tuning_job", HyperParameterTuningJobName=name)
        except ServerRefused:
            # It may have ended in between.
            if describe_tuning(aws, server, name)["HyperParameterTuningJobStatus"] == "InProgress":
                raise
    status = describe_tuning(aws, server, name)["HyperParameterTuningJobStatus"]
    if as_json:
        echo_json({"HyperParameterTuningJobName": name, "HyperParameterTuningJobStatus": status})
        return
    click.echo(f"{name}: {status}")


def _bill(server: Server, name: str) -> str:
    """Returns the sum of the training jobs' bills in words."""
    found = ask(server, "GET", server.tuning_path(name, "bill"))
    price = f", {usd(found['usd'])}" if found["usd"] is not None else ""
    return f"{found['seconds']} billable seconds{price}{' so far' if found['running'] else ''}"
