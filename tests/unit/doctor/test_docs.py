"""docs/reference/doctor.md against the rules, and findings as people see them."""

import io
from collections import Counter

import doctor_rules
import pytest
from rich.console import Console

from sagelet_api.cli.doctor import show
from sagelet_engine.doctor.finding import TITLES, Rule, Section
from sagelet_engine.doctor.rules import LAST_RESORT, RULES
from sagelet_engine.doctor.text import MOST, PREFIX, log_lines

#: Of the request, of a GPU, or of what is around a script: no script of examples/best_practices shows them. Those of
#: ends are shown by tests/acceptance/test_job_mistakes.py.
WITHOUT_SCRIPT = {
    "tracing-bound", "tracing-differs", "slower-than-native",
    "unsupported-instance", "single-gpu-instances", "no-efa", "debug-mode", "debugger",
    "failed-install", "missing-package", "not-in-the-hub", "not-finite-metric", "time-limit", "nothing-saved",
    "idle", "unmatched-metric",
    *(rule.name for rule in RULES if rule.last_resort),
}  # fmt: skip
FINDING = {
    "rule": "explicit-evaluation",
    "severity": "warning",
    "seen": ".item() read [a] tensor",
    "file": "train.py",
    "line": 7,
    "why": "it cuts the graph",
    "instead": "do not",
    "source": "https://docs.aws.amazon.com/x",
}


def test_the_page_is_made_of_the_rules() -> None:
    assert doctor_rules.PAGE.read_text(encoding="utf-8") == doctor_rules.page(), "run `make docs`"


def test_names_are_unique_and_sections_have_titles() -> None:
    assert max(Counter(rule.name for rule in RULES).values()) == 1
    assert [rule.name for rule in RULES if rule.last_resort] == [rule.name for rule in LAST_RESORT]
    assert set(TITLES) == set(Section)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_says_why_and_what_instead(rule: Rule) -> None:
    assert rule.why.endswith((".", ")"))
    assert rule.instead.endswith(".")
    assert all(threshold.reason and threshold.meaning for threshold in rule.thresholds)
    assert bool(doctor_rules.examples(rule)) is (rule.name not in WITHOUT_SCRIPT)


def test_the_section_of_a_log() -> None:
    assert list(log_lines("job", [])) == []
    first, head, instead = log_lines("job", [FINDING])
    assert first == f"{PREFIX}1 finding; `sagelet doctor job` tells more"
    assert head == f"{PREFIX}warning explicit-evaluation train.py:7: .item() read [a] tensor"
    assert instead == f"{PREFIX}instead: do not"
    assert len(list(log_lines("job", [FINDING] * 30))) == 2 * MOST + 2


def test_the_worst_finding_ends_the_log() -> None:
    worse = {**FINDING, "severity": "error", "instead": "mend it"}
    assert list(log_lines("job", [worse, FINDING]))[-1] == f"{PREFIX}instead: mend it"


def test_findings_on_a_terminal() -> None:
    out = io.StringIO()
    nowhere = {name: value for name, value in FINDING.items() if name not in ("file", "line")}
    show("job", "Completed", [FINDING, nowhere], Console(file=out, width=60))
    text = out.getvalue()
    assert text.startswith("job (Completed): 2 findings\n\nwarning explicit-evaluation train.py:7\n")
    assert "  seen: .item() read [a] tensor\n  why: it cuts the graph\n  instead: do not\n" in text
    show("job", "Completed", [], Console(file=(out := io.StringIO())))
    assert out.getvalue() == "job (Completed): no findings\n"
