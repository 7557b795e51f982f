"""What the demo's jobs show, in four lines: losses, steady speed, the price of compiling, the warm job. Pure.

The speed is by the script's own clock, at steps at which it has read the loss, and so has waited for the device. The
time between two such marks is time of training. All jobs train on the same batches, so spans of the same steps are
compared. Spans in which any of the jobs compiled do not count, in none of the jobs, nor does the first step.

The compiled job runs before the native one and again after it. So what the machine loses or gains meanwhile is in the
difference of the two compiled runs, and the interval has that difference in it.
"""

import math
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sagelet_engine.comparison.losses import LossAgreement, agreement, conclusion
from sagelet_engine.comparison.measured import LossPoint
from sagelet_engine.comparison.student import quantile

#: What train.py prints where it has read the loss. The seconds are since the end of its imports.
_MARK = re.compile(r"clock: step (\d{1,9}) of (\d{1,9}), (\d{1,9}\.\d{1,6}) s, loss (-?\d{1,9}(?:\.\d{1,9})?|nan|inf)")
#: Fewer spans of one job have no interval.
FEWEST_SPANS = 3
#: Of train.py's clock.
RESOLUTION_S = 0.001
#: A ratio within this share of 1 counts as the same speed.
EQUAL = 0.02
#: An interval whose ends differ by more than this factor says nothing that repeats.
WIDEST = 1.35
FASTER, SLOWER, SAME, NOISY = "faster", "slower", "the same", "too noisy to say"


@dataclass(frozen=True)
class Mark:
    """A step at which the script had read the loss."""

    #: Steps that have ended.
    step: int
    #: Steps of the whole training.
    of: int
    #: Since the end of the script's imports.
    seconds: float
    #: Mean loss of the steps since the mark before.
    loss: float


@dataclass(frozen=True)
class Run:
    """One job: its marks, and what its compile report counts."""

    name: str
    marks: tuple[Mark, ...]
    #: Steps that compiled, counted from 0.
    compiling_steps: tuple[int, ...] = ()
    #: Programs that the compile cache had, and those that it did not have.
    hits: int = 0
    misses: int = 0


@dataclass(frozen=True)
class Speed:
    """Steady speed of the compiled job over the native one's: above 1, compiled is faster."""

    ratio: float
    #: The 95 % interval.
    low: float
    high: float
    #: faster, slower, the same, or too noisy to say
    verdict: str
    #: Seconds of a step.
    native_step: float
    compiled_step: float


@dataclass(frozen=True)
class Price:
    """What compiling cost in the job that compiled."""

    #: Seconds that its training took more than its steps at their steady speed, less the same of the native job.
    seconds: float
    #: Steps after which the faster steps have won them back. None if they never do, or if nobody can say.
    even_after: int | None


@dataclass(frozen=True)
class Figures:
    """All that the demo's last lines say. None: unknown, because the script printed too little."""

    losses: LossAgreement | None
    speed: Speed | None
    price: Price | None


def mark_in(line: str) -> Mark | None:
    """Returns the mark in a line of a job's log. None if the line has none, or one that no training prints."""
    found = _MARK.fullmatch(line.strip())
    if found is None:
        return None
    mark = Mark(int(found[1]), int(found[2]), float(found[3]), float(found[4]))
    return mark if 1 <= mark.step <= mark.of else None


def figures(native: Run, compiled: Run, again: Run) -> Figures:
    """Judges three jobs that ran in this order: compiled, native, compiled again."""
    curves = [_curve(run) for run in (native, compiled, again)]
    losses = agreement(compiled.name, "compiled", curves[:1], curves[1:])
    steady = _steady_spans(native, compiled, again)
    if len(steady) < FEWEST_SPANS:
        return Figures(losses, None, None)
    speed = _speed([_step_seconds(run, steady) for run in (native, compiled, again)])
    return Figures(losses, speed, _price(native, compiled, speed, steady[0][0]))


def _curve(run: Run) -> list[LossPoint]:
    return [LossPoint(mark.loss, mark.step) for mark in run.marks]


def _steady_spans(*runs: Run) -> list[tuple[int, int]]:
    """Returns first and last step of each span that all runs have and in which none compiled."""
    common = sorted(set.intersection(*({mark.step for mark in run.marks} for run in runs)))
    compiling = {step for run in runs for step in run.compiling_steps}
    return [(first, last) for first, last in pairwise(common) if not compiling.intersection(range(first, last))]


