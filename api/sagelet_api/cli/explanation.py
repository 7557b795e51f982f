"""What the doctor says about a job, as facts of a page."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from sagelet_engine.doctor.text import place
from sagelet_engine.telemetry.compiler.report import KeptFinding

#: Findings that are named.
MOST = 5

Pairs = Iterator[tuple[str, "str | Text"]]


def explanation(findings: Sequence[KeptFinding], shows_all: str) -> Pairs:
    """Yields the worst finding of the doctor, and names the others. For a failed job it is the cause of the failure.

    `shows_all`: the command that shows all findings.
    """
    others = list(findings)
    if findings and findings[0]["severity"] != "info":
        worst = others.pop(0)
        where = place(worst)
        yield "What happened", f"{where}: {worst['seen']}" if where else worst["seen"]
        yield "Why", worst["why"]
        yield "What to do", Text(worst["instead"], "bold")
    if others:
        number = f"{len(others)} more" if len(others) < len(findings) else str(len(others))
        yield "Findings", f"{number}: {', '.join(map(_named, others[:MOST]))}{_rest(others)}; `{shows_all}` shows all"


def _named(finding: KeptFinding) -> str:
    where = place(finding)
    return f"{finding['severity']} {finding['rule']}" + (f" ({where})" if where else "")


def _rest(findings: Sequence[KeptFinding]) -> str:
    return ", ..." if len(findings) > MOST else ""
