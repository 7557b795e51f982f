"""torch_xla.debug.metrics: XLA counts nothing here. The compile report has Inductor's figures."""

from __future__ import annotations

from collections.abc import Sequence

_NONE = "XLA has no metrics in this job: see its compile report\n"


def counter_names() -> list[str]:
    return []


def counter_value(name: str) -> int | None:  # noqa: ARG001 - part of the name's contract
    return None


def clear_counters() -> None:
    """Does nothing: there are none."""


def metric_names() -> list[str]:
    return []


def metric_data(name: str) -> tuple[int, float, list[tuple[float, float]]] | None:  # noqa: ARG001 - see above
    return None


def clear_metrics() -> None:
    """Does nothing: there are none."""


def clear_all() -> None:
    """Does nothing: there are none."""


def metrics_report() -> str:
    return _NONE


def short_metrics_report(
    counter_names: Sequence[str] | None = None,  # noqa: ARG001 - part of the name's contract
    metric_names: Sequence[str] | None = None,  # noqa: ARG001 - part of the name's contract
) -> str:
    return _NONE


def executed_fallback_ops() -> list[str]:
    return []
