"""Positions of numbers in a picture, and the round numbers along an axis."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Maps numbers from `low` to `high` to pixels from `start` to `end`; `low` < `high`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, number: float) -> float:
        return self.start + (number - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Returns round numbers (1, 2, 2.5 or 5 times a power of ten apart) from at most `low` to at least `high`."""
    if high <= low:
        low, high = (low - 0.5, high + 0.5) if low else (0.0, 1.0)
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def tick_text(number: float, step: float) -> str:
    """Formats a number with as many decimals as the distance of the ticks needs."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if round(step * 10**decimals, 6) % 1:
        decimals += 1
    return f"{number:,.{decimals}f}"
