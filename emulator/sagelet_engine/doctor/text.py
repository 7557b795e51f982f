"""Formats findings as lines for a job's log. It takes them as JSON, because they are stored so."""

from collections.abc import Iterator, Sequence

from sagelet_engine.telemetry.compiler.report import KeptFinding

#: The beginning of each line, so that it is not taken for the script's.
PREFIX = "sagelet doctor: "
#: The number of findings that a log shows. `sagelet doctor JOB` shows all.
MOST = 10


def place(finding: KeptFinding) -> str:
    """Returns a place such as `train.py:17`. Empty if the finding has none."""
    return f"{finding['file']}:{finding['line']}" if finding.get("file") else ""


def log_lines(job: str, findings: Sequence[KeptFinding], command: str = "sagelet doctor") -> Iterator[str]:
    """Yields a short section. Empty if there are no findings.

    `command`: what shows all findings of a job of this kind. `findings`: the worst first. The worst is the last in the
    log, because people read the end of a log first.
    """
    if not findings:
        return
    yield f"{PREFIX}{len(findings)} finding{'s' if len(findings) > 1 else ''}; `{command} {job}` tells more"
    if len(findings) > MOST:
        yield f"{PREFIX}the worst {MOST}:"
    for finding in reversed(findings[:MOST]):
        head = " ".join(filter(None, [finding["severity"], finding["rule"], place(finding)]))
        yield f"{PREFIX}{head}: {finding['seen']}"
        yield f"{PREFIX}instead: {finding['instead']}"
