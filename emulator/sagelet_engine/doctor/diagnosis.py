"""Makes findings from a case. Pure."""

import logging

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Finding, Rule, Seen, Severity
from sagelet_engine.doctor.rules import PROCESSING_RULES, RULES

log = logging.getLogger(__name__)
_ORDER = list(Severity)


def diagnose(case: Case, rules: tuple[Rule, ...] | None = None) -> tuple[Finding, ...]:
    """Returns the findings of the rules: the worst first, and within one severity the most expensive first.

    `rules`: by default those of the case's kind of job. Rules of last resort run in their order, and only until one
    error is found. A rule that fails is a bug of sagelet and must not fail a job. A finding says that it failed.
    """
    found: list[Finding] = []
    if rules is None:
        rules = RULES if case.processing is None else PROCESSING_RULES
    for rule in sorted(rules, key=lambda rule: rule.last_resort):
        if rule.last_resort and any(one.seen.severity is Severity.ERROR for one in found):
            break
        try:
            found += [Finding(rule, seen) for seen in rule.check(case)]
        except Exception as error:
            log.exception("the doctor's rule %s failed", rule.name)
            found.append(Finding(rule, _failed(error)))
    return tuple(sorted(found, key=_rank))


def _failed(error: Exception) -> Seen:
    return Seen(
        Severity.INFO,
        f"this rule could not be applied: {type(error).__name__}: {error}",
        instead="report it, with the traceback in the server's log; the job is as it is",
        why="the rule failed, which is a defect of sagelet",
    )


def _rank(finding: Finding) -> tuple[int, float]:
    cost = finding.seen.cost_seconds
    return _ORDER.index(finding.seen.severity), 0.0 if cost is None else -cost
