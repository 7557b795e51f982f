"""What a comparison says, ready for JSON and back. The rules that make it: `comparing.py`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.comparison.comparable import Difference
from sagelet_engine.comparison.decoding import build
from sagelet_engine.comparison.measured import LossPoint

VERSION = 1
C = TypeVar("C", bound="Comparison")


@dataclass(frozen=True)
class Job:
    """One of the jobs; the first is the baseline."""

    name: str
    #: For legends, unique: native, compiled, compiled 2.
    label: str
    account: str
    region: str
    status: str
    #: It was compiled, not only asked to be.
    compiled: bool
    #: `2 x ml.p4d.24xlarge`
    instances: str
    #: The Trainer's summary as it printed it; empty: it printed none.
    summary: Mapping[str, float]
    #: The training loss, in order.
    losses: tuple[LossPoint, ...]
    #: The day of the price list, YYYY-MM-DD.
    priced_on: str


@dataclass(frozen=True)
class Row:
    """One figure of all jobs."""

    #: throughput, steady_throughput, runtime, training_seconds, billable_seconds, usd, compile_seconds, ...
    key: str
    title: str
    #: samples/s, s, USD, or empty.
    unit: str
    #: higher, lower, or empty where neither is better.
    better: str
    #: One value for each job, or None if it is not known.
    values: tuple[float | None, ...]
    #: Change against the first job in percent, or None if it is not known.
    changes: tuple[float | None, ...]
    #: Where each value is from.
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Sentence:
    """One statement on a job against the first."""

    #: throughput, loss, runtime, billable, cost, compilation, break-even
    kind: str
    job: str
    #: The job's label: other than names, no two have the same.
    label: str
    text: str


@dataclass(frozen=True)
class BreakEven:
    """When a compiled job's faster steps have won back the time that compiling took."""

    job: str
    compile_seconds: float
    #: In steps of the job, or None if it never breaks even because its steps are no faster.
    steps: int | None
    #: That it ran.
    ran: int
    #: Less time than natively in percent, without the compilation: what a long training comes near.
    long_run_percent: float


@dataclass(frozen=True)
class Comparison:
    jobs: tuple[Job, ...]
    rows: tuple[Row, ...]
    sentences: tuple[Sentence, ...]
    differences: tuple[Difference, ...] = ()
    break_evens: tuple[BreakEven, ...] = ()
    #: What holds for the whole, for people.
    remarks: tuple[str, ...] = ()
    version: int = VERSION

    @property
    def comparable(self) -> bool:
        return not any(one.blocks for one in self.differences)

    def row(self, key: str) -> Row:
        return next(row for row in self.rows if row.key == key)

    def to_json(self) -> JsonObject:
        return {**asdict(self), "comparable": self.comparable}

    @classmethod
    def from_json(cls: type[C], value: Mapping[str, Any]) -> C:
        """The inverse of `to_json`. Raises ValueError for what is no comparison."""
        return build(cls, value)
