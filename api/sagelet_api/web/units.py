"""Units of metrics: the unit that a metric's name tells, and the unit that gives short numbers on an axis."""

import re
from typing import NamedTuple

#: Units by the last word of a metric's name. For other names the unit is unknown, and none is shown.
_WORDS = {
    "seconds": "s", "secs": "s", "sec": "s", "runtime": "s", "ms": "ms", "milliseconds": "ms",
    "bytes": "B", "kb": "kB", "mb": "MB", "gb": "GB", "kib": "KiB", "mib": "MiB", "gib": "GiB",
    "percent": "%", "percentage": "%", "pct": "%",
}  # fmt: skip
#: `train_samples_per_second`: samples/s.
_RATE = re.compile(r"(?:.*[^a-z])?([a-z]+)[^a-z]+per[^a-z]+(?:second|sec|s)", re.IGNORECASE)
#: `step time (ms)`
_IN_BRACKETS = re.compile(r".*[^\s(].*\(([^()]{1,12})\)\s*")

#: The steps of each unit: the number from which a step applies, the unit shown, and the divisor.
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
    """Returns the unit that a metric's name ends with: `train_runtime` is in `s`. Empty if the name tells none."""
    found = _IN_BRACKETS.fullmatch(metric)
    if found:
        return found[1].strip()
    rate = _RATE.fullmatch(metric)
    if rate:
        return f"{rate[1].lower()}/s"
    word = re.split(r"[^A-Za-z%]+", metric)[-1].lower()
    return _WORDS.get(word, "%" if metric.endswith("%") else "")


def fitting(unit: str, highest: float) -> Unit:
    """Returns the unit in which a number of this size is easiest to read: GiB for 5.3e9 B, ms for 0.04 s."""
    for least, name, divisor in _STEPS.get(unit, ()):
        if abs(highest) >= least:
            return Unit(name, divisor)
    return Unit(unit)


def smaller(unit: str, chosen: Unit) -> list[Unit]:
    """Returns the units below the chosen one, the largest first: KiB and B below MiB."""
    units = [Unit(name, divisor) for _, name, divisor in _STEPS.get(unit, ())]
    return units[units.index(chosen) + 1 :] if chosen in units else []


def heading(title: str, unit: str) -> str:
    """Returns the title with its unit, which a name may have already: `step time (ms)`."""
    return title if not unit or title.rstrip().endswith(f"({unit})") else f"{title} ({unit})"
