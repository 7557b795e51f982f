"""Figures as people read them."""

from bench.figures import Measured
from bench.tables import Bar


def number(value: str | float | int) -> str:
    """Three digits that mean something; whole numbers whole; text as it is."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if value == 0:
        return "0"
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:.{decimals}f}" if abs(value) >= 0.001 else f"{value:.1e}"


def promise(bar: Bar) -> str:
    return f"{'at most' if bar.at_most else 'at least'} {number(bar.limit)}"


def verdict(bar: Bar) -> str:
    return "met" if bar.met else "MISSED"


def command(section: str) -> str:
    return f"make bench BENCH_ARGS={section}"


def circumstances(measured: Measured) -> str:
    """When, how long, under what load."""
    return (
        f"{measured.time}, {number(measured.seconds)} s, load average {measured.load_before:g} before and "
        f"{measured.load_after:g} after, scale {measured.scale.value}"
    )
