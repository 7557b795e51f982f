"""The probes of `sagelet tune batch-size`: short training jobs, one after the other."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.batch_search import BadSearch, Bounds, LearningRate, Outcome, Rule, judged, largest, next_size
from sagelet_api.cli.control_client import ServerRefused, ask
from sagelet_api.cli.kinds import Job, NoSuchJob
from sagelet_api.cli.submission import COMPILE
from sagelet_api.cli.text import say, until_reader_ends
from sagelet_api.cli.training_jobs import TRAINING
from sagelet_api.cli.wait import EVERY, Progress
from sagelet_api.protocol.members import Output, Parameters
from sagelet_api.servers.server import Server
from sagelet_engine.base.errors import SageletError

_COMPILER = "sagemaker_training_compiler"
#: Endings of a probe's name, for probes that are repeated because somebody stopped them.
_REPEATS = ("", *(f"-{number}" for number in range(2, 10)))
NAMES = {False: "native", True: "compiled"}


class ProbeFailed(SageletError):
    """A probe failed for another reason than memory, so the search cannot go on."""


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


@dataclass(frozen=True)
class Probe:
    """One training job of the search."""

    job: str
    compiled: bool
    size: int
    outcome: Outcome
    #: Of the steps that compiled nothing, of all workers. None if no worker has reported it.
    samples_per_second: float | None
    peak_bytes: int | None

    def to_json(self) -> Output:
        return asdict(self)


def figure(value: float | None) -> str:
    """Returns a figure with four digits, or all of its whole ones."""
    return "-" if value is None else f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


@dataclass
class Runner:
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
            speed = "" if probe.samples_per_second is None else f", {figure(probe.samples_per_second)} samples/s"
            with until_reader_ends():
                say(f"{NAMES[compiled]} {size}: {probe.outcome.value}{speed} ({probe.job})", err=True)
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
        if compiled and report and not report["compiled"]:
            raise ProbeFailed(
                f"{name} trained natively, so nothing is known of compiled training: "
                f"{report['reason'] or 'its script used no XLA device'}. "
                "Search for native training alone with --only native"
            )
        findings = [finding["rule"] for finding in self._asked(name, "doctor").get("findings", ())]
        total = report.get("total", {})
        memory = total.get("memory", {})
        outcome = judged(job, memory, findings, self.plan.memory)
        if outcome is Outcome.OTHER:
            reason = job.get("FailureReason") or job["SecondaryStatusTransitions"][-1].get("StatusMessage", "")
            raise ProbeFailed(
                f"{name} ended for another reason than memory ({job['TrainingJobStatus']}): {reason}. "
                f"`sagelet doctor {name}` and `sagelet logs {name}` say more"
            )
        speed, peak = total.get("samples_per_second") or None, memory.get("peak_bytes") or None
        return Probe(name, compiled, size, outcome, speed, peak)

    def _place(self, size: int, *, compiled: bool) -> tuple[str, Parameters | None]:
        """Returns a probe's name, and its request if it is to be made. One of an earlier search is not repeated."""
        for repeat in _REPEATS:
            name = f"{self.plan.name}-{NAMES[compiled]}-{size}{repeat}"
            request = _request(self.plan, name, size, compiled=compiled)
            try:
                earlier = TRAINING.describe(self.aws, self.server, name)
            except NoSuchJob:
                return name, request
            if earlier.get("HyperParameters") != request["HyperParameters"]:
                raise BadSearch(f"The probe {name} of an earlier search has other hyperparameters: give another --name")
            was_stopped = earlier["TrainingJobStatus"] in ("Stopping", "Stopped")
            if not was_stopped or earlier["SecondaryStatus"] == "MaxRuntimeExceeded":
                return name, None
        raise ProbeFailed(f"Every probe of {self.plan.name} for a batch of {size} was stopped: give another --name")

    def _ended(self, name: str) -> Job:
        while not TRAINING.has_ended(job := TRAINING.describe(self.aws, self.server, name)):
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

    def _asked(self, name: str, what: str) -> Mapping[str, Any]:
        """Returns a report of a job. Empty if there is none."""
        try:
            return ask(self.server, "GET", self.server.job_path("jobs", name, what))
        except ServerRefused as refused:
            if refused.code != "404":
                raise
            return {}


def _request(search: Search, name: str, size: int, *, compiled: bool) -> Parameters:
    """Returns the request of one probe. Its learning rate follows the batch, as in the training that it stands for."""
    given = search.request.get("HyperParameters", {}).items()
    algorithm = dict(search.request["AlgorithmSpecification"])
    if "TrainingImage" in algorithm:
        # AWS's images of both ways of training have the same tags. Every other image stays.
        here, there = "/pytorch-training:", "/pytorch-trcomp-training:"
        algorithm["TrainingImage"] = algorithm["TrainingImage"].replace(*((here, there) if compiled else (there, here)))
    return {
        **search.request,
        "TrainingJobName": name,
        "AlgorithmSpecification": algorithm,
        "HyperParameters": {
            **{key: value for key, value in given if not key.startswith(_COMPILER)},
            **(COMPILE if compiled else {}),
            **search.short,
            **({} if search.rate is None else {search.rate.name: f"{search.rate.at(size, search.rule):.6g}"}),
            search.parameter: str(size),
        },
    }
