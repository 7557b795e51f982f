"""After how many steps compiling has paid for itself, and the bill of a training of another length. Pure.

All rests on one speed: rows a second between moments at which the device was done (docs/reference/compiler-report.md).
A speed is a ratio with an interval, by one run of each job or by several. The same rules are for every compiler.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from sagelet_engine.base.number_text import number_in
from sagelet_engine.comparison.measured import Measured
from sagelet_engine.comparison.result import ASKED, EPOCHS, BreakEven, LengthBill, Speed
from sagelet_engine.comparison.side import Side

#: The most steps of a training whose bill is said.
MOST_STEPS = 1_000_000_000_000
#: Steps whose seconds differ by a smaller share contradict nothing.
CLEAR = 0.05
#: Hyperparameters that say how often a training passes over its data.
_EPOCHS = ("num_train_epochs", "epochs", "num_epochs", "max_epochs")
#: A run that ended within this share of its epochs has trained for all of them: the last batch may be left out.
_WHOLE = 0.98


def speed(baseline: Side, side: Side) -> Speed | None:
    """Returns how many times as fast as the first job another one trains, by one run of each. None if unknown."""
    before, after = (one.measured.throughput.number for one in (baseline, side))
    if not before or not after:
        return None
    interval = None if _contradicted(baseline, side) else side.trust.interval(after / before)
    low, high = interval or (None, None)
    told = interval is not None and not interval[0] <= 1 <= interval[1]
    return Speed(side.facts.name, side.label, after / before, low, high, told)


def _contradicted(baseline: Side, side: Side) -> bool:
    """True if the steps say the opposite of the throughputs.

    Both are of the same intervals, unless the report knows no rows. Then the throughput is that of the whole loop, in
    which evaluations and files that were saved count, too.
    """
    before, after = baseline.measured.steady_step.number, side.measured.steady_step.number
    first, second = (one.measured.throughput.number for one in (baseline, side))
    if not before or not after or not first or not second:
        return False
    is_clear = abs(1 - after / before) >= CLEAR
    same_rows = baseline.measured.rows.number == side.measured.rows.number
    return same_rows and is_clear and (after < before) != (second > first)


def of_one_run(baseline: Side, side: Side, found: Speed | None) -> BreakEven | None:
    """Returns the break-even of a native and a compiled job. None if they are not, or a figure is not known."""
    measured = side.measured
    if baseline.facts.compiled or not side.facts.compiled or found is None or found.low is None:
        return None
    native, cost, rows = baseline.measured.throughput.number, measured.compile_seconds.number, measured.rows.number
    if not native or cost is None or not rows:
        return None
    return break_even(found, cost, rows / native, int(measured.steps.number or 0))


def break_even(found: Speed, cost: float, native_step: float, ran: int) -> BreakEven:
    """`cost`: seconds of compiling. `native_step`: seconds in which the native job trains on the rows of a step."""
    steps, seconds = _paid(found.ratio, cost, native_step)
    earliest, earliest_seconds = _paid(found.high, cost, native_step)
    latest, latest_seconds = _paid(found.low, cost, native_step)
    return BreakEven(
        found.job,
        cost,
        steps,
        ran,
        (1 - 1 / found.ratio) * 100,
        found.label,
        seconds,
        earliest,
        latest,
        earliest_seconds,
        latest_seconds,
        found.told,
    )


def _paid(ratio: float | None, cost: float, native_step: float) -> tuple[int | None, float | None]:
    """Returns the step at which the time that compiled steps save is the time of compiling, and the seconds until then.

    None: never, or the ratio is not known.
    """
    saved = 0.0 if ratio is None else native_step * (1 - 1 / ratio)
    if ratio is None or saved <= 0:
        return None, None
    steps = math.ceil(cost / saved - 1e-9)
    return steps, cost + steps * native_step / ratio


def length(baseline: Side, asked: int | None) -> tuple[int, str] | None:
    """Returns the steps of the training to bill, and why: `asked` for, or the job's own epochs if it ran fewer.

    None if that is not known, or is no number of steps up to MOST_STEPS: the job printed its epochs.
    """
    if asked is not None:
        return asked, ASKED
    planned, passed, steps = _planned(baseline.facts.hyperparameters), _passed(baseline), baseline.measured.steps.number
    if not planned or not passed or not steps or passed >= _WHOLE * planned:
        return None
    wanted = steps * planned / passed
    return (round(wanted), EPOCHS) if 1 <= wanted <= MOST_STEPS else None


def _planned(hyperparameters: Mapping[str, str]) -> float:
    for name in _EPOCHS:
        planned = number_in(hyperparameters.get(name, ""))
        if planned is not None and math.isfinite(planned):
            return planned
    return 0.0


def _passed(side: Side) -> float:
    """Returns the epochs that a job has trained, as it printed them. 0 if it printed none."""
    printed = side.facts.log.summary.get("epoch")
    return printed or max((point.epoch or 0.0 for point in side.measured.losses), default=0.0)


def bills(sides: Sequence[Side], steps: int, why: str) -> Iterator[LengthBill]:
    """Yields what each job would be billed for a training of `steps` steps of the first job.

    It is the bill of the run, with more steps or fewer at the speed without compiling. So compiling, start and upload
    stay as they were, and so does what the run spent on evaluations. Jobs whose figures are not known are left out.
    """
    rows = (sides[0].measured.rows.number or 0) * steps
    first = _billed(sides[0].measured, rows)
    for side in sides:
        seconds = _billed(side.measured, rows)
        if seconds is None:
            continue
        usd, billed = side.measured.usd.number, side.measured.billable_seconds.number
        told = first is not None and side is not sides[0] and _is_told(first, side, rows)
        price = None if usd is None or not billed else usd / billed
        yield LengthBill(
            side.facts.name, side.label, steps, why, seconds, None if price is None else price * seconds, told
        )


def _billed(measured: Measured, rows: float, slower: float = 1.0) -> float | None:
    """Returns billable seconds of a training on `rows` rows. `slower`: factor of the seconds of a row."""
    billed, trained = measured.billable_seconds.number, measured.training_seconds.number
    speed, samples = measured.throughput.number, measured.samples.number
    if not rows or not billed or not speed or not samples:
        return None
    # Managed spot training bills a share of the seconds.
    share = billed / trained if trained else 1.0
    return max(0.0, billed + share * (rows * slower - samples) / speed)


def _is_told(first: float, side: Side, rows: float) -> bool:
    """True if the jobs' bills differ in the same direction, however much equal jobs may differ in speed."""
    factor = side.trust.factor
    if factor is None:
        return False
    ends = [_billed(side.measured, rows, slower) for slower in (factor, 1 / factor)]
    return all(end is not None and end > first for end in ends) or all(end is not None and end < first for end in ends)
