"""Finds the largest batch that fits: which size to try next, what a probe showed, and the learning rate. Pure.

The rules are AWS's: the Training Compiler's best practices ("If you increased the batch size by a factor of k, adjust
the learning rate linearly, or multiply by the square root of k") and its examples, where the learning rate is
`learning_rate_native / batch_size_native * batch_size`.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from sagelet_api.protocol.members import Output
from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.number_text import whole_number_in

#: Names that scripts have for the batch of one device, the Trainer's first. Compared without case; `-` is as `_`.
BATCH_NAMES = ("per_device_train_batch_size", "train_batch_size", "batch_size")
RATE_NAMES = ("learning_rate", "lr")
#: How a job that ran out of memory says so in its FailureReason. 137 is 128 + SIGKILL.
_OUT_OF_MEMORY = re.compile(
    r"RESOURCE_EXHAUSTED|out of memory|OutOfMemory|can't allocate memory|std::bad_alloc|\bMemoryError\b"
    r"|SIGKILL|exit code: (137|-9)\b|ExitCode (137|-9)\b",
    re.IGNORECASE,
)


class BadSearch(SageletError):
    """The job and the options do not say what to search."""


# --- the search -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bounds:
    """The sizes that may be tried: `least`, and every `step` from there up to `most`."""

    least: int
    most: int
    step: int
    #: The first to try.
    start: int

    @classmethod
    def of(cls, least: int, most: int, step: int, start: int) -> "Bounds":
        """Raises BadSearch if no size is left."""
        if least > most:
            raise BadSearch(f"--min {least} must not be greater than --max {most}")
        made = cls(least, most, step, least)
        return cls(least, most, step, made.fitted(start))

    def fitted(self, size: int) -> int:
        """Returns the greatest allowed size that is not above `size`, or the least one."""
        within = min(max(size, self.least), self.most)
        return self.least + (within - self.least) // self.step * self.step


def next_size(bounds: Bounds, tried: Mapping[int, bool]) -> int | None:
    """Returns the size to try next, or None if the search is over. `tried`: whether each size so far has fitted.

    Doubles from the first size until one does not fit (or halves until one fits), then bisects.
    """
    if not tried:
        return bounds.start
    fitting = largest(tried)
    if fitting is None:
        least_failed = min(tried)
        return None if least_failed <= bounds.least else bounds.fitted(least_failed // 2)
    failed = min((size for size, fits in tried.items() if not fits and size > fitting), default=None)
    if failed is None:
        doubled = bounds.fitted(fitting * 2)
        # A size of 1 step or less would not grow.
        doubled = max(doubled, bounds.fitted(fitting + bounds.step))
        return doubled if doubled > fitting else None
    middle = bounds.fitted((fitting + failed) // 2)
    middle = max(middle, fitting + bounds.step)
    return middle if middle < failed else None


def largest(tried: Mapping[int, bool]) -> int | None:
    """Returns the largest size that has fitted."""
    return max((size for size, fits in tried.items() if fits), default=None)


# --- probes -----------------------------------------------------------------------------------------------------------


class Outcome(str, Enum):
    FITS = "fits"
    OUT_OF_MEMORY = "out of memory"
    #: It failed for another reason, or somebody stopped it: nothing is known about its size.
    OTHER = "other"


@dataclass(frozen=True)
class Probe:
    """One training job of the search."""

    job: str
    compiled: bool
    size: int
    outcome: Outcome
    #: Of the steps that compiled nothing, of all workers. None if no worker has reported it.
    samples_per_second: float | None = None
    peak_bytes: int | None = None

    def to_json(self) -> Output:
        return asdict(self)


def judged(job: Output, report: Mapping[str, Any] | None, findings: Iterable[str], memory: int | None) -> Outcome:
    """Returns what a training job that has ended says about its size.

    `report`: its compile report. `findings`: rules of the doctor that found something. `memory`: bytes that a process
    on the CPU may have; a probe above it does not fit, even where the runtime has no limit of its own.
    """
    # A probe that still trained when its time was over had room for its batches.
    trained = job["TrainingJobStatus"] == "Completed" or job["SecondaryStatus"] == "MaxRuntimeExceeded"
    if trained:
        peak = peak_of_process(report)
        return Outcome.OUT_OF_MEMORY if memory is not None and peak is not None and peak > memory else Outcome.FITS
    reason = str(job.get("FailureReason", ""))
    if job["TrainingJobStatus"] == "Failed" and ("out-of-memory" in findings or _OUT_OF_MEMORY.search(reason)):
        return Outcome.OUT_OF_MEMORY
    return Outcome.OTHER


def peak_of_process(report: Mapping[str, Any] | None) -> int | None:
    """Returns the most bytes that a worker's process had. None on an accelerator, which has a limit of its own."""
    memory = _total(report).get("memory", {})
    return memory.get("peak_bytes") or None if memory.get("kind") == "rss" else None


