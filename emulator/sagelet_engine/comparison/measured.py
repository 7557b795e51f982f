"""The figures of one job, each from the best source that has it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sagelet_engine.comparison.facts import JobFacts
from sagelet_engine.model.series import Sample

TRAINER = "Trainer's log"
REPORT = "compile report"
RECORD = "DescribeTrainingJob"
#: The most points of a loss curve that are kept. A picture cannot show more.
MOST_POINTS = 1000


@dataclass(frozen=True)
class Value:
    """A figure and its source."""

    number: float | None = None
    source: str = ""


@dataclass(frozen=True)
class LossPoint:
    loss: float
    #: None if it is not known.
    epoch: float | None = None


@dataclass(frozen=True)
class Measured:
    """Figures in seconds, samples per second and US dollars. A Value without a number is not known."""

    #: Without the time of compiling, evaluating and saving: the one definition of docs/reference/compiler-report.md.
    throughput: Value
    #: As the script or its Trainer printed it, whatever it counts.
    script_throughput: Value
    runtime: Value
    training_seconds: Value
    #: Training time before and after the loop: input data, the start of Python and its imports, upload.
    outside: Value
    billable_seconds: Value
    usd: Value
    compile_seconds: Value
    compiles: Value
    steady_step: Value
    first_step: Value
    last_loss: Value
    steps: Value
    samples: Value
    #: The rows that all workers take in a step.
    rows: Value
    losses: tuple[LossPoint, ...]


def measure(job: JobFacts) -> Measured:
    total = job.report.total
    losses = _losses(job)
    source = TRAINER if job.log.train else "metric definition"
    return Measured(
        throughput=_first(_reported(total.samples_per_second), _throughput_of_loop(job)),
        script_throughput=_first(_summary(job, "train_samples_per_second"), _metric(job, _is_throughput)),
        runtime=_runtime(job),
        training_seconds=Value(job.training_seconds, RECORD),
        outside=_outside(job),
        billable_seconds=Value(job.billable_seconds, RECORD),
        usd=Value(None if job.billable_seconds is None else job.bill.usd, f"price list of {job.bill.as_of}"),
        compile_seconds=Value(total.compile_seconds, REPORT) if job.report.compiled else Value(),
        compiles=Value(total.compiles, REPORT) if job.report.compiled else Value(),
        steady_step=_reported(total.steady_step_seconds),
        first_step=_reported(total.first_step_seconds),
        last_loss=Value(losses[-1].loss, source) if losses else Value(),
        steps=_reported(total.steps or total.optimizer_steps),
        samples=_samples(job),
        rows=_reported(_rows(job)),
        losses=_thinned(losses),
    )


def _samples(job: JobFacts) -> Value:
    """Returns the Trainer's own number. The report of a native job under Accelerate misses the last batch of each
    epoch.
    """
    rate, seconds = (job.log.summary.get(name) for name in ("train_samples_per_second", "train_runtime"))
    if rate and seconds:
        return Value(round(rate * seconds), TRAINER)
    return _reported(job.report.total.samples)


def _runtime(job: JobFacts) -> Value:
    return _first(
        _summary(job, "train_runtime"),
        _metric(job, lambda name: name.endswith("train_runtime")),
        _reported(_span(job)),
    )


def _outside(job: JobFacts) -> Value:
    loop = _runtime(job).number
    if loop is None or job.training_seconds is None or loop > job.training_seconds:
        return Value()
    return Value(job.training_seconds - loop, RECORD)


def _throughput_of_loop(job: JobFacts) -> Value:
    """Returns all samples over the time of the training loop in which nothing was compiled.

    For a job whose report knows no rows: the batches did not come from a DataLoader.
    """
    samples, seconds, compiling = _samples(job), _runtime(job), job.report.total.compile_seconds
    if not job.report.workers or not samples.number or not seconds.number or compiling >= seconds.number:
        return Value()
    sources = dict.fromkeys((samples.source, seconds.source, REPORT))
    return Value(samples.number / (seconds.number - compiling), ", ".join(sources))


def _first(*values: Value) -> Value:
    return next((value for value in values if value.number is not None), Value())


def _reported(number: float) -> Value:
    """Returns a figure of the compile report, in which 0 means "not known"."""
    return Value(number, REPORT) if number else Value()


def _summary(job: JobFacts, name: str) -> Value:
    number = job.log.summary.get(name)
    return Value() if number is None else Value(number, TRAINER)


def _metric(job: JobFacts, fits: Callable[[str], bool]) -> Value:
    """Returns the last value of the first metric whose name fits."""
    for name, samples in sorted(job.metrics.items()):
        if samples and fits(name.lower()):
            return Value(samples[-1].value, f"metric definition {name}")
    return Value()


def _is_throughput(name: str) -> bool:
    return _speaks_of_throughput(name) and not any(other in name for other in ("steady", "eval", "test", "valid"))


def _speaks_of_throughput(name: str) -> bool:
    return name.endswith(("samples_per_second", "samples/s", "samples_per_sec")) or "throughput" in name


def _span(job: JobFacts) -> float:
    """Returns the seconds from the start of the first step to the end of the last, of the slowest worker. 0 if
    unknown.
    """
    spans = [
        (one.last_step_ms - one.started_ms) / 1000 - one.time_to_first_step_seconds + one.first_step_seconds
        for one in job.report.workers
        if one.last_step_ms and one.started_ms and one.time_to_first_step_seconds
    ]
    return max([0.0, *spans])


def _rows(job: JobFacts) -> int:
    """Returns the rows of most batches, added up over the workers."""
    shapes = [one.batch_shapes[0].shape for one in job.report.workers if one.batch_shapes]
    return sum(shape[0] for shape in shapes if shape)


def _losses(job: JobFacts) -> list[LossPoint]:
    if job.log.train:
        return [LossPoint(entry["loss"], entry.get("epoch")) for entry in job.log.train]
    losses = _named(job, ("loss", "train_loss", "train:loss", "training_loss", "train-loss"))
    epochs = {sample.time_ms: sample.value for sample in _named(job, ("epoch", "train:epoch", "train_epoch"))}
    return [LossPoint(sample.value, epochs.get(sample.time_ms)) for sample in losses]


def _named(job: JobFacts, names: Iterable[str]) -> tuple[Sample, ...]:
    lower = {name.lower(): samples for name, samples in job.metrics.items()}
    return next((lower[name] for name in names if lower.get(name)), ())


def _thinned(points: list[LossPoint]) -> tuple[LossPoint, ...]:
    """Returns at most MOST_POINTS points, including the first and the last."""
    if len(points) <= MOST_POINTS:
        return tuple(points)
    stride = (len(points) - 1) / (MOST_POINTS - 1)
    return tuple(points[round(index * stride)] for index in range(MOST_POINTS))
