"""What the figures say: what a person wants to know first, then the words of AWS's notebook.

First come the steady speed with its interval, what compiling cost, when it has paid for itself, the losses, and the
bills. They are the same for every compiler.

"Compile and Train the GPT2 Model using the Transformers Trainer API with the wikitext Dataset for Multi-Node Multi-GPU
Training" ends in three percentages, which it computes like this (n is native, o is compiled):

    round((o.train_samples_per_second / n.train_samples_per_second - 1) * 100)
    int((n.train_runtime - o.train_runtime) * 100 / n.train_runtime)
    int((n.BillableTimeInSeconds - o.BillableTimeInSeconds) * 100 / n.BillableTimeInSeconds)

They are said only where one run of each job can say it (`telemetry/compiler/one_run.py`).

Its words are for a compiled job that is faster. A slower one gets the same words with "slower" instead of "faster". A
pair other than a native job and one that XLA compiled gets the jobs' names instead of the product's.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sagelet_engine.comparison import losses as losses_of
from sagelet_engine.comparison.losses import LossAgreement
from sagelet_engine.comparison.result import EPOCHS, BreakEven, LengthBill, Sentence, Speed
from sagelet_engine.comparison.side import Side

#: Figures whose differences are about speed, where no report has the one speed.
_OTHER_SPEEDS = ("script_throughput", "runtime", "training_seconds", "billable_seconds")
COMMAND = "`sagelet compare NATIVE COMPILED --repeat 3`"
#: What to do where one run does not say it.
REPEAT = f"Train both several times in turn: {COMMAND}"


@dataclass(frozen=True)
class Pair:
    """A job compared with the first one. None: not known."""

    baseline: Side
    side: Side
    speed: Speed | None
    even: BreakEven | None
    losses: LossAgreement | None
    #: Of the first job and of this one.
    bills: tuple[LengthBill, LengthBill] | None


def of(pair: Pair) -> Iterator[Sentence]:
    """Yields sentences about a job compared with the first one. Unknown figures have no sentence."""
    baseline, side = pair.baseline, pair.side
    texts = {
        "speed": _speed(pair),
        "compilation": _compilation(side),
        "break-even": "" if pair.even is None else f"{in_words(pair.even)}.",
        "loss": "" if pair.losses is None else _loss(pair, pair.losses),
        "cost": _cost(baseline, side),
        "length": "" if pair.bills is None else _length(pair, *pair.bills),
        "throughput": _throughput(baseline, side),
        "runtime": _runtime(baseline, side),
        "billable": _billable(baseline, side),
    }
    return (Sentence(kind, side.facts.name, side.label, text) for kind, text in texts.items() if text)


def is_pair(baseline: Side, side: Side) -> bool:
    """True for a native job and one that XLA compiled, which AWS's words are about."""
    return side.facts.compiled and side.facts.compiler != "inductor" and not baseline.facts.compiled


def _speed(pair: Pair) -> str:
    """Says the steady speed, and whether one run of each says which job is faster."""
    baseline, side, found = pair.baseline, pair.side, pair.speed
    if found is None and _is_silent(baseline, side):
        return ""
    speed = "" if found is None else _ratio(found, baseline, side)
    if found is not None and found.told:
        return f"{speed}, by one run of each."
    start = f"One run of each does not say whether {side.name} or {baseline.name} is faster"
    start += f": {speed}" if speed else ""
    reason = f" ({side.trust.reason})" if side.trust.reason else ""
    if side.trust.factor is None:
        return f"{start}{reason}. {REPEAT}."
    joined = ", and" if speed else ":"
    return f"{start}{joined} equal jobs may differ by a factor of {side.trust.factor:.1f} here{reason}. {REPEAT}."


def _is_silent(baseline: Side, side: Side) -> bool:
    """True if no speed of both jobs is known, or one of them has a sentence of its own."""
    known = [key for key in _OTHER_SPEEDS if _number(baseline, key) and _number(side, key)]
    return not known or any(side.tells_apart(baseline, key) for key in known)


def _number(side: Side, key: str) -> float | None:
    number: float | None = getattr(side.measured, key).number
    return number


def _ratio(found: Speed, baseline: Side, side: Side) -> str:
    between = "" if found.low is None else f" ({found.low:.2f} to {found.high:.2f})"
    return f"{side.name} trained at {found.ratio:.2f} times the steady speed of {baseline.name}{between}"


def _throughput(baseline: Side, side: Side) -> str:
    before, after = (_number(one, "script_throughput") for one in (baseline, side))
    if not before or after is None or not side.tells_apart(baseline, "script_throughput"):
        return ""
    percent = round((after / before - 1) * 100)
    if is_pair(baseline, side) and percent > 0:
        return f"Training throughput ====> {percent}% Compiler savings <===="
    how = f"{abs(percent)}% {'higher' if percent > 0 else 'lower'}"
    return f"{side.name} has a {how} training throughput than {baseline.name}."


