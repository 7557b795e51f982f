"""`sagelet tune batch-size`: the largest batch that fits, natively and compiled."""

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.batch_probes import NAMES, Runner, Search
from sagelet_api.cli.batch_search import (
    BATCH_NAMES,
    RATE_NAMES,
    BadSearch,
    Bounds,
    LearningRate,
    Probe,
    Rule,
    parameter_of,
    whole,
)
from sagelet_api.cli.batch_table import GIB, show
from sagelet_api.cli.kinds import JobName
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import console
from sagelet_api.cli.quantities import Size
from sagelet_api.cli.submission import pairs
from sagelet_api.cli.submit import DAY, DOCUMENTS, SCRIPTS, existing, from_document, from_script
from sagelet_api.cli.text import say
from sagelet_api.cli.training_jobs import TRAINING
from sagelet_api.cli.wait import Progress
from sagelet_api.protocol.members import Parameters
from sagelet_api.protocol.validation import rule_book
from sagelet_api.servers.server import Server
from sagelet_engine.base.number_text import number_in
from sagelet_engine.instances.catalogue import find

#: The Trainer's name for a limit of the steps.
MAX_STEPS = "max_steps"
#: Members of a job that a probe does not have: it starts from nothing, is tried once, and is in no experiment.
_LEFT_OUT = frozenset(
    {"TrainingJobName", "CheckpointConfig", "EnableManagedSpotTraining", "RetryStrategy", "ExperimentConfig", "Tags"}
)
#: The most characters of the search's name. The longest name of a probe has 16 more.
_LONGEST_NAME = 47


@click.command("batch-size")
@click.argument("job", required=False, type=JobName(TRAINING))
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    help="Instead of JOB: a request or a script, as `sagelet submit` takes it.",
)
@click.option(
    "-p",
    "--hyperparameter",
    "hyperparameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A hyperparameter of the probes, beside those of the job.",
)
@click.option(
    "--source-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="With a script: its directory, packed whole.",
)
@click.option(
    "--input", "inputs", multiple=True, metavar="CHANNEL=SOURCE", help="With a script: as of `sagelet submit`."
)
@click.option("--instance-type", help="Default: the job's; ml.g4dn.xlarge for a script.")
@click.option(
    "--parameter",
    metavar="NAME",
    help=f"The hyperparameter that is the batch size. Default: the first that the job has of {', '.join(BATCH_NAMES)}.",
)
@click.option(
    "--rate-parameter",
    metavar="NAME",
    help=f"The learning rate's. Default: the first that the job has of {', '.join(RATE_NAMES)}.",
)
@click.option(
    "--rule",
    type=click.Choice([rule.value for rule in Rule]),
    default=Rule.LINEAR.value,
    show_default=True,
    help="For k times the batch take k times the learning rate, or the square root of k times.",
)
@click.option("--min", "least", type=click.IntRange(min=1), default=1, show_default=True, help="The smallest batch.")
@click.option("--max", "most", type=click.IntRange(min=1), default=4096, show_default=True, help="The largest batch.")
@click.option("--step", type=click.IntRange(min=1), default=1, show_default=True, help="Between two sizes.")
@click.option("--start", type=click.IntRange(min=1), help="The first to try. Default: the job's own.")
@click.option(
    "--steps", type=click.IntRange(min=1), help=f"Training steps of a probe. Default: 5, if the job has {MAX_STEPS}."
)
@click.option(
    "--steps-parameter", default=MAX_STEPS, show_default=True, metavar="NAME", help="The hyperparameter for --steps."
)
@click.option(
    "--probe-seconds",
    type=click.IntRange(min=1),
    help="A probe that still trains after so many seconds is stopped, and fits. Default: the job's own limit.",
)
@click.option(
    "--memory",
    type=Size(),
    help="What a process on the CPU may take. Default: the memory of the instance type. A GPU has its own limit.",
)
@click.option("--only", type=click.Choice(sorted(NAMES.values())), help="Search for one of the two only.")
@click.option("--name", help="Begins the names of the probes. The name of an earlier search goes on with it.")
@json_option
@server_options
def batch_size(
    job: str | None,
    file: Path | None,
    hyperparameters: tuple[str, ...],
    only: str | None,
    name: str | None,
    as_json: bool,
    server: Server,
    **options: Any,
) -> None:
    """Find the largest batch that fits, natively and compiled.

    Runs short training jobs, one after the other: the batch doubles until one runs out of memory, and is then bisected.
    The table at the end is the one of AWS's documents: batch size, learning rate and speed with the Training Compiler
    and without. Progress goes to stderr.

    JOB is a training job whose request the probes repeat. On Ctrl-C the probe that runs is stopped, and the same
    command with --name goes on with the search.
    """
    if (job is None) == (file is None):
        raise click.UsageError("Give either JOB or --file")
    file = file and existing(file, options["source_dir"], "--file")
    aws, given = Aws(server), pairs(hyperparameters, "-p")
    name = name or _new_name(job or (file.stem if file else ""))
    request = _request(aws, server, job, file, name, given, options)
    search = _search(name, request, given, options)
    ways = [compiled for compiled, word in NAMES.items() if only in (None, word)]
    probes: list[Probe] = []
    try:
        with Progress(console(stderr=True)).shown() as progress:
            runner = Runner(aws, server, search, progress)
            for compiled in ways:
                probes += runner.search(compiled=compiled)
    except KeyboardInterrupt:
        say(f"\nThe search ends here: the same command with --name {search.name} goes on with it", err=True)
        raise
    show(search, probes, ways, as_json=as_json)


