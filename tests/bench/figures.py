"""The figures that the docs show, as JSON: the page and the picture are made of this file and of nothing else."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.machine import Machine
from bench.tables import Bar, Scale, Table

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "figures.json"


#: In the order of docs/benchmarks.md.
SECTIONS = ("api", "s3", "logs", "job", "idle", "concurrency", "compiled")


@dataclass(frozen=True)
class Measured:
    """One section of one run."""

    scale: Scale
    #: UTC, at its begin.
    time: str
    seconds: float
    #: The load average of one minute at its begin and at its end.
    load_before: float
    load_after: float
    machine: Machine
    tables: tuple[Table, ...]

    @property
    def bars(self) -> list[Bar]:
        return [bar for table in self.tables for bar in table.bars]


def read(file: Path = FIGURES) -> dict[str, Measured]:
    """By section, in the page's order."""
    told = json.loads(file.read_text()) if file.exists() else {}
    return {name: _measured(told[name]) for name in SECTIONS if name in told}


def write(measured: Mapping[str, Measured], file: Path = FIGURES) -> None:
    """Puts these sections in; others stay as they are."""
    known = {**read(file), **measured}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({name: asdict(known[name]) for name in SECTIONS if name in known}, indent=1) + "\n")


def _measured(told: dict[str, Any]) -> Measured:
    more = {"scale": Scale(told["scale"]), "machine": Machine(**told["machine"])}
    return Measured(**{**told, **more, "tables": tuple(map(_table, told["tables"]))})


def _table(told: dict[str, Any]) -> Table:
    rows = tuple(map(tuple, told["rows"]))
    bars = tuple(Bar(**bar) for bar in told["bars"])
    return Table(**{**told, "columns": tuple(told["columns"]), "rows": rows, "bars": bars})
