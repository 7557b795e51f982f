"""Merges the figures of many workers into those of the job, by what stands beside each figure in `worker.py`.

Workers take the same steps side by side, so the job's figure is not always the sum. For counts of the script's own acts
(steps, compiles, collectives) and for seconds it is the largest, because the slowest worker holds all others up. Work
adds up (`summed`): samples, executions, transfers, bytes, graph breaks, calls, and the seconds that stand beside such a
count in one entry (a transfer's, a place's), since their mean is computed from both.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from operator import attrgetter
from typing import Any, get_args, get_origin, get_type_hints

from sagelet_engine.telemetry.compiler.worker import SUMMED, Figures, WorkerReport

#: The most entries of each list. Those with the largest counts stay.
MOST = 256


def total(workers: Sequence[WorkerReport]) -> Figures:
    """Returns the job's figures. Without workers, all have their defaults."""
    merged: Figures = _record(Figures, workers) if workers else Figures()
    return merged


def _record(kind: Any, values: Sequence[Any]) -> Any:
    """Merges instances of a dataclass. `LARGEST_OF`: the instance with the largest value there stands for all."""
    largest = getattr(kind, "LARGEST_OF", None)
    names = _summed(kind) if largest else [one.name for one in fields(kind)]
    merged = {name: _merged(kind, name, [getattr(one, name) for one in values]) for name in names}
    return replace(max(values, key=attrgetter(largest)), **merged) if largest else kind(**merged)


def _merged(kind: Any, name: str, values: list[Any]) -> Any:
    hint = _hints(kind)[name]
    if is_dataclass(hint):
        return _record(hint, values)
    if get_origin(hint) is dict:
        return _counts(values)
    if get_origin(hint) is tuple:
        entry = get_args(hint)[0]
        return _entries(entry, values) if is_dataclass(entry) else tuple(sorted(set().union(*values))[:MOST])
    if hint is str:
        return next(filter(None, values), "")
    return sum(values) if name in _summed(kind) else max(values)


def _counts(values: Iterable[dict[str, int]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in values:
        counts.update(one)
    return dict(counts.most_common(MOST))


def _entries(kind: Any, values: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Adds up the entries that differ in sums alone. Those with the largest one come first."""
    names = _summed(kind)
    sums: dict[Any, list[Any]] = {}
    for entry in (entry for entries in values for entry in entries):
        same = sums.setdefault(replace(entry, **dict.fromkeys(names, 0)), [0] * len(names))
        for number, name in enumerate(names):
            same[number] += getattr(entry, name)
    merged = [replace(entry, **dict(zip(names, added, strict=True))) for entry, added in sums.items()]
    first_by = getattr(kind, "FIRST_BY", names[0] if names else None)
    if first_by is not None:
        merged.sort(key=lambda one: -getattr(one, first_by))
    return tuple(merged[:MOST])


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _summed(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind) if one.metadata.get(SUMMED))
