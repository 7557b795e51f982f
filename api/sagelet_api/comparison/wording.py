"""Formats numbers for people."""

from sagelet_engine.comparison.result import Comparison, Row

UNKNOWN = "not known"


def value_text(row: Row, value: float | None) -> str:
    """Returns `10.1 samples/s`, `$0.1201`, `80.7 s` or `not known`."""
    if value is None:
        return "-" if row.key in ("compile_seconds", "compiles") else UNKNOWN
    if row.unit == "USD":
        return f"${value:,.4f}"
    if row.unit == "s" and value >= 1 and value == int(value):
        return f"{value:,.0f} s"
    if row.unit == "s":
        return f"{value:,.1f} s" if value >= 1 else f"{value * 1000:.3g} ms"
    if row.unit:
        return f"{_significant(value)} {row.unit}"
    return f"{value:,.0f}" if value == int(value) and row.key != "last_loss" else f"{value:.4f}"


def change_text(change: float | None) -> str:
    """Returns `+18.2%`. Empty if it is unknown."""
    if change is None:
        return ""
    if abs(change) < 0.05:
        return "±0%"
    return f"{change:+,.1f}%" if abs(change) < 1000 else f"{change:+,.0f}%"


def verdict(row: Row, index: int) -> str:
    """Returns `better` or `worse` for the job at `index`. Empty if one run of each job says neither."""
    change = row.changes[index]
    if change is None or not row.better or not row.told[index:] or not row.told[index]:
        return ""
    return "better" if (change > 0) == (row.better == "higher") else "worse"


def _significant(value: float) -> str:
    return f"{value:,.1f}" if value >= 100 else f"{value:.3g}"


def in_words(comparison: Comparison) -> list[tuple[str, tuple[str, ...]]]:
    """Returns the sentences, job by job, each with its heading. One job compared with the first has no heading."""
    made = []
    for job in comparison.jobs[1:]:
        heading = "" if len(comparison.jobs) == 2 else f"{job.label}: {job.name}"
        made.append((heading, tuple(one.text for one in comparison.sentences if one.label == job.label)))
    return made
