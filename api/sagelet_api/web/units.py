"""Units of metrics: what a name says of its unit, and the unit in which numbers are short enough for an axis."""

import re
from typing import NamedTuple

#: Units of names' last words. Of other names the unit is not known, and none is shown.
_WORDS = {
    "seconds": "s", "secs": "s", "sec": "s", "runtime": "s", "ms": "ms", "milliseconds": "ms",
    "bytes": "B", "kb": "kB", "mb": "MB", "gb": "GB", "kib": "KiB", "mib": "MiB", "gib": "GiB",
    "percent": "%", "percentage": "%", "pct": "%",
}  # fmt: skip
#: `train_samples_per_second`: samples/s.
_RATE = re.compile(r"(?:.*[^a-z])?([a-z]+)[^a-z]+per[^a-z]+(?:second|sec|s)", re.IGNORECASE)
#: `step time (ms)`
_IN_BRACKETS = re.compile(r".*[^\s(].*\(([^()]{1,12})\)\s*")

#: Each unit's steps: from how much on, the unit shown, and by how much a number is divided.
_STEPS = {
    "s": ((7200.0, "h", 3600.0), (300.0, "min", 60.0), (1.0, "s", 1.0), (1e-3, "ms", 1e-3), (0.0, "µs", 1e-6)),
    "B": (
        (2.0**40, "TiB", 2.0**40), (2.0**30, "GiB", 2.0**30), (2.0**20, "MiB", 2.0**20), (2.0**10, "KiB", 2.0**10),
        (0.0, "B", 1.0),
    ),
    "share": ((0.0, "%", 0.01),),
}  # fmt: skip


class Unit(NamedTuple):
    """A unit, and what numbers are divided by to be in it."""

    name: str
    divisor: float = 1.0


def unit_of(metric: str) -> str:
    """The unit that a metric's name ends with: `train_runtime` is in `s`. Empty if it says none."""
    found = _IN_BRACKETS.fullmatch(metric)
    if found:
        return found[1].strip()
    rate = _RATE.fullmatch(metric)
    if rate:
        return f"{rate[1].lower()}/s"
    word = re.split(r"[^A-Za-z%]+", metric)[-1].lower()
    return _WORDS.get(word, "%" if metric.endswith("%") else "")


def fitting(unit: str, highest: float) -> Unit:
    """The unit in which a number of this size is read best: 5.3e9 B are read as GiB, 0.04 s as ms."""
    for least, name, divisor in _STEPS.get(unit, ()):
        if abs(highest) >= least:
            return Unit(name, divisor)
    return Unit(unit)


def heading(title: str, unit: str) -> str:
    """The title with its unit, which a name may have already: `step time (ms)`."""
    return title if not unit or title.rstrip().endswith(f"({unit})") else f"{title} ({unit})"