# --- what is searched -------------------------------------------------------------------------------------------------


def _new_name(stem: str) -> str:
    """Returns a name for a search, `train-bs-6925f1c0`."""
    word = re.sub(r"[^a-zA-Z0-9]+", "-", stem)[: _LONGEST_NAME - 12].strip("-") or "batch"
    return f"{word}-bs-{int(time.time()):x}"


def _request(
    aws: Aws,
    server: Server,
    job: str | None,
    file: Path | None,
    name: str,
    given: dict[str, str],
    options: Mapping[str, Any],
) -> Parameters:
    """Returns the request that probes repeat, of the job or of the file. Sources of a script are uploaded."""
    if file is not None:
        request = _of_file(aws, server, file, name, given, options)
    else:
        shown = TRAINING.describe(aws, server, str(job))
        members = rule_book("sagemaker").input_shape("CreateTrainingJob").members
        request = {member: value for member, value in shown.items() if member in members}
    request = {member: value for member, value in request.items() if member not in _LEFT_OUT}
    if options["instance_type"]:
        request["ResourceConfig"] = {**request["ResourceConfig"], "InstanceType": options["instance_type"]}
    seconds = options["probe_seconds"] or request["StoppingCondition"]["MaxRuntimeInSeconds"]
    request["StoppingCondition"] = {"MaxRuntimeInSeconds": seconds}
    return request


def _of_file(
    aws: Aws, server: Server, file: Path, name: str, given: dict[str, str], options: Mapping[str, Any]
) -> Parameters:
    if file.suffix.lower() in DOCUMENTS:
        return from_document(file, None, given)
    if file.suffix.lower() not in SCRIPTS:
        raise click.BadParameter(f"{file}: must be a request ({', '.join(DOCUMENTS)}) or a script (.py, .sh)")
    return from_script(
        aws,
        server,
        file,
        name,
        given,
        source_dir=options["source_dir"],
        inputs=options["inputs"],
        variables=(),
        instance_type=options["instance_type"] or "ml.g4dn.xlarge",
        instance_count=1,
        compiled=False,
        image=None,
        role=None,
        output=None,
        max_runtime=DAY,
    )


def _search(name: str, request: Parameters, given: Mapping[str, str], options: Mapping[str, Any]) -> Search:
    own = request.get("HyperParameters", {})
    parameter = options["parameter"] or parameter_of({**own, **given}, BATCH_NAMES)
    if parameter is None:
        raise BadSearch(
            f"The job has none of the hyperparameters {', '.join(BATCH_NAMES)}: name its batch size with --parameter"
        )
    named = {**given, **own}
    if parameter not in named:
        # A script ignores a name that it does not know, and then every batch would fit.
        raise BadSearch(f"The job has no hyperparameter {parameter}: give one with -p {parameter}=VALUE")
    size = whole(named[parameter], parameter)
    start = options["start"] or size
    if len(name) > _LONGEST_NAME:
        raise BadSearch(f"--name {name} has {len(name)} characters; the names of probes leave room for {_LONGEST_NAME}")
    return Search(
        name,
        request,
        parameter,
        Bounds.of(options["least"], options["most"], options["step"], start),
        _rate({**own, **given}, options["rate_parameter"], size),
        Rule(options["rule"]),
        {**given, **_short(own, options)},
        _memory(request) if options["memory"] is None else options["memory"],
    )


def _rate(hyperparameters: Mapping[str, str], name: str | None, size: int | None) -> LearningRate | None:
    """Returns the learning rate of the job. None if it has none, or if its batch size is not known."""
    name = name or parameter_of(hyperparameters, RATE_NAMES)
    if name is None or size is None:
        return None
    if name not in hyperparameters:
        raise BadSearch(f"The job has no hyperparameter {name}: give one with -p {name}=VALUE")
    rate = number_in(hyperparameters[name].strip("\"' "))
    if rate is None:
        raise BadSearch(
            f"The hyperparameter {name} is {hyperparameters[name]!r} and no learning rate; name another with "
            "--rate-parameter"
        )
    return LearningRate(name, rate, size)


def _short(own: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, str]:
    name, steps = options["steps_parameter"], options["steps"]
    if steps is None and name not in own:
        if options["probe_seconds"] is None:
            say(
                f"The job has no hyperparameter {name}, so each probe trains as long as the job itself: shorten them "
                "with --steps-parameter, -p or --probe-seconds",
                err=True,
            )
        return {}
    return {name: str(5 if steps is None else steps)}


def _memory(request: Parameters) -> int | None:
    """Returns the memory of the smallest of the job's instances. None if a type is not known."""
    config = request["ResourceConfig"]
    groups = config.get("InstanceGroups") or [config]
    types = [find(group["InstanceType"]) for group in groups]
    known = [int(one.memory_gib * GIB) for one in types if one is not None]
    return min(known) if known and len(known) == len(types) else None
