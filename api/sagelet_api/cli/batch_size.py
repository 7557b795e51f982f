"""`sagelet tune batch-size`: the largest batch that fits, natively and compiled."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.batch_search import (
    BATCH_NAMES,
    RATE_NAMES,
    BadSearch,
    Best,
    Bounds,
    Gain,
    LearningRate,
    Outcome,
    Probe,
    Rule,
    best_of,
    judged,
    largest,
    next_size,
    parameter_of,
    peak_of,
    speed_of,
    whole,
)
from sagelet_api.cli.control_client import ServerRefused, ask
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import Column, console, echo_json, say, show_rows, until_reader_ends
from sagelet_api.cli.quantities import Size
from sagelet_api.cli.submission import COMPILE, pairs
from sagelet_api.cli.submit import DAY, DOCUMENTS, SCRIPTS, from_document, from_script
from sagelet_api.cli.training_jobs import ENDED, Job, JobName, NoSuchJob, describe
from sagelet_api.cli.wait import EVERY, Progress
from sagelet_api.protocol.members import Parameters
from sagelet_api.protocol.validation import rule_book
from sagelet_api.servers.server import Server
from sagelet_engine.base.errors import SageletError
from sagelet_engine.instances.catalogue import find

GIB = 1 << 30
#: The Trainer's name for a limit of the steps.
MAX_STEPS = "max_steps"
#: Members of a job that a probe does not have: it starts from nothing, is tried once, and is in no experiment.
_LEFT_OUT = frozenset(
    {"TrainingJobName", "CheckpointConfig", "EnableManagedSpotTraining", "RetryStrategy", "ExperimentConfig", "Tags"}
)
_COMPILER = "sagemaker_training_compiler"
#: The most characters of the search's name. The longest name of a probe has 16 more.
_LONGEST_NAME = 47
#: Endings of a probe's name, for probes that are repeated because somebody stopped them.
_REPEATS = ("", *(f"-{number}" for number in range(2, 10)))
NAMES = {False: "native", True: "compiled"}


class ProbeFailed(SageletError):
    """A probe failed for another reason than memory, so the search cannot go on."""


class NothingFits(SageletError):
    """Not even the smallest batch fits."""


@dataclass(frozen=True)
class Search:
    """What all probes of a search have in common."""

    #: Begins the name of each probe.
    name: str
    request: Parameters
    parameter: str
    bounds: Bounds
    rate: LearningRate | None
    rule: Rule
    #: Hyperparameters of the probes: fewer steps, and what the user gave.
    short: Mapping[str, str]
    #: Bytes that a process on the CPU may have. None for no limit.
    memory: int | None


@click.command("batch-size")
@click.argument("job", required=False, type=JobName())
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
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
    aws, given = Aws(server), pairs(hyperparameters, "-p")
    name = name or _new_name(job or (file.stem if file else ""))
    request = _request(aws, server, job, file, name, given, options)
    search = _search(name, request, given, options)
    ways = [compiled for compiled, word in NAMES.items() if only in (None, word)]
    probes: list[Probe] = []
    try:
        with Progress(console(stderr=True)).shown() as progress:
            runner = _Runner(aws, server, search, progress)
            for compiled in ways:
                probes += runner.search(compiled=compiled)
    except KeyboardInterrupt:
        say(f"\nThe search ends here: the same command with --name {search.name} goes on with it", err=True)
        raise
    _show(search, probes, ways, as_json=as_json)


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
        shown = describe(aws, server, str(job))
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
    text = own.get(parameter, given.get(parameter))
    size = None if text is None else whole(text, parameter)
    start = options["start"] or size or options["least"]
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
    try:
        return LearningRate(name, float(hyperparameters[name].strip("\"' ")), size)
    except ValueError as error:
        raise BadSearch(
            f"The hyperparameter {name} is {hyperparameters[name]!r} and no learning rate; name another with "
            "--rate-parameter"
        ) from error


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


def probe_request(search: Search, name: str, size: int, *, compiled: bool) -> Parameters:
    """Returns the request of one probe. Its learning rate follows the batch, as in the training that it stands for."""
    own = {
        key: value for key, value in search.request.get("HyperParameters", {}).items() if not key.startswith(_COMPILER)
    }
    rate = {} if search.rate is None else {search.rate.name: f"{search.rate.at(size, search.rule):.6g}"}
    algorithm = dict(search.request["AlgorithmSpecification"])
    if "TrainingImage" in algorithm:
        algorithm["TrainingImage"] = _image(algorithm["TrainingImage"], compiled=compiled)
    return {
        **search.request,
        "TrainingJobName": name,
        "AlgorithmSpecification": algorithm,
        "HyperParameters": {
            **own,
            **(COMPILE if compiled else {}),
            **search.short,
            **rate,
            search.parameter: str(size),
        },
    }


def _image(uri: str, *, compiled: bool) -> str:
    """Returns AWS's image of the other way of training: `pytorch-training` and `pytorch-trcomp-training` have the same
    tags. Every other image stays.
    """
    native, with_compiler = "/pytorch-training:", "/pytorch-trcomp-training:"
    return uri.replace(native, with_compiler) if compiled else uri.replace(with_compiler, native)


# --- probes -----------------------------------------------------------------------------------------------------------


@dataclass
class _Runner:
    """Runs the probes of a search, one after the other."""

    aws: Aws
    server: Server
    plan: Search
    progress: Progress

    def search(self, *, compiled: bool) -> list[Probe]:
        """Returns all probes of one way of training. Raises ProbeFailed."""
        probes: list[Probe] = []
        tried: dict[int, bool] = {}
        while (size := next_size(self.plan.bounds, tried)) is not None:
            probe = self._probe(size, compiled=compiled)
            probes.append(probe)
            tried[size] = probe.outcome is Outcome.FITS
            self._tell(probe)
        if largest(tried) is None:
            say(f"{NAMES[compiled]}: not even a batch of {min(tried)} fits", err=True)
        return probes

    def _probe(self, size: int, *, compiled: bool) -> Probe:
        name, request = self._place(size, compiled=compiled)
        try:
            if request is not None:
                self.aws.call("sagemaker", "create_training_job", **request)
            job = self._ended(name)
        except KeyboardInterrupt:
            self._stop(name)
            raise
        report = self._asked(name, "compiler-report")
        if compiled and report is not None and not report["compiled"]:
            raise ProbeFailed(
                f"{name} trained natively, so nothing is known of compiled training: {report['reason']}. "
                "Search for native training alone with --only native"
            )
        findings = self._asked(name, "doctor") or {"findings": []}
        outcome = judged(job, report, [one["rule"] for one in findings["findings"]], self.plan.memory)
        if outcome is Outcome.OTHER:
            reason = job.get("FailureReason") or job["SecondaryStatusTransitions"][-1].get("StatusMessage", "")
            raise ProbeFailed(
                f"{name} ended for another reason than memory ({job['TrainingJobStatus']}): {reason}. "
                f"`sagelet doctor {name}` and `sagelet logs {name}` say more"
            )
        return Probe(name, compiled, size, outcome, speed_of(report), peak_of(report))

    def _place(self, size: int, *, compiled: bool) -> tuple[str, Parameters | None]:
        """Returns a probe's name, and its request if it is to be made. One of an earlier search is not repeated."""
        for repeat in _REPEATS:
            name = f"{self.plan.name}-{NAMES[compiled]}-{size}{repeat}"
            request = probe_request(self.plan, name, size, compiled=compiled)
            try:
                earlier = describe(self.aws, self.server, name)
            except NoSuchJob:
                return name, request
            if earlier.get("HyperParameters") != request["HyperParameters"]:
                raise BadSearch(f"The probe {name} of an earlier search has other hyperparameters: give another --name")
            if not _was_stopped(earlier):
                return name, None
        raise ProbeFailed(f"Every probe of {self.plan.name} for a batch of {size} was stopped: give another --name")

    def _ended(self, name: str) -> Job:
        while (job := describe(self.aws, self.server, name))["TrainingJobStatus"] not in ENDED:
            self.progress.tell(self.server, [job])
            time.sleep(EVERY)
        return job

    def _stop(self, name: str) -> None:
        """Stops a probe, unless it has ended or was never made."""
        try:
            self.aws.call("sagemaker", "stop_training_job", TrainingJobName=name)
        except ServerRefused as refused:
            if refused.code not in ("ValidationException", "ResourceNotFound"):
                raise

    def _asked(self, name: str, what: str) -> Mapping[str, Any] | None:
        try:
            return ask(self.server, "GET", self.server.job_path(name, what))
        except ServerRefused as refused:
            if refused.code != "404":
                raise
            return None

    def _tell(self, probe: Probe) -> None:
        speed = "" if probe.samples_per_second is None else f", {_figure(probe.samples_per_second)} samples/s"
        with until_reader_ends():
            say(f"{NAMES[probe.compiled]} {probe.size}: {probe.outcome.value}{speed} ({probe.job})", err=True)


