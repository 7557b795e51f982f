"""The rules of a comparison: facts of two or more jobs become their comparison. The first job is the baseline."""

from collections.abc import Iterator, Sequence

from sagelet_engine.base.errors import SageletError
from sagelet_engine.comparison import payback, sentences
from sagelet_engine.comparison.comparable import Difference, differences, instances_text
from sagelet_engine.comparison.facts import JobFacts
from sagelet_engine.comparison.losses import LossAgreement, agreement, is_shorter
from sagelet_engine.comparison.measured import Value, measure
from sagelet_engine.comparison.result import Comparison, Job, LengthBill, OneRun, Row
from sagelet_engine.comparison.side import Side
from sagelet_engine.instances.catalogue import prices_region
from sagelet_engine.telemetry.compiler.one_run import trust

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


def compare(
    jobs: Sequence[JobFacts], runs: Sequence[JobFacts] = (), *, anyway: bool = False, steps: int | None = None
) -> Comparison:
    """Compares jobs.

    `runs`: other runs of the first job, whose spread is the tolerance of losses. `anyway`: even if the jobs'
    differences make that meaningless. `steps`: the length of a training whose bill is asked for. Raises NotComparable,
    CannotCompare.
    """
    _check(jobs)
    found = [one for other in jobs[1:] for one in differences(jobs[0], other)]
    blocking = [one for one in found if one.blocks]
    if blocking and not anyway:
        raise NotComparable(blocking)
    sides = list(_sides(jobs))
    length = payback.length(sides[0], steps)
    bills = tuple(payback.bills(sides, *length)) if length else ()
    losses = tuple(_losses(sides, runs))
    pairs = [_pair(sides[0], side, losses, bills) for side in sides[1:]]
    return Comparison(
        tuple(_job(side) for side in sides),
        tuple(_rows(sides)),
        tuple(line for pair in pairs for line in sentences.of(pair)),
        tuple(found),
        tuple(pair.speed for pair in pairs if pair.speed),
        tuple(pair.even for pair in pairs if pair.even),
        bills,
        losses,
        tuple(OneRun(side.label, side.trust.factor, side.trust.reason) for side in sides[1:]),
        tuple(_remarks(sides, steps, bills)),
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


def _pair(baseline: Side, side: Side, losses: Sequence[LossAgreement], bills: Sequence[LengthBill]) -> sentences.Pair:
    speed = payback.speed(baseline, side)
    agreed = next((one for one in losses if one.label == side.label), None)
    longer = {bill.label: bill for bill in bills}
    both = (longer[baseline.label], longer[side.label]) if {baseline.label, side.label} <= longer.keys() else None
    return sentences.Pair(baseline, side, speed, payback.of_one_run(baseline, side, speed), agreed, both)


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
        name=facts.name,
        label=side.label,
        account=facts.account,
        region=facts.region,
        status=facts.status,
        compiled=facts.compiled,
        instances=instances_text(facts),
        summary=dict(facts.log.summary),
        losses=side.measured.losses,
        priced_on=facts.bill.as_of.isoformat(),
        compiler=facts.compiler,
    )


#: Key (the name in Measured), title, unit, and the better direction.
ROWS = (
    ("throughput", "Steady throughput", "samples/s", "higher"),
    ("steady_step", "Steady step", "s", ""),
    ("compile_seconds", "Compiling", "s", ""),
    ("compiles", "Programs compiled, or read from the cache", "", ""),
    ("first_step", "First step", "s", ""),
    ("last_loss", "Last training loss", "", ""),
    ("billable_seconds", "Billable time (BillableTimeInSeconds)", "s", "lower"),
    ("usd", "Cost", "USD", "lower"),
    ("training_seconds", "Training time (TrainingTimeInSeconds)", "s", "lower"),
    ("outside", "Training time before and after the loop", "s", ""),
    ("runtime", "Training loop (train_runtime)", "s", "lower"),
    ("script_throughput", "Throughput that the script printed", "samples/s", "higher"),
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


def _remarks(sides: Sequence[Side], steps: int | None, bills: Sequence[LengthBill]) -> Iterator[str]:
    if steps is not None and len(bills) < len(sides):
        unknown = ", ".join(side.name for side in sides if side.label not in {bill.label for bill in bills})
        yield f"No bill of {steps:,} steps for {unknown}: rows of a step, throughput or billable time is not known"
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
