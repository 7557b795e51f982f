"""A comparison's result, which converts to JSON and back. `comparing.py` has the rules that make it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.comparison.comparable import Difference
from sagelet_engine.comparison.decoding import build
from sagelet_engine.comparison.losses import LossAgreement
from sagelet_engine.comparison.measured import LossPoint

VERSION = 2
#: Why a training of a length is billed: somebody asked for its steps, or it is the job's own epochs.
ASKED, EPOCHS = "asked", "epochs"
C = TypeVar("C", bound="Comparison")


@dataclass(frozen=True)
class Job:
    """One of the jobs; the first is the baseline."""

    name: str
    #: For legends. Unique: native, XLA, Inductor, XLA 2.
    label: str
    account: str
    region: str
    status: str
    #: True if it was compiled. The wish to be compiled is not enough.
    compiled: bool
    #: `2 x ml.p4d.24xlarge`
    instances: str
    #: The Trainer's summary as it printed it. Empty if it printed none.
    summary: Mapping[str, float]
    #: The training loss, in order.
    losses: tuple[LossPoint, ...]
    #: The day of the price list, YYYY-MM-DD.
    priced_on: str
    #: `xla` or `inductor`, or empty if it was not compiled.
    compiler: str = ""


@dataclass(frozen=True)
class Row:
    """One figure of all jobs."""

    #: throughput, script_throughput, runtime, training_seconds, billable_seconds, usd, compile_seconds, ...
    key: str
    title: str
    #: samples/s, s, USD, or empty.
    unit: str
    #: higher, lower, or empty if neither is better.
    better: str
    #: One value for each job. None if it is unknown.
    values: tuple[float | None, ...]
    #: Change against the first job in percent. None if it is unknown.
    changes: tuple[float | None, ...]
    #: The source of each value.
    sources: tuple[str, ...]
    #: True for a change that one run of each job can say. Figures of speed may vary more than they differ.
    told: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Sentence:
    """One statement on a job compared with the first one."""

    #: speed, compilation, break-even, loss, cost, length, throughput, runtime, billable
    kind: str
    job: str
    #: The job's label. Labels are unique, and names are not.
    label: str
    text: str


@dataclass(frozen=True)
class Speed:
    """How many times as fast as the first job another one trains, without the time of compiling."""

    job: str
    #: Labels are unique, and names are not.
    label: str
    ratio: float
    #: Between what it may be: what equal jobs may differ by, or the 95 % interval of several runs. None if unknown.
    low: float | None
    high: float | None
    #: True if the interval is all on one side of 1.
    told: bool


@dataclass(frozen=True)
class BreakEven:
    """When the faster steps of a compiled job have made up for the time of compiling."""

    job: str
    compile_seconds: float
    #: In steps of the job. None if it never breaks even because its steps are not faster.
    steps: int | None
    #: The steps that it ran.
    ran: int
    #: How much less time it takes than natively in percent, without the compilation. A long training comes near this.
    long_run_percent: float
    label: str = ""
    #: Of training until then, with the time of compiling. None if it never breaks even.
    seconds: float | None = None
    #: At the ends of the interval of the speed. None: never, or not known.
    earliest: int | None = None
    latest: int | None = None
    #: Of training until these steps.
    earliest_seconds: float | None = None
    latest_seconds: float | None = None
    #: True if the runs say which job is faster. If not, `steps` may as well be the other end of the interval.
    told: bool = False


@dataclass(frozen=True)
class LengthBill:
    """What a job would be billed for a training of another length."""

    job: str
    label: str
    #: Steps of the first job. The other jobs train on as many rows.
    steps: int
    #: asked, epochs
    why: str
    billable_seconds: float
    #: None if the price is not known.
    usd: float | None
    #: True if the runs say that it is more, or less, than the first job's.
    told: bool


@dataclass(frozen=True)
class OneRun:
    """How far one run of the first job, and one of another, say which is faster."""

    label: str
    #: Equal jobs may differ by this factor. None if a run had too few steps to know.
    factor: float | None
    #: Why, for people. May be empty.
    reason: str


@dataclass(frozen=True)
class Comparison:
    jobs: tuple[Job, ...]
    rows: tuple[Row, ...]
    sentences: tuple[Sentence, ...]
    differences: tuple[Difference, ...] = ()
    #: One for each job but the first whose speed is known.
    speeds: tuple[Speed, ...] = ()
    break_evens: tuple[BreakEven, ...] = ()
    #: Bills of the length that was asked for, or of the first job's own epochs. Empty if this run is that length.
    lengths: tuple[LengthBill, ...] = ()
    #: One for each job but the first whose losses can be compared.
    losses: tuple[LossAgreement, ...] = ()
    #: One for each job but the first.
    one_runs: tuple[OneRun, ...] = ()
    #: Notes on the whole comparison, for people.
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
        """The inverse of `to_json`. Raises ValueError for a value that is not a comparison."""
        return build(cls, value)