def _runtime(baseline: Side, side: Side) -> str:
    who = "SageMaker Training Compiler is" if is_pair(baseline, side) else f"{side.name} is"
    percent = _less(baseline, side, "runtime")
    if percent is None:
        return ""
    how = f"about {abs(percent)}% {_faster(percent)}{_than(baseline, side)}"
    return f"{who} {how} in terms of total training time."


def _billable(baseline: Side, side: Side) -> str:
    who = "SageMaker Training Compiler integrated PyTorch" if is_pair(baseline, side) else side.name
    percent = _less(baseline, side, "billable_seconds")
    if percent is None:
        return ""
    return f"{who} was {abs(percent)}% {_faster(percent)}{_than(baseline, side)} in summary."


def _less(baseline: Side, side: Side, key: str) -> int | None:
    """Returns by how many whole percent a figure is less, cut off as the notebook does. Below 0 if it is more.

    None if one run of each job does not say it.
    """
    before, after = (getattr(one.measured, key).number for one in (baseline, side))
    return int((before - after) * 100 / before) if before and side.tells_apart(baseline, key) else None


def _faster(percent: int) -> str:
    return "faster" if percent > 0 else "slower"


def _than(baseline: Side, side: Side) -> str:
    return "" if is_pair(baseline, side) else f" than {baseline.name}"


def _cost(baseline: Side, side: Side) -> str:
    before, after = baseline.measured.usd.number, side.measured.usd.number
    if before is None or after is None:
        return ""
    if not side.tells_apart(baseline, "billable_seconds"):
        return f"{side.name} costs ${after:.4f}, {baseline.name} ${before:.4f}."
    saved = before - after
    how = f"${abs(saved):.4f} {'less' if saved >= 0 else 'more'}"
    return f"{side.name} costs ${after:.4f}, {how} than {baseline.name} (${before:.4f})."


def _length(pair: Pair, first: LengthBill, bill: LengthBill) -> str:
    baseline, side = pair.baseline.name, pair.side.name
    epochs = ", the epochs that its hyperparameters name," if bill.why == EPOCHS else ""
    what = f"{bill.steps:,} steps{epochs} would"
    if first.usd is None or bill.usd is None:
        seconds = f"{what} be billed {bill.billable_seconds:,.0f} s with {side}, {first.billable_seconds:,.0f} s with"
        return f"{seconds} {baseline}{_one_run_of(bill)}."
    if not bill.told:
        return f"{what} cost ${bill.usd:,.4f} with {side}, ${first.usd:,.4f} with {baseline}{_one_run_of(bill)}."
    saved = first.usd - bill.usd
    how = f"${abs(saved):,.4f} {'less' if saved >= 0 else 'more'}"
    return f"{what} cost ${bill.usd:,.4f} with {side}, {how} than with {baseline} (${first.usd:,.4f})."


def _one_run_of(bill: LengthBill) -> str:
    return "" if bill.told else "; one run of each does not say which is less"


def _loss(pair: Pair, losses: LossAgreement) -> str:
    text = losses_of.conclusion(losses)
    return f"{text[0].upper()}{text[1:]}. {losses_of.figures(losses, pair.baseline.name)}."


def _compilation(side: Side) -> str:
    seconds, runtime = side.measured.compile_seconds.number, side.measured.runtime.number
    if not side.facts.compiled or seconds is None:
        return ""
    share = f" of the {runtime:.1f} s of training" if runtime else ""
    if side.facts.report.total.cache.has_all:
        reading = "tracing, and reading its programs from the compile cache,"
        reading = reading if side.facts.compiler == "inductor" else "reading its programs from the compile cache"
        return f"{side.name} compiled nothing: {reading} took {seconds:.1f} s{share}."
    return f"{side.name} compiled for {seconds:.1f} s{share}, once; a longer training does not compile for longer."


def in_words(even: BreakEven) -> str:
    """Says when compiling has paid for itself, without a full stop."""
    if not even.told:
        best, worst = _at(even.earliest, even.earliest_seconds), _at(even.latest, even.latest_seconds)
        return f"Whether that pays is too noisy to say: at best {best}; at worst {worst}"
    if even.steps is None:
        return "Without that time it trains no faster than the native job here, so that never pays"
    long_run = f"a long training approaches {int(even.long_run_percent)}% less time"
    when = _at(even.steps, even.seconds)
    if even.ran >= even.steps:
        return f"That paid {when}; it ran {even.ran:,} steps, and {long_run}"
    return f"That pays {when}; it ran only {even.ran:,} steps, and {long_run}"


def _at(steps: int | None, seconds: float | None) -> str:
    if steps is None or seconds is None:
        return "never"
    return f"at step {steps:,}, {duration(seconds)} of training"


def duration(seconds: float) -> str:
    """Returns `20 seconds`, `8 minutes`, `2.5 hours`."""
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds:.3g} seconds"