def _step_seconds(run: Run, spans: Sequence[tuple[int, int]]) -> list[float]:
    """Returns the seconds of a step, for each span."""
    at = {mark.step: mark.seconds for mark in run.marks}
    return [max(at[last] - at[first], RESOLUTION_S) / (last - first) for first, last in spans]


def _speed(steps: Sequence[Sequence[float]]) -> Speed:
    """Compares seconds of a step, span by span, of the native run and the two compiled ones."""
    native, *both = ([math.log(seconds) for seconds in run] for run in steps)
    first, second = map(statistics.fmean, both)
    count = len(native)
    variance = statistics.variance(native) + sum(map(statistics.variance, both)) / 4
    error = quantile(count - 1) * math.sqrt(variance / count) + abs(first - second) / 2
    middle = statistics.fmean(native) - (first + second) / 2
    low, high = math.exp(middle - error), math.exp(middle + error)
    step = math.exp(statistics.fmean(native))
    return Speed(
        ratio=math.exp(middle),
        low=low,
        high=high,
        verdict=_verdict(low, high),
        native_step=step,
        compiled_step=step / math.exp(middle),
    )


def _verdict(low: float, high: float) -> str:
    if low >= 1 - EQUAL and high <= 1 + EQUAL:
        return SAME
    if low <= 1 <= high or high / low > WIDEST:
        return NOISY
    return FASTER if low > 1 else SLOWER


def _price(native: Run, compiled: Run, speed: Speed, steady_from: int) -> Price:
    """`steady_from`: the number of steps after which no job compiles."""
    more = [
        next(mark.seconds for mark in run.marks if mark.step == steady_from) - steady_from * step
        for run, step in ((native, speed.native_step), (compiled, speed.compiled_step))
    ]
    seconds = more[1] - more[0]
    if speed.verdict != FASTER:
        return Price(seconds, None)
    return Price(seconds, max(0, math.ceil(seconds / (speed.native_step - speed.compiled_step) - 1e-6)))


def lines(found: Figures, compiled: Run, again: Run) -> Iterator[str]:
    """Yields the four lines."""
    yield _losses(found.losses)
    yield _speed_line(found.speed)
    yield _price_line(found, compiled)
    yield _warm_line(compiled, again)


_UNKNOWN = "unknown: the jobs printed too few losses; take more --steps"


def _losses(found: LossAgreement | None) -> str:
    if found is None:
        return f"whether the losses agree is {_UNKNOWN}"
    return conclusion(found)


def _speed_line(speed: Speed | None) -> str:
    if speed is None:
        return f"the steady speed is {_UNKNOWN}"
    between = f"between {speed.low:.2f} and {speed.high:.2f} times native"
    if speed.verdict == NOISY:
        return f"whether compiled steps are faster is too noisy to say on this machine now: {between}"
    steps = f"a step takes {speed.compiled_step * 1000:.0f} ms compiled, {speed.native_step * 1000:.0f} ms natively"
    if speed.verdict == SAME:
        return f"compiled steps are as fast as native ones: {between}; {steps}"
    return f"compiled steps have {speed.ratio:.2f} times native's speed ({speed.low:.2f} to {speed.high:.2f}): {steps}"


def _price_line(found: Figures, compiled: Run) -> str:
    if found.price is None or found.speed is None:
        return f"what compiling cost is {_UNKNOWN}"
    cost = f"compiling cost {max(found.price.seconds, 0.0):.1f} s"
    if compiled.hits:
        programs = compiled.hits + compiled.misses
        cost += f" ({compiled.hits} of its {programs} programs were compiled by an earlier job)"
    if found.speed.verdict == NOISY:
        return f"{cost}; after how many steps that is paid back is too noisy to say, too"
    if found.price.even_after is None:
        return f"{cost}; no number of steps pays that back: never"
    steps = compiled.marks[-1].of
    here = "this job had" if found.price.even_after <= steps else "this job had only"
    return f"{cost}, paid back after {found.price.even_after} steps; {here} {steps}"


def _warm_line(compiled: Run, again: Run) -> str:
    programs = again.hits + again.misses
    if not programs:
        return "the same compiled job once more reported no programs, so its compile cache is off or unknown"
    first, second = (_first_step(run) for run in (compiled, again))
    took = f"its first step took {second:.1f} s in place of {first:.1f} s"
    if again.misses:
        return f"the same compiled job once more compiled {again.misses} of {programs} programs again; {took}"
    return (
        f"the same compiled job once more compiled nothing: {again.hits} of {programs} programs from the cache; {took}"
    )


def _first_step(run: Run) -> float:
    return run.marks[0].seconds if run.marks else math.nan
