"""Numbers as people read them."""

from sagelet_engine.comparison.result import Comparison, Row

UNKNOWN = "not known"


def value_text(row: Row, value: float | None) -> str:
    """`10.1 samples/s`, `$0.1201`, `80.7 s`, `not known`."""
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
    """`+18.2%`; empty where it is not known."""
    if change is None:
        return ""
    if abs(change) < 0.05:
        return "±0%"
    return f"{change:+,.1f}%" if abs(change) < 1000 else f"{change:+,.0f}%"


def verdict(row: Row, change: float | None) -> str:
    """`better`, `worse`, or empty where neither can be said."""
    if change is None or not row.better or abs(change) < 0.05:
        return ""
    return "better" if (change > 0) == (row.better == "higher") else "worse"


def _significant(value: float) -> str:
    return f"{value:,.1f}" if value >= 100 else f"{value:.3g}"


def in_words(comparison: Comparison) -> list[tuple[str, tuple[str, ...]]]:
    """The sentences, job by job, each with its heading; without one where there is one job against the first."""
    made = []
    for job in comparison.jobs[1:]:
        heading = "" if len(comparison.jobs) == 2 else f"{job.label}: {job.name}"
        made.append((heading, tuple(one.text for one in comparison.sentences if one.label == job.label)))
    return made
