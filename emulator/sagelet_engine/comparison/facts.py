"""What the comparison looks at: what is known of one job. Pure; `reports/measurements.py` brings them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sagelet_engine.comparison.trainer_log import TrainerLog
from sagelet_engine.instances.bill import Bill
from sagelet_engine.model.series import Sample
from sagelet_engine.telemetry.compiler.report import CompilerReport


@dataclass(frozen=True)
class ChannelFacts:
    """Where one channel's data is, and what is there now."""

    name: str
    #: S3Uri, or what names the file system's directory.
    source: str
    #: SHA-256 of the objects' names, ETags and sizes; empty: not known.
    fingerprint: str = ""
    #: When the newest object was written, ms since the epoch; 0: not known.
    newest_ms: int = 0


@dataclass(frozen=True)
class JobFacts:
    name: str
    account: str
    region: str
    #: TrainingJobStatus.
    status: str
    bill: Bill
    #: Whether it asked to be compiled, and whether it was, as far as its hosts have said.
    asked: bool = False
    compiled: bool = False
    #: Why it was not compiled though it asked for it, for people.
    reason: str = ""
    #: What stands in for its instances, for people; empty: nothing does.
    stand_in: str = ""
    #: TrainingImage.
    image: str = ""
    #: The user's own; values as text, without the quotes that the SDK puts around them.
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    channels: tuple[ChannelFacts, ...] = ()
    #: SHA-256 of its Python files; empty: not known.
    code: str = ""
    spot: bool = False
    #: Number of the attempt that its figures are of, from 1.
    attempt: int = 1
    #: Start of Downloading, ms since the epoch, or None if the job never got so far.
    started_ms: int | None = None
    #: TrainingTimeInSeconds and BillableTimeInSeconds, or None if the job has not ended.
    training_seconds: int | None = None
    billable_seconds: int | None = None
    log: TrainerLog = field(default_factory=TrainerLog)
    #: What its metric definitions found in the log, in order.
    metrics: Mapping[str, tuple[Sample, ...]] = field(default_factory=dict)
    report: CompilerReport = field(default_factory=CompilerReport)
