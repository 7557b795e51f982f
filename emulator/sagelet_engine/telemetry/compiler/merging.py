"""Merges the figures of many workers into those of the job.

Workers take the same steps side by side, so the job's figure is not always the sum. For counts of the script's own acts
(steps, compiles, collectives) and for seconds it is the largest, because the slowest worker holds all others up. Work
adds up: samples, executions, transfers, bytes, graph breaks, calls, and the seconds that stand beside such a count in
one entry (a transfer's, a place's), since their mean is computed from both.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from sagelet_engine.telemetry.compiler.worker import (
    BatchShape,
    Cache,
    CallSite,
    Collectives,
    Device,
    Devices,
    Figures,
    Graph,
    Memory,
    Optimizer,
    Program,
    Replayed,
    StepSeconds,
    Tier,
    Transfer,
    Transfers,
    WorkerReport,
)

T = TypeVar("T")

#: The most entries of each list. Those with the largest counts stay.
MOST = 256
SUMMED = ("executions", "samples", "samples_per_second")


def total(workers: Sequence[WorkerReport]) -> Figures:
    """Returns the job's figures. Without workers, all have their defaults."""
    if not workers:
        return Figures()
    merged = {one.name: _merged(one.name, [getattr(worker, one.name) for worker in workers]) for one in fields(Figures)}
    return Figures(**merged)


def _merged(name: str, values: list[Any]) -> Any:
    if name in _MERGERS:
        return _MERGERS[name](values)
    return sum(values) if name in SUMMED else max(values)


def _compiling_steps(values: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted({step for steps in values for step in steps})[:MOST])


def _cache(values: list[Cache]) -> Cache:
    reason = next((cache.reason for cache in values if cache.reason), "")
    hits, misses = sum(one.hits for one in values), sum(one.misses for one in values)
    return Cache(any(cache.enabled for cache in values), reason, hits, misses)


def _step_seconds(values: list[StepSeconds]) -> StepSeconds:
    return max(values, key=lambda one: one.p50)


def _batch_shapes(values: list[tuple[BatchShape, ...]]) -> tuple[BatchShape, ...]:
    counts: Counter[tuple[int, ...]] = Counter()
    for shapes in values:
        for one in shapes:
            counts[one.shape] += one.count
    return tuple(BatchShape(shape, count) for shape, count in counts.most_common(MOST))


def _transfers(values: list[Transfers]) -> Transfers:
    return Transfers(_transfer([one.to_device for one in values]), _transfer([one.from_device for one in values]))


def _transfer(values: list[Transfer]) -> Transfer:
    count, size = sum(one.count for one in values), sum(one.bytes for one in values)
    return Transfer(count, size, sum(one.seconds for one in values))


def _memory(values: list[Memory]) -> Memory:
    """Returns the memory of the worker that needs most."""
    return max(values, key=lambda one: one.peak_bytes)


def _counts(values: list[dict[str, int]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in values:
        counts.update(one)
    return dict(counts.most_common(MOST))


def _graph(values: list[Graph]) -> Graph:
    return Graph(
        max(one.nodes_max for one in values),
        sum(one.breaks for one in values),
        max(one.breaks_per_step for one in values),
        max(one.unique for one in values),
        max(one.frames for one in values),
        max(one.recompiles for one in values),
        _counts([one.break_reasons for one in values]),
        _counts([one.recompile_reasons for one in values]),
        any(one.traced_once for one in values),
        _counts([one.untraced for one in values]),
        _tier([one.tier for one in values]),
    )


def _tier(values: list[Tier]) -> Tier:
    return Tier(
        max(one.went_up_at for one in values),
        max(one.seconds for one in values),
        max(one.calls for one in values),
        _counts([one.breaks for one in values]),
        _counts([one.stayed for one in values]),
        next((one.difference for one in values if one.difference), ""),
    )


def _replayed(values: list[Replayed]) -> Replayed:
    return Replayed(
        max(one.steps for one in values),
        max(one.clips for one in values),
        max(one.programs for one in values),
        _counts([one.traced for one in values]),
    )


def _places(values: Iterable[tuple[CallSite, ...]]) -> tuple[CallSite, ...]:
    found: dict[CallSite, CallSite] = {}
    for places in values:
        for one in places:
            where = replace(one, count=0, seconds=0.0, repeats=0)
            known = found.get(where, where)
            found[where] = replace(
                where,
                count=known.count + one.count,
                seconds=known.seconds + one.seconds,
                repeats=known.repeats + one.repeats,
            )
    return tuple(sorted(found.values(), key=lambda one: -one.count)[:MOST])


def _optimizers(values: list[tuple[Optimizer, ...]]) -> tuple[Optimizer, ...]:
    return _distinct(optimizer for optimizers in values for optimizer in optimizers)


def _device(values: list[Device]) -> Device:
    """Returns the device of the slowest worker. The programs of all are added up by name."""
    programs: dict[str, Program] = {}
    for one in (program for device in values for program in device.programs):
        known = programs.get(one.name, Program(one.name))
        programs[one.name] = replace(known, count=known.count + one.count, seconds=known.seconds + one.seconds)
    busiest = max(values, key=lambda one: one.busy_seconds)
    longest = sorted(programs.values(), key=lambda one: -one.seconds)[:MOST]
    return replace(busiest, lost=sum(one.lost for one in values), programs=tuple(longest))


def _distinct(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))[:MOST]


def _devices(values: list[Devices]) -> Devices:
    return Devices(
        max(one.cpu_params for one in values),
        max(one.xla_params for one in values),
        _places(one.cuda_requests for one in values),
    )


def _collectives(values: list[Collectives]) -> Collectives:
    return Collectives(
        max(one.count for one in values),
        sum(one.bytes for one in values),
        max(one.seconds for one in values),
        max(one.share for one in values),
        max(one.gradient_bytes for one in values),
        max(one.gradient_exchanges for one in values),
    )


_MERGERS: dict[str, Callable[[list[Any]], Any]] = {
    "compiling_steps": _compiling_steps,
    "cache": _cache,
    "step_seconds": _step_seconds,
    "batch_shapes": _batch_shapes,
    "transfers": _transfers,
    "memory": _memory,
    "fallbacks": _counts,
    "fallback_repeats": _counts,
    "replayed": _replayed,
    "graph": _graph,
    "evaluations": _places,
    "saves": _places,
    "waits": _places,
    "optimizers": _optimizers,
    "device": _device,
    "devices": _devices,
    "collectives": _collectives,
}
