"""What the doctor says about a job, as facts of a page."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from sagelet_engine.doctor.text import place
from sagelet_engine.telemetry.compiler.report import KeptFinding

Pairs = Iterator[tuple[str, "str | Text"]]


def explanation(findings: Sequence[KeptFinding], shows_all: str) -> Pairs:
    """Yields the worst finding of the doctor. For a failed job it is the cause of the failure.

    `shows_all`: the command that shows all findings.
    """
    if findings and findings[0]["severity"] != "info":
        worst = findings[0]
        where = place(worst)
        yield "What happened", f"{where}: {worst['seen']}" if where else worst["seen"]
        yield "Why", worst["why"]
        yield "What to do", Text(worst["instead"], "bold")
    if len(findings) > 1:
        yield "Findings", f"{len(findings)}: `{shows_all}` shows all"
