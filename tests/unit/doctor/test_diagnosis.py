"""The doctor as a whole: a rule of its own that fails is said, and the others go on."""

from collections.abc import Iterable

import pytest

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.diagnosis import diagnose
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from support.doctor_cases import case


def test_a_rule_that_fails_is_a_finding_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def fails(_case: Case) -> Iterable[Seen]:
        raise KeyError("k")

    def sees(_case: Case) -> Iterable[Seen]:
        return [Seen(Severity.WARNING, "seen")]

    rules = tuple(Rule(check.__name__, "why", "instead", Section.BEST_PRACTICES, check) for check in (fails, sees))
    first, second = (finding.to_json() for finding in diagnose(case(), rules))
    assert (first["rule"], first["severity"]) == ("sees", "warning")
    assert (second["rule"], second["severity"]) == ("fails", "info")
    assert second["seen"] == "this rule could not be applied: KeyError: 'k'"
    assert "the doctor's rule fails failed" in caplog.text
    assert second["why"] == "the rule failed, which is a defect of sagelet"
