"""Finds the largest batch that fits: which size to try next, what a probe showed, and the learning rate. Pure.

The rules are AWS's: the Training Compiler's best practices ("If you increased the batch size by a factor of k, adjust
the learning rate linearly, or multiply by the square root of k") and its examples, where the learning rate is
`learning_rate_native / batch_size_native * batch_size`.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sagelet_api.protocol.members import Output
from sagelet_engine.base.errors import SageletError

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
        return cls(least, most, step, cls(least, most, step, least).fitted(start))

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
        return None if min(tried) <= bounds.least else bounds.fitted(min(tried) // 2)
    failed = min((size for size, fits in tried.items() if not fits and size > fitting), default=None)
    middle = fitting * 2 if failed is None else (fitting + failed) // 2
    size = bounds.fitted(max(middle, fitting + bounds.step))
    return None if size in (fitting, failed) else size


def largest(tried: Mapping[int, bool]) -> int | None:
    """Returns the largest size that has fitted."""
    return max((size for size, fits in tried.items() if fits), default=None)


class Outcome(str, Enum):
    FITS = "fits"
    OUT_OF_MEMORY = "out of memory"
    #: It failed for another reason, or somebody stopped it: nothing is known about its size.
    OTHER = "other"


def judged(job: Output, memory: Mapping[str, Any], findings: Iterable[str], limit: int | None) -> Outcome:
    """Returns what a training job that has ended says about its size.

    `memory`: that of its compile report. `findings`: rules of the doctor that found something. `limit`: bytes that a
    process on the CPU may have; a probe above it does not fit, even where the runtime has no limit of its own. An
    accelerator has one.
    """
    # A probe that still trained when its time was over had room for its batches.
    if job["TrainingJobStatus"] == "Completed" or job["SecondaryStatus"] == "MaxRuntimeExceeded":
        is_limited = limit is not None and memory.get("kind") == "rss"
        return Outcome.OUT_OF_MEMORY if is_limited and memory.get("peak_bytes", 0) > limit else Outcome.FITS
    reason = str(job.get("FailureReason", ""))
    if job["TrainingJobStatus"] == "Failed" and ("out-of-memory" in findings or _OUT_OF_MEMORY.search(reason)):
        return Outcome.OUT_OF_MEMORY
    return Outcome.OTHER


def parameter_of(hyperparameters: Mapping[str, str], known: Sequence[str]) -> str | None:
    """Returns the job's own spelling of the first of the known names that it has."""
    plain = {name.lower().lstrip("-").replace("-", "_"): name for name in hyperparameters}
    return next((plain[name] for name in known if name in plain), None)


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