def peak_of(report: Mapping[str, Any] | None) -> int | None:
    return _total(report).get("memory", {}).get("peak_bytes") or None


def speed_of(report: Mapping[str, Any] | None) -> float | None:
    return _total(report).get("samples_per_second") or None


def _total(report: Mapping[str, Any] | None) -> Mapping[str, Any]:
    total: Mapping[str, Any] = {} if report is None else report.get("total", {})
    return total


# --- hyperparameters --------------------------------------------------------------------------------------------------


def parameter_of(hyperparameters: Mapping[str, str], known: Sequence[str]) -> str | None:
    """Returns the job's own spelling of the first of the known names that it has."""
    plain = {name.lower().lstrip("-").replace("-", "_"): name for name in hyperparameters}
    return next((plain[name] for name in known if name in plain), None)


def whole(value: str, name: str) -> int:
    """Reads a batch size. Raises BadSearch."""
    number = whole_number_in(value.strip("\"' "))
    if number is None or number < 1:
        raise BadSearch(f"The hyperparameter {name} is {value!r} and no batch size; name another with --parameter")
    return number


class Rule(str, Enum):
    """How the learning rate follows the batch."""

    LINEAR = "linear"
    SQRT = "sqrt"


@dataclass(frozen=True)
class LearningRate:
    """A learning rate that is right for one batch size."""

    name: str
    rate: float
    size: int

    def at(self, size: int, rule: Rule) -> float:
        factor = size / self.size
        return self.rate * (factor if rule is Rule.LINEAR else math.sqrt(factor))


# --- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Best:
    """The largest batch that fits in one way of training."""

    compiled: bool
    size: int
    learning_rate: float | None
    samples_per_second: float | None
    peak_bytes: int | None
    job: str


def best_of(probes: Sequence[Probe], *, compiled: bool, rate: LearningRate | None, rule: Rule) -> Best | None:
    """Returns None if no size has fitted."""
    fitting = [one for one in probes if one.compiled is compiled and one.outcome is Outcome.FITS]
    if not fitting:
        return None
    probe = max(fitting, key=lambda one: one.size)
    learning_rate = None if rate is None else rate.at(probe.size, rule)
    return Best(compiled, probe.size, learning_rate, probe.samples_per_second, probe.peak_bytes, probe.job)


@dataclass(frozen=True)
class Gain:
    """Gains of compiled over native training, as factors. None if either side is unknown."""

    size: float | None = None
    speed: float | None = None

    @classmethod
    def of(cls, native: Best | None, compiled: Best | None) -> "Gain":
        if native is None or compiled is None:
            return cls()
        speed = (
            compiled.samples_per_second / native.samples_per_second
            if native.samples_per_second and compiled.samples_per_second
            else None
        )
        return cls(compiled.size / native.size, speed)


def figure(value: float | None) -> str:
    """Returns a figure with four digits, or all of its whole ones."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"
