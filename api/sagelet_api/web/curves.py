"""Curves of jobs, and the charts that they make: of one job, or of several one over the other."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from sagelet_api.web.units import Unit, fitting, heading, smaller, unit_of
from sagelet_engine.engine import Engine
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.telemetry.compiler.points import FIGURES, PREFIX, Measure

#: The most samples of a curve. A chart has fewer columns of pixels.
MOST = 1000
#: In the order of the page: what the job measures, what the compiler does, what the instances do.
METRICS, COMPILER, INSTANCES = "metrics", "compiler", "instances"
SECTIONS = (METRICS, COMPILER, INSTANCES)
#: Names of metrics that count the training's progress: other metrics may be drawn over them.
PROGRESS = ("epoch", "step", "global_step", "iteration")
TIME, SAMPLE = "time", "sample"


@dataclass(frozen=True)
class Curve:
    """One metric of one job, of one host if it is an instance's. `xs` are seconds since the training began."""

    section: str
    #: As CloudWatch and the job have it.
    name: str
    title: str
    #: See `units.py`.
    unit: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    host: str = ""
    #: The job, and its number, where there are several.
    job: str = ""
    rank: int = 0

    @property
    def holds(self) -> bool:
        """True if each value holds until the next one, as with a counter."""
        return self.section == COMPILER

    @property
    def label(self) -> str:
        return " ".join(part for part in (self.job, self.host) if part) or self.title


def curves(engine: Engine, job: TrainingJob) -> list[Curve]:
    """Returns all curves of a job: its metrics in the order of their definitions, the compiler's, the instances'."""
    return [curve for curve in (*_own(engine, job), *_sampled(engine, job)) if curve.xs]


def _own(engine: Engine, job: TrainingJob) -> Iterator[Curve]:
    defined = [one.name for one in job.spec.metric_definitions]
    names = engine.metrics.names(job)
    for name in sorted(names, key=lambda one: (defined.index(one) if one in defined else len(defined), one)):
        # Hosts of one job print the same metric side by side.
        for host in (None,) if len(job.hosts) == 1 else ("", *job.hosts):
            found = engine.metrics.curve(job, name, MOST, host)
            # Values of one millisecond stay as they were printed: the last one is the job's.
            samples = [(one.time_ms, one.value) for one in sorted(found, key=lambda one: one.time_ms)]
            yield _curve(job, METRICS, name, Measure(name, unit_of(name)), host or "", samples)


def _sampled(engine: Engine, job: TrainingJob) -> Iterator[Curve]:
    """Yields the curves that sagelet samples while the job runs: the compile report's figures, the hosts' usage."""
    by_name: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for point in engine.metrics.of_hosts(job):
        by_name.setdefault((point.name, point.host), []).append((point.time_ms, point.value))
    order = list(FIGURES)
    compiler = [key for key in by_name if key[0].removeprefix(PREFIX) in FIGURES and key[0].startswith(PREFIX)]
    for name, host in sorted(compiler, key=lambda key: order.index(key[0].removeprefix(PREFIX))):
        samples = _held(engine, job, by_name.pop((name, host)))
        yield _curve(job, COMPILER, name, FIGURES[name.removeprefix(PREFIX)].measure, host, samples)
    for (name, host), samples in sorted(by_name.items()):
        yield _curve(job, INSTANCES, name, Measure(name, "%"), host, _thinned(samples))


