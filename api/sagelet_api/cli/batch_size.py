"""`sagelet tune batch-size`: the largest batch that fits, natively and compiled."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.batch_probes import NAMES, Probe, Runner, Search, figure
from sagelet_api.cli.batch_search import (
    BATCH_NAMES,
    RATE_NAMES,
    BadSearch,
    Bounds,
    LearningRate,
    Outcome,
    Rule,
    parameter_of,
)
from sagelet_api.cli.kind_rows import described
from sagelet_api.cli.kinds import JobName
from sagelet_api.cli.options import json_option, pairs, server_options
from sagelet_api.cli.output import Column, console, show_rows
from sagelet_api.cli.quantities import Size
from sagelet_api.cli.submit import DAY, DOCUMENTS, SCRIPTS, existing, from_document, from_script
from sagelet_api.cli.text import echo_json, say, until_reader_ends
from sagelet_api.cli.training_jobs import TRAINING
from sagelet_api.cli.wait import Progress
from sagelet_api.protocol.members import Output, Parameters
from sagelet_api.protocol.validation import rule_book
from sagelet_api.servers.server import Server
from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.number_text import number_in, whole_number_in
from sagelet_engine.instances.catalogue import find

#: The Trainer's name for a limit of the steps.
MAX_STEPS = "max_steps"
#: Members of a job that a probe does not have: it starts from nothing, is tried once, and is in no experiment.
_LEFT_OUT = frozenset(
    {"TrainingJobName", "CheckpointConfig", "EnableManagedSpotTraining", "RetryStrategy", "ExperimentConfig", "Tags"}
)
#: The most characters of the search's name. The longest name of a probe has 16 more.
_LONGEST_NAME = 47
GIB = 1 << 30
#: The table of AWS's documents.
_TABLE: Sequence[Column[Sequence[str]]] = (
    Column("", lambda row: row[0]),
    Column("Native", lambda row: row[1], right=True),
    Column("SageMaker Training Compiler", lambda row: row[2], right=True),
    Column("Gain", lambda row: row[3], right=True),
)


class NothingFits(SageletError):
    """Not even the smallest batch fits."""


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
    _show(search, probes, as_json=as_json)


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
        shown = described(TRAINING, aws, server, str(job))
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
    if len(name) > _LONGEST_NAME:
        raise BadSearch(f"--name {name} has {len(name)} characters; the names of probes leave room for {_LONGEST_NAME}")
    own = request.get("HyperParameters", {})
    parameter = options["parameter"] or parameter_of({**own, **given}, BATCH_NAMES)
    if parameter is None:
        raise BadSearch(
            f"The job has none of the hyperparameters {', '.join(BATCH_NAMES)}: name its batch size with --parameter"
        )
    size = int(_number({**given, **own}, parameter, _batch_in, "batch size; name another with --parameter"))
    rate = options["rate_parameter"] or parameter_of({**own, **given}, RATE_NAMES)
    text = "learning rate; name another with --rate-parameter"
    return Search(
        name,
        request,
        parameter,
        Bounds.of(options["least"], options["most"], options["step"], options["start"] or size),
        None if rate is None else LearningRate(rate, _number({**own, **given}, rate, number_in, text), size),
        Rule(options["rule"]),
        {**given, **_short(own, options)},
        _memory(request) if options["memory"] is None else options["memory"],
    )


def _number(hyperparameters: Mapping[str, str], name: str, read: Callable[[str], float | None], wanted: str) -> float:
    """Reads a hyperparameter. A script ignores a name that it does not know, so the job must have it: otherwise every
    batch would fit. Raises BadSearch.
    """
    if name not in hyperparameters:
        raise BadSearch(f"The job has no hyperparameter {name}: give one with -p {name}=VALUE")
    number = read(hyperparameters[name].strip("\"' "))
    if number is None:
        raise BadSearch(f"The hyperparameter {name} is {hyperparameters[name]!r} and no {wanted}")
    return number


def _batch_in(text: str) -> int | None:
    return whole_number_in(text) or None


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


# --- what it shows ----------------------------------------------------------------------------------------------------


def _show(search: Search, probes: Sequence[Probe], *, as_json: bool) -> None:
    fitting = [probe for probe in probes if probe.outcome is Outcome.FITS]
    native, compiled = (
        max((probe for probe in fitting if probe.compiled is way), key=lambda probe: probe.size, default=None)
        for way in NAMES
    )
    gain = {
        "size": _ratio(lambda probe: probe.size, native, compiled),
        "speed": _ratio(lambda probe: probe.samples_per_second, native, compiled),
    }
    with until_reader_ends():
        if as_json:
            echo_json(
                {
                    "name": search.name,
                    "parameter": search.parameter,
                    "learning_rate_parameter": search.rate and search.rate.name,
                    "rule": search.rule.value,
                    "native": native and _best(search, native),
                    "compiled": compiled and _best(search, compiled),
                    "gain": gain,
                    "probes": [probe.to_json() for probe in probes],
                }
            )
        else:
            show_rows(_TABLE, _rows(search, native, compiled, gain))
    if not fitting:
        raise NothingFits(
            f"Not even a batch of {search.bounds.least} fits: `sagelet doctor {probes[-1].job}` says what needs memory"
        )


def _ratio(figure_of: Callable[[Probe], float | None], *pair: Probe | None) -> float | None:
    """Returns the gain of compiled over native training, as a factor. None if either figure is unknown."""
    native, compiled = (probe and figure_of(probe) for probe in pair)
    return compiled / native if compiled and native else None


def _best(search: Search, probe: Probe) -> Output:
    return {**probe.to_json(), "learning_rate": search.rate and search.rate.at(probe.size, search.rule)}


def _rows(
    search: Search, native: Probe | None, compiled: Probe | None, gain: Mapping[str, float | None]
) -> list[list[str]]:
    def row(title: str, text: Callable[[Probe], str], gained: float | None = None) -> list[str]:
        cells = ["-" if probe is None else text(probe) for probe in (native, compiled)]
        return [title, *cells, "" if gained is None else f"{gained:.2f}x"]

    rate = search.rate
    return [
        row("Batch size", lambda probe: str(probe.size), gain["size"]),
        row("Learning rate", lambda probe: "-" if rate is None else f"{rate.at(probe.size, search.rule):.4g}"),
        row("Speed (samples/s)", lambda probe: figure(probe.samples_per_second), gain["speed"]),
        row("Memory (GiB)", lambda probe: "-" if probe.peak_bytes is None else f"{probe.peak_bytes / GIB:.2f}"),
        row("Training job", lambda probe: probe.job),
    ]
