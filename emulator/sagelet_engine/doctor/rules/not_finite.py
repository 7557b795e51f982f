"""Metrics that became NaN or infinite."""

import re
from collections.abc import Iterator, Sequence

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity

#: Metrics that one finding names, and characters of each name.
MOST, _LONGEST = 5, 100
#: A loss in a line: `loss: nan`, `{'loss': nan}`, `train_loss=inf`. Of a line the first characters count.
_LOSS = re.compile(
    r"""(?i)loss['"]?\s{0,3}[:=]?\s{0,3}([-+]?(?:nan|inf(?:inity)?|[0-9.]{1,30}(?:e[-+]?[0-9]{1,4})?))\b"""
)
_LINE = 300


def _last_loss(lines: Sequence[str]) -> str:
    """Returns the newest line with a loss, if that is not a finite number. Empty if it is one, or there is none."""
    for line in reversed(lines):
        if found := _LOSS.search(line[:_LINE]):
            return "" if found[1].lstrip("+-")[0] in "0123456789." else line[:_LINE].strip()
    return ""


def check(case: Case) -> Iterator[Seen]:
    """One finding for the metrics that ended so, one for those that recovered.

    Without metrics the last lines tell: the newest one with a loss.
    """
    if not case.progress.not_finite and (line := _last_loss(case.progress.last_lines)):
        yield Seen(Severity.WARNING, f"The last loss in the log is not a finite number: {line!a}")
    for last, severity in ((True, Severity.WARNING), (False, Severity.INFO)):
        found = [f"{name[:_LONGEST]} ({value})" for name, value, ended in case.progress.not_finite if ended is last]
        if not found:
            continue
        more = f" and {len(found) - MOST} more" if len(found) > MOST else ""
        when = "ended as no finite number" if last else "was no finite number for a while"
        yield Seen(severity, f"{', '.join(found[:MOST])}{more} {when}", count=len(found))


RULE = Rule(
    name="not-finite-metric",
    why="A loss that is NaN stays NaN: the weights are, too, and the rest of the training is lost time. CloudWatch and "
    "FinalMetricDataList have no such value, so the last number that they show is from before.",
    instead="Clip gradients, lower the learning rate or warm it up, look for a logarithm or a division of 0, and end "
    "the script at the first loss that is not finite: `if not torch.isfinite(loss): raise SystemExit(1)`.",
    section=Section.METRICS,
    check=check,
)