def _held(engine: Engine, job: TrainingJob, samples: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Adds a last sample as of now, because sagelet stores a point only when the value changes."""
    end_ms = engine.now_ms() if job.training_end_ms is None else job.training_end_ms
    last_ms, value = samples[-1]
    return _thinned(samples) + ([(end_ms, value)] if end_ms > last_ms else [])


def _thinned(samples: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Returns at most MOST samples: every n-th one. A job of weeks has a sample a minute, which is too many."""
    return samples[:: -(-len(samples) // MOST)]


def _curve(
    job: TrainingJob, section: str, name: str, figure: Measure, host: str, samples: Sequence[tuple[int, float]]
) -> Curve:
    start = job.training_start_ms or job.created_ms
    xs = tuple((time_ms - start) / 1000 for time_ms, _ in samples)
    return Curve(
        section=section,
        name=name,
        title=figure.title,
        unit=figure.unit,
        xs=xs,
        ys=tuple(value for _, value in samples),
        host=host,
    )


# --- what the charts are drawn over -----------------------------------------------------------------------------------


def axes(curves: Iterable[Curve]) -> list[str]:
    """Returns what the curves can be drawn over: time, the number of the sample, and metrics of progress that every job
    has."""
    jobs: dict[str, set[str]] = {}
    for curve in curves:
        names = jobs.setdefault(curve.job, set())
        if curve.section == METRICS:
            names.add(curve.name)
    common = set.intersection(*jobs.values()) if jobs else set()
    return [TIME, SAMPLE, *(name for name in PROGRESS if name in common)]


def over(curves: Sequence[Curve], axis: str) -> list[Curve]:
    """Returns the curves with other `xs`. Only a job's own metrics have samples by number, epoch or step."""
    if axis == TIME:
        return list(curves)
    own = [curve for curve in curves if curve.section == METRICS and curve.name != axis]
    if axis == SAMPLE:
        return [replace(curve, xs=tuple(float(number) for number in range(len(curve.xs)))) for curve in own]
    progress = {(curve.job, curve.host): curve for curve in curves if curve.section == METRICS and curve.name == axis}
    drawn = [_over(curve, progress[curve.job, curve.host]) for curve in own if (curve.job, curve.host) in progress]
    return [curve for curve in drawn if curve.xs]


def _over(curve: Curve, progress: Curve) -> Curve:
    """Puts each sample at the progress that the job had made by then. Leaves out samples before the first progress."""
    pairs = []
    for x, y in zip(curve.xs, curve.ys, strict=True):
        before = bisect_right(progress.xs, x)
        if before:
            pairs.append((progress.ys[before - 1], y))
    pairs.sort(key=lambda pair: pair[0])
    return replace(curve, xs=tuple(x for x, _ in pairs), ys=tuple(y for _, y in pairs))


# --- charts -----------------------------------------------------------------------------------------------------------


class Axis(TypedDict):
    """The horizontal axis that all charts of a page share. `range` is in `unit`."""

    label: str
    unit: str
    range: list[float]


class Line(TypedDict):
    """A curve in the units of its chart. None stands for a value that is not finite, which JSON does not have."""

    label: str
    colour: int
    dashed: bool
    x: list[float]
    y: list[float | None]


class Chart(TypedDict):
    """One chart, as `charts.js` reads it."""

    title: str
    name: str
    unit: str
    #: Names of smaller units, the largest first, and how many of each are one `unit`.
    smaller: list[tuple[str, float]]
    x: Axis
    fromZero: bool
    holds: bool
    series: list[Line]


def charts(curves: Sequence[Curve], axis: str = TIME) -> dict[str, list[Chart]]:
    """Returns the charts of each section for `charts.js`: one for each metric, all with the same horizontal axis."""
    grouped: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves:
        grouped.setdefault((curve.section, curve.name), []).append(curve)
    horizontal, label = _horizontal(grouped, axis)
    stretch = _stretch(grouped, horizontal)
    made: dict[str, list[Chart]] = {section: [] for section in SECTIONS}
    for (section, _), together in grouped.items():
        x = Axis(label=label, unit=horizontal.name, range=stretch)
        made[section].append(_chart(together, x, horizontal.divisor))
    return made


def _horizontal(grouped: dict[tuple[str, str], list[Curve]], axis: str) -> tuple[Unit, str]:
    if axis == SAMPLE:
        return Unit(""), "number of the sample"
    if axis != TIME:
        return Unit(""), axis
    longest = max((curve.xs[-1] for group in grouped.values() for curve in group), default=0.0)
    # No milliseconds: jobs take longer than that.
    unit = fitting("s", max(1.0, longest))
    words = {"s": "seconds", "min": "minutes", "h": "hours"}
    return unit, f"{words[unit.name]} since the training began"


def _stretch(grouped: dict[tuple[str, str], list[Curve]], unit: Unit) -> list[float]:
    xs = [x for group in grouped.values() for curve in group for x in (curve.xs[0], curve.xs[-1])]
    low, high = min([0.0, *xs]), max(xs, default=1.0)
    return [low / unit.divisor, (high if high > low else low + 1.0) / unit.divisor]


def _chart(together: Sequence[Curve], x: Axis, divisor: float) -> Chart:
    first = together[0]
    highest = max((abs(y) for curve in together for y in curve.ys if math.isfinite(y)), default=0.0)
    unit = fitting(first.unit, highest)
    return {
        "title": heading(first.title, unit.name),
        "name": first.name,
        "unit": unit.name,
        "smaller": [(one.name, unit.divisor / one.divisor) for one in smaller(first.unit, unit)],
        "x": x,
        "fromZero": first.section != METRICS,
        "holds": first.holds,
        "series": [
            {
                "label": curve.label,
                # A job has one colour in all charts. Its other hosts are dashed.
                "colour": curve.rank if curve.job else number,
                "dashed": bool(curve.job) and any(one.job == curve.job for one in together[:number]),
                "x": [value / divisor for value in curve.xs],
                # JSON has no NaN and no infinity.
                "y": [value / unit.divisor if math.isfinite(value) else None for value in curve.ys],
            }
            for number, curve in enumerate(together)
        ],
    }
