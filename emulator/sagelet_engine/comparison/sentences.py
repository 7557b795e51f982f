"""What the figures say, in the words of AWS's notebook.

"Compile and Train the GPT2 Model using the Transformers Trainer API with the wikitext Dataset for Multi-Node Multi-GPU
Training" ends in three percentages, which it computes like this (n is native, o is compiled):

    round((o.train_samples_per_second / n.train_samples_per_second - 1) * 100)
    int((n.train_runtime - o.train_runtime) * 100 / n.train_runtime)
    int((n.BillableTimeInSeconds - o.BillableTimeInSeconds) * 100 / n.BillableTimeInSeconds)

They are said only where one run of each job can say it (`one_run.py`). If none can be said, one sentence says why.

Its words are for a compiled job that is faster. A slower one gets the same words with "slower" instead of "faster". A
pair other than a native job and one that XLA compiled gets the jobs' names instead of the product's.
"""

from collections.abc import Iterator

from sagelet_engine.comparison import losses as losses_of
from sagelet_engine.comparison.losses import LossAgreement
from sagelet_engine.comparison.result import BreakEven, Sentence
from sagelet_engine.comparison.side import Side

#: Figures whose differences are about speed.
SPEEDS = ("throughput", "steady_throughput", "runtime", "training_seconds", "billable_seconds")
COMMAND = "`sagelet compare NATIVE COMPILED --repeat 3`"
#: What to do where one run does not say it.
REPEAT = f"Train both several times in turn: {COMMAND}"


def of(baseline: Side, side: Side, even: BreakEven | None, losses: LossAgreement | None) -> Iterator[Sentence]:
    """Yields sentences about `side` compared with `baseline`. Unknown figures have no sentence."""
    texts = {
        "speed": _speed(baseline, side),
        "throughput": _throughput(baseline, side),
        "loss": _loss(baseline, side, losses),
        "runtime": _runtime(baseline, side),
        "billable": _billable(baseline, side),
        "cost": _cost(baseline, side),
        "compilation": _compilation(side),
        "break-even": "" if even is None else _break_even(side, even),
    }
    return (Sentence(kind, side.facts.name, side.label, text) for kind, text in texts.items() if text)


def is_pair(baseline: Side, side: Side) -> bool:
    """True for a native job and one that XLA compiled, which AWS's words are about."""
    return side.facts.compiled and side.facts.compiler != "inductor" and not baseline.facts.compiled


def _speed(baseline: Side, side: Side) -> str:
    """Says that one run of each does not say which job is faster. Empty if it does, or no speed is known."""
    known = [key for key in SPEEDS if getattr(baseline.measured, key).number and getattr(side.measured, key).number]
    if not known or any(side.tells_apart(baseline, key) for key in known):
        return ""
    start = f"One run of each does not say whether {side.name} or {baseline.name} is faster"
    reason = f" ({side.trust.reason})" if side.trust.reason else ""
    if side.trust.factor is None:
        return f"{start}{reason}. {REPEAT}."
    return f"{start}: equal jobs may differ by a factor of {side.trust.factor:.1f} here{reason}. {REPEAT}."


def _throughput(baseline: Side, side: Side) -> str:
    before, after = baseline.measured.throughput.number, side.measured.throughput.number
    if not before or after is None:
        return ""
    if not side.tells_apart(baseline, "throughput"):
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


def _break_even(side: Side, even: BreakEven) -> str:
    name = side.name
    if even.steps is None:
        return (
            f"Without the time of compiling, {name} trains no faster than the native job here. So that time is never "
            "won back."
        )
    long_run = f"a long training approaches {int(even.long_run_percent)}% less time"
    if even.ran >= even.steps:
        return f"{name} won the time of compiling back by step {even.steps} of {even.ran}; {long_run}."
    return f"{name} ran {even.ran} steps; it would win the time of compiling back by step {even.steps}: {long_run}."