def _was_stopped(job: Job) -> bool:
    return job["TrainingJobStatus"] in ("Stopping", "Stopped") and job["SecondaryStatus"] != "MaxRuntimeExceeded"


# --- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    title: str
    native: str
    compiled: str
    gain: str = ""


_TABLE: Sequence[Column[_Line]] = (
    Column("", lambda line: line.title),
    Column("Native", lambda line: line.native, right=True),
    Column("SageMaker Training Compiler", lambda line: line.compiled, right=True),
    Column("Gain", lambda line: line.gain, right=True),
)


def _show(search: Search, probes: Sequence[Probe], ways: Sequence[bool], *, as_json: bool) -> None:
    best = {compiled: best_of(probes, compiled=compiled, rate=search.rate, rule=search.rule) for compiled in NAMES}
    gain = Gain.of(best[False], best[True])
    with until_reader_ends():
        if as_json:
            echo_json(
                {
                    "name": search.name,
                    "parameter": search.parameter,
                    "learning_rate_parameter": None if search.rate is None else search.rate.name,
                    "rule": search.rule.value,
                    **{word: None if (one := best[way]) is None else asdict(one) for way, word in NAMES.items()},
                    "gain": asdict(gain),
                    "probes": [probe.to_json() for probe in probes],
                }
            )
        else:
            show_rows(_TABLE, _lines(best[False], best[True], gain))
    if all(best[way] is None for way in ways):
        raise NothingFits(
            f"Not even a batch of {search.bounds.least} fits: `sagelet doctor {probes[-1].job}` says what needs memory"
        )


def _lines(native: Best | None, compiled: Best | None, gain: Gain) -> list[_Line]:
    def both(title: str, text: Any, gained: float | None = None) -> _Line:
        cells = ["-" if one is None else text(one) for one in (native, compiled)]
        return _Line(title, cells[0], cells[1], "" if gained is None else f"{gained:.2f}x")

    def number(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    return [
        both("Batch size", lambda one: str(one.size), gain.size),
        both("Learning rate", lambda one: number(one.learning_rate, ".4g")),
        both("Speed (samples/s)", lambda one: _figure(one.samples_per_second), gain.speed),
        both("Memory (GiB)", lambda one: number(None if one.peak_bytes is None else one.peak_bytes / GIB, ".2f")),
        both("Training job", lambda one: one.job),
    ]


def _figure(value: float | None) -> str:
    """Returns a figure with four digits, or all of its whole ones."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"
