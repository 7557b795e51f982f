"""What the figures say, in the words of AWS's notebook.

"Compile and Train the GPT2 Model using the Transformers Trainer API with the wikitext Dataset for Multi-Node Multi-GPU
Training" ends in three percentages, which it computes like this (n is native, o is compiled):

    round((o.train_samples_per_second / n.train_samples_per_second - 1) * 100)
    int((n.train_runtime - o.train_runtime) * 100 / n.train_runtime)
    int((n.BillableTimeInSeconds - o.BillableTimeInSeconds) * 100 / n.BillableTimeInSeconds)

Its words are for a compiled job that is faster. A slower one gets the same words with "slower" instead of "faster". A
pair other than a native job and one that XLA compiled gets the jobs' names instead of the product's.
"""

from collections.abc import Iterator

from sagelet_engine.comparison import losses as losses_of
from sagelet_engine.comparison.losses import LossAgreement
from sagelet_engine.comparison.result import BreakEven, Sentence
from sagelet_engine.comparison.side import Side

#: Percent from which on single runs differ, and a mean and a median contradict each other.
_CLEAR = 5


def of(baseline: Side, side: Side, even: BreakEven | None, losses: LossAgreement | None) -> Iterator[Sentence]:
    """Yields sentences about `side` compared with `baseline`. Unknown figures have no sentence."""
    texts = {
        "throughput": _throughput(baseline, side),
        "loss": _loss(baseline, side, losses),
        "runtime": _runtime(baseline, side),
        "billable": _billable(baseline, side),
        "cost": _cost(baseline, side),
        "compilation": _compilation(side),
        "break-even": "" if even is None else _break_even(baseline, side, even),
    }
    return (Sentence(kind, side.facts.name, side.label, text) for kind, text in texts.items() if text)


def is_pair(baseline: Side, side: Side) -> bool:
    """True for a native job and one that XLA compiled, which AWS's words are about."""
    return side.facts.compiled and side.facts.compiler != "inductor" and not baseline.facts.compiled


def _throughput(baseline: Side, side: Side) -> str:
    before, after = baseline.measured.throughput.number, side.measured.throughput.number
    if not before or after is None:
        return ""
    percent = round((after / before - 1) * 100)
    if is_pair(baseline, side) and percent > 0:
        return f"Training throughput ====> {percent}% Compiler savings <===="
    if percent == 0:
        return f"{side.name} has the same training throughput as {baseline.name}, within 1%."
    how = f"{abs(percent)}% {'higher' if percent > 0 else 'lower'}"
    return f"{side.name} has a {how} training throughput than {baseline.name}."


def _runtime(baseline: Side, side: Side) -> str:
    who = "SageMaker Training Compiler is" if is_pair(baseline, side) else f"{side.name} is"
    percent = _less(baseline.measured.runtime.number, side.measured.runtime.number)
    if percent is None:
        return ""
    if percent == 0:
        return f"{who} as fast{_as(baseline, side)} in terms of total training time, within 1%."
    how = f"about {abs(percent)}% {_faster(percent)}{_than(baseline, side)}"
    return f"{who} {how} in terms of total training time."


def _billable(baseline: Side, side: Side) -> str:
    who = "SageMaker Training Compiler integrated PyTorch" if is_pair(baseline, side) else side.name
    percent = _less(baseline.measured.billable_seconds.number, side.measured.billable_seconds.number)
    if percent is None:
        return ""
    if percent == 0:
        return f"{who} was as fast{_as(baseline, side)} in summary, within 1%."
    return f"{who} was {abs(percent)}% {_faster(percent)}{_than(baseline, side)} in summary."


def _less(before: float | None, after: float | None) -> int | None:
    """Returns by how many whole percent `after` is less, cut off as the notebook does. Below 0 if it is more."""
    return None if not before or after is None else int((before - after) * 100 / before)


def _faster(percent: int) -> str:
    return "faster" if percent > 0 else "slower"


def _than(baseline: Side, side: Side) -> str:
    return "" if is_pair(baseline, side) else f" than {baseline.name}"


def _as(baseline: Side, side: Side) -> str:
    return "" if is_pair(baseline, side) else f" as {baseline.name}"


def _cost(baseline: Side, side: Side) -> str:
    before, after = baseline.measured.usd.number, side.measured.usd.number
    if before is None or after is None:
        return ""
    saved = before - after
    how = f"${abs(saved):.4f} {'less' if saved >= 0 else 'more'}"
    return f"{side.name} costs ${after:.4f}, {how} than {baseline.name} (${before:.4f})."


def _loss(baseline: Side, side: Side, losses: LossAgreement | None) -> str:
    if losses is None:
        return ""
    figures = losses_of.figures(losses, baseline.name)
    if losses.verdict == losses_of.SIMILAR:
        words = "with and without SageMaker Training Compiler" if is_pair(baseline, side) else "in both jobs"
        return f"The decrease in training loss is similar {words}: {figures}."
    if losses.verdict == losses_of.NOISY:
        names = f"{baseline.name} and {side.name}"
        return f"Whether the training losses of {names} are similar is too noisy to say: {figures}."
    return f"The training losses of {baseline.name} and {side.name} are not similar: {figures}."


def _compilation(side: Side) -> str:
    seconds, runtime = side.measured.compile_seconds.number, side.measured.runtime.number
    if not side.facts.compiled or seconds is None:
        return ""
    share = f" of the {runtime:.1f} s of training" if runtime else ""
    return f"{side.name} compiled for {seconds:.1f} s{share}, once; a longer training does not compile for longer."


def _break_even(baseline: Side, side: Side, even: BreakEven) -> str:
    name = side.name
    if step := _contradicting_step(baseline, side, even):
        whole = "higher" if even.long_run_percent > 0 else "lower"
        return (
            f"Whether {name} wins the time of compiling back is too noisy to say. Without compiling, its throughput is "
            f"{whole} than natively, and yet its median step takes {step}. Compare again on an idle machine, or with "
            "--repeat."
        )
    if abs(even.long_run_percent) < _CLEAR:
        return (
            f"Without the time of compiling, {name} trains as fast as the native job, within {_CLEAR}%. One run of "
            "each does not say whether compiling pays: --repeat does."
        )
    if even.steps is None:
        return (
            f"Without the time of compiling, {name} trains no faster than the native job here. So that time is never "
            "won back."
        )
    long_run = f"a long training approaches {int(even.long_run_percent)}% less time"
    if even.ran >= even.steps:
        return f"{name} won the time of compiling back by step {even.steps} of {even.ran}; {long_run}."
    return f"{name} ran {even.ran} steps; it would win the time of compiling back by step {even.steps}: {long_run}."


def _contradicting_step(baseline: Side, side: Side, even: BreakEven) -> str:
    """Returns how much time the median step takes if that contradicts the throughput. Empty if it does not.

    One is a mean and the other a median. They contradict each other if something else used the CPU for a while.
    """
    before, after = baseline.measured.steady_step.number, side.measured.steady_step.number
    if not before or not after or baseline.measured.rows.number != side.measured.rows.number:
        return ""
    percent = (1 - after / before) * 100
    if min(abs(percent), abs(even.long_run_percent)) < _CLEAR or (percent > 0) == (even.long_run_percent > 0):
        return ""
    return f"{abs(percent):.0f}% {'less' if percent > 0 else 'more'} time"
