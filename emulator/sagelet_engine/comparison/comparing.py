"""The rules of a comparison: facts of two or more jobs become their comparison. The first job is the baseline."""

import math
from collections.abc import Iterator, Mapping, Sequence

from sagelet_engine.base.errors import SageletError
from sagelet_engine.comparison import sentences
from sagelet_engine.comparison.comparable import Difference, differences, instances_text
from sagelet_engine.comparison.facts import JobFacts
from sagelet_engine.comparison.losses import LossAgreement, agreement, is_shorter
from sagelet_engine.comparison.measured import Value, measure
from sagelet_engine.comparison.one_run import trust
from sagelet_engine.comparison.result import BreakEven, Comparison, Job, OneRun, Row, Sentence
from sagelet_engine.comparison.side import Side
from sagelet_engine.instances.catalogue import prices_region

#: Medians of steps that differ by a smaller share contradict nothing.
CLEAR = 0.05
#: The most jobs of one comparison. A picture cannot show more of them distinctly.
MOST_JOBS = 8

#: Names of compilers for people.
COMPILERS = {"xla": "XLA", "inductor": "Inductor"}


class CannotCompare(SageletError):
    """There are too few jobs, too many, or one is named twice."""


class NotComparable(SageletError):
    """A comparison of these jobs means nothing."""

    def __init__(self, found: Sequence[Difference]) -> None:
        self.differences = tuple(found)
        reasons = "; ".join(dict.fromkeys(f"{one.job}: {one.text}" for one in found))
        super().__init__(f"Not comparable. {reasons}.")


def compare(jobs: Sequence[JobFacts], runs: Sequence[JobFacts] = (), *, anyway: bool = False) -> Comparison:
    """Compares jobs.

    `runs`: other runs of the first job, whose spread is the tolerance of losses. `anyway`: even if the jobs'
    differences make that meaningless. Raises NotComparable, CannotCompare.
    """
    _check(jobs)
    found = [one for other in jobs[1:] for one in differences(jobs[0], other)]
    blocking = [one for one in found if one.blocks]
    if blocking and not anyway:
        raise NotComparable(blocking)
    sides = list(_sides(jobs))
    evens = {side.label: even for side in sides[1:] if (even := break_even(sides[0], side)) is not None}
    losses = {one.label: one for one in _losses(sides, runs)}
    return Comparison(
        tuple(_job(side) for side in sides),
        tuple(_rows(sides)),
        tuple(line for side in sides[1:] for line in _sentences(sides[0], side, evens, losses)),
        tuple(found),
        tuple(evens.values()),
        tuple(losses.values()),
        tuple(OneRun(side.label, side.trust.factor, side.trust.reason) for side in sides[1:]),
        tuple(_remarks(sides)),
    )


def _sides(jobs: Sequence[JobFacts]) -> Iterator[Side]:
    names = _names(jobs)
    for job, label, name in zip(jobs, labels(jobs), names, strict=True):
        known = trust([(names[0], jobs[0].report), (name, job.report)])
        yield Side(job, measure(job), label, name, known)


def is_another_run(baseline: JobFacts, other: JobFacts) -> bool:
    """True if both are the same training: nothing differs but chance, the machine's load, and names."""
    alike = (baseline.compiled, baseline.compiler, baseline.image) == (other.compiled, other.compiler, other.image)
    return alike and not differences(baseline, other)


def _losses(sides: Sequence[Side], runs: Sequence[JobFacts]) -> Iterator[LossAgreement]:
    own = sides[0].measured.losses
    known = [measure(one).losses for one in runs if is_another_run(sides[0].facts, one)]
    # A run that printed fewer losses would hide points of the jobs that are compared.
    curves = [own, *(curve for curve in known if not is_shorter(curve, own))]
    for side in sides[1:]:
        if found := agreement(side.facts.name, side.label, curves, [side.measured.losses]):
            yield found


def _sentences(
    baseline: Side, side: Side, evens: Mapping[str, BreakEven], losses: Mapping[str, LossAgreement]
) -> Iterator[Sentence]:
    return sentences.of(baseline, side, evens.get(side.label), losses.get(side.label))


def _check(jobs: Sequence[JobFacts]) -> None:
    if len(jobs) < 2:
        raise CannotCompare("A comparison takes two jobs or more: name the native one first, then the compiled ones")
    if len(jobs) > MOST_JOBS:
        raise CannotCompare(f"{len(jobs)} jobs are more than a comparison shows apart: name at most {MOST_JOBS}")
    places = [(job.account, job.region, job.name) for job in jobs]
    if twice := next((place for place in places if places.count(place) > 1), None):
        raise CannotCompare(f"{twice[2]} is named twice: a job is not compared with itself")


def labels(jobs: Sequence[JobFacts]) -> list[str]:
    """Returns the compiler of each job or `native`, with a number from the second of a kind on."""
    kinds = [COMPILERS.get(job.compiler, "XLA") if job.compiled else "native" for job in jobs]
    numbers = [kinds[: index + 1].count(kind) for index, kind in enumerate(kinds)]
    return [kind if number == 1 else f"{kind} {number}" for kind, number in zip(kinds, numbers, strict=True)]


