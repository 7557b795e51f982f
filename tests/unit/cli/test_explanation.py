"""What `sagelet describe` and `sagelet processing describe` say of the doctor's findings."""

from typing import Any

from sagelet_api.cli.explanation import MOST, explanation


def finding(rule: str, severity: str = "warning", file: str | None = None, line: int | None = None) -> Any:
    return {
        "rule": rule, "severity": severity, "seen": f"{rule} seen", "file": file, "line": line,
        "why": f"{rule} why", "instead": f"{rule} instead", "cost_seconds": None, "source": "",
    }  # fmt: skip


def shown(*findings: Any) -> dict[str, str]:
    return {name: str(text) for name, text in explanation(findings, "sagelet doctor job")}


def test_the_worst_finding_is_told_and_the_others_are_named() -> None:
    told = shown(finding("idle"), finding("torch-save", file="train.py", line=7), finding("debug-mode", "info"))
    assert told == {
        "What happened": "idle seen",
        "Why": "idle why",
        "What to do": "idle instead",
        "Findings": "2 more: warning torch-save (train.py:7), info debug-mode; `sagelet doctor job` shows all",
    }


def test_one_finding_needs_no_list() -> None:
    assert "Findings" not in shown(finding("idle"))
    assert shown() == {}


def test_a_finding_that_only_informs_is_named() -> None:
    assert shown(finding("debug-mode", "info")) == {"Findings": "1: info debug-mode; `sagelet doctor job` shows all"}


def test_many_findings_are_counted() -> None:
    told = shown(*[finding(f"rule-{number}") for number in range(MOST + 3)])["Findings"]
    assert told.startswith(f"{MOST + 2} more: warning rule-1, ")
    assert told.endswith("rule-5, ...; `sagelet doctor job` shows all")
