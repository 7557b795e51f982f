"""What `sagelet tune batch-size` prints at its end: the table of AWS's documents, or JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sagelet_api.cli.batch_probes import NAMES, Search
from sagelet_api.cli.batch_search import Best, Gain, Probe, best_of, figure
from sagelet_api.cli.output import Column, show_rows
from sagelet_api.cli.text import echo_json, until_reader_ends
from sagelet_engine.base.errors import SageletError

GIB = 1 << 30


class NothingFits(SageletError):
    """Not even the smallest batch fits."""


@dataclass(frozen=True)
class _Line:
    title: str
    native: str
    compiled: str
    gain: str = ""


_TABLE: Sequence[Column[_Line]] = (
    Column("", lambda line: line.title),
    Column("Native", lambda line: line.native, right=True),
    Column("SageMaker Training Compiler", lambda line: line.compiled, right=True),
    Column("Gain", lambda line: line.gain, right=True),
)


def show(search: Search, probes: Sequence[Probe], ways: Sequence[bool], *, as_json: bool) -> None:
    best = {compiled: best_of(probes, compiled=compiled, rate=search.rate, rule=search.rule) for compiled in NAMES}
    gain = Gain.of(best[False], best[True])
    with until_reader_ends():
        if as_json:
            echo_json(
                {
                    "name": search.name,
                    "parameter": search.parameter,
                    "learning_rate_parameter": None if search.rate is None else search.rate.name,
                    "rule": search.rule.value,
                    **{word: None if (one := best[way]) is None else asdict(one) for way, word in NAMES.items()},
                    "gain": asdict(gain),
                    "probes": [probe.to_json() for probe in probes],
                }
            )
        else:
            show_rows(_TABLE, _lines(best[False], best[True], gain))
    if all(best[way] is None for way in ways):
        raise NothingFits(
            f"Not even a batch of {search.bounds.least} fits: `sagelet doctor {probes[-1].job}` says what needs memory"
        )


def _lines(native: Best | None, compiled: Best | None, gain: Gain) -> list[_Line]:
    def both(title: str, text: Any, gained: float | None = None) -> _Line:
        cells = ["-" if one is None else text(one) for one in (native, compiled)]
        return _Line(title, cells[0], cells[1], "" if gained is None else f"{gained:.2f}x")

    def number(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    return [
        both("Batch size", lambda one: str(one.size), gain.size),
        both("Learning rate", lambda one: number(one.learning_rate, ".4g")),
        both("Speed (samples/s)", lambda one: figure(one.samples_per_second), gain.speed),
        both("Memory (GiB)", lambda one: number(None if one.peak_bytes is None else one.peak_bytes / GIB, ".2f")),
        both("Training job", lambda one: one.job),
    ]