def _names(jobs: Sequence[JobFacts]) -> list[str]:
    """Returns names of jobs for sentences, with account and region if two jobs have the same name."""
    names = [job.name for job in jobs]
    return [job.name if names.count(job.name) == 1 else f"{job.name} ({job.account}, {job.region})" for job in jobs]


def _job(side: Side) -> Job:
    facts = side.facts
    return Job(
        facts.name,
        side.label,
        facts.account,
        facts.region,
        facts.status,
        facts.compiled,
        instances_text(facts),
        dict(facts.log.summary),
        side.measured.losses,
        facts.bill.as_of.isoformat(),
        facts.compiler,
    )


#: Key (the name in Measured), title, unit, and the better direction.
ROWS = (
    ("throughput", "Throughput of the whole training", "samples/s", "higher"),
    ("steady_throughput", "Throughput without the time of compiling", "samples/s", "higher"),
    ("runtime", "Training loop (train_runtime)", "s", "lower"),
    ("training_seconds", "Training time (TrainingTimeInSeconds)", "s", "lower"),
    ("outside", "Training time before and after the loop", "s", ""),
    ("billable_seconds", "Billable time (BillableTimeInSeconds)", "s", "lower"),
    ("usd", "Cost", "USD", "lower"),
    ("compile_seconds", "Compiling", "s", ""),
    ("compiles", "Compiled programs", "", ""),
    ("first_step", "First step", "s", ""),
    ("steady_step", "Step that compiled nothing", "s", ""),
    ("last_loss", "Last training loss", "", ""),
    ("steps", "Steps", "", ""),
    ("samples", "Samples", "", ""),
    ("rows", "Rows of a step, all workers", "", ""),
)


def _rows(sides: Sequence[Side]) -> Iterator[Row]:
    """Yields the rows with at least one known value."""
    for key, title, unit, better in ROWS:
        values: list[Value] = [getattr(side.measured, key) for side in sides]
        numbers = tuple(value.number for value in values)
        if any(number is not None for number in numbers):
            changes = tuple(change(numbers[0], number) for number in numbers)
            sources = tuple(value.source if value.number is not None else "" for value in values)
            told = tuple(side.tells_apart(sides[0], key) for side in sides)
            yield Row(key, title, unit, better, numbers, changes, sources, told)


def change(before: float | None, after: float | None) -> float | None:
    """Returns the change in percent of `before`."""
    if before is None or after is None or before <= 0:
        return None
    return (after / before - 1) * 100


def break_even(baseline: Side, side: Side) -> BreakEven | None:
    """Returns the break-even. None unless one run says that a native and a compiled job differ in speed.

    A step of the compiled job saves what its rows take longer natively. Both speeds are those of steps that compile
    nothing.
    """
    if baseline.facts.compiled or not side.facts.compiled:
        return None
    native, compiled = (one.measured.steady_throughput.number for one in (baseline, side))
    seconds, rows, ran = (getattr(side.measured, key).number for key in ("compile_seconds", "rows", "steps"))
    if not native or not compiled or not rows or seconds is None:
        return None
    if not side.tells_apart(baseline, "steady_throughput") or _contradicted(baseline, side):
        return None
    saved = rows / native - rows / compiled
    steps = math.ceil(seconds / saved) if saved > 0 else None
    return BreakEven(side.facts.name, seconds, steps, int(ran or 0), (1 - native / compiled) * 100)


def _contradicted(baseline: Side, side: Side) -> bool:
    """True if the steps say the opposite of the throughputs without compiling.

    Both are of the same intervals, unless the report knows no rows. Then the throughput is that of the whole loop, in
    which evaluations and files that were saved count, too.
    """
    before, after = baseline.measured.steady_step.number, side.measured.steady_step.number
    native, compiled = (one.measured.steady_throughput.number for one in (baseline, side))
    if not before or not after or not native or not compiled:
        return False
    is_clear = abs(1 - after / before) >= CLEAR
    same_rows = baseline.measured.rows.number == side.measured.rows.number
    return same_rows and is_clear and (after < before) != (compiled > native)


def _remarks(sides: Sequence[Side]) -> Iterator[str]:
    for side in sides:
        if side.facts.stand_in:
            yield f"{side.name}: {side.facts.stand_in}. Seconds are this machine's, not AWS's"
    unpriced = [name for side in sides for name, _ in side.facts.bill.instances if side.facts.bill.usd is None]
    if unpriced:
        yield f"No cost: the price of {', '.join(dict.fromkeys(unpriced))} is not known"
    else:
        dates = ", ".join(sorted({side.facts.bill.as_of.isoformat() for side in sides}))
        price = f"AWS's on-demand price of training in {prices_region()}, list of {dates}"
        yield f"Cost: billable seconds x instances x {price}"
    if [side.facts.compiled for side in sides] == [False, True]:
        yield f"One run of each job: how far runs vary is not known. {sentences.COMMAND} measures it"
