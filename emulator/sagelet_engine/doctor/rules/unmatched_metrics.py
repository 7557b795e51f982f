"""Metric definitions that no line has matched."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity

#: Definitions that have a finding, and characters of a name.
MOST, _LONGEST = 5, 100


def check(case: Case) -> Iterator[Seen]:
    if case.progress.status not in ("Completed", "Stopped"):
        return
    # Those that a line nearly matches come first: somebody has meant it.
    found = sorted(case.progress.unmatched, key=lambda one: not one.why)
    for one in found[:MOST]:
        text = f"No line gave a value of {one.name[:_LONGEST]!a} (Regex {one.regex!a}; {one.lines:,} lines)"
        if one.why:
            text += f". The nearest line: {one.line!a}. What is in the way: {one.why}"
        else:
            text += f", and none of the last {one.compared:,} lines is near"
        yield Seen(Severity.WARNING, text)
    if len(found) > MOST:
        yield Seen(Severity.WARNING, f"{len(found) - MOST} more metric definitions have no value", count=len(found))


RULE = Rule(
    name="unmatched-metric",
    why="A metric definition that matches no line is silent: the metric is missing in CloudWatch and in "
    "FinalMetricDataList, and a tuning job with it as objective fails.",
    instead="Make the Regex match the line as the script prints it: upper and lower case, the characters between name "
    "and number, and one group around the number, as in `loss: ([0-9.]+)`.",
    section=Section.METRICS,
    check=check,
)
