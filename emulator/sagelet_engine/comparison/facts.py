"""The facts of one job that a comparison uses. Pure; `reports/comparison_inputs.py` brings them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sagelet_engine.comparison.trainer_log import TrainerLog
from sagelet_engine.instances.bill import Bill
from sagelet_engine.model.series import Sample
from sagelet_engine.telemetry.compiler.report import CompilerReport


@dataclass(frozen=True)
class ChannelFacts:
    """The place of one channel's data, and its present content."""

    name: str
    #: S3Uri, or the name of the file system's directory.
    source: str
    #: SHA-256 of the objects' names, ETags and sizes. Empty if unknown.
    fingerprint: str = ""
    #: When the newest object was written, in ms since the epoch. 0 if unknown.
    newest_ms: int = 0


@dataclass(frozen=True)
class JobFacts:
    name: str
    account: str
    region: str
    #: TrainingJobStatus.
    status: str
    bill: Bill
    #: True if it asked to be compiled, and if it was, as far as its hosts have reported.
    asked: bool = False
    compiled: bool = False
    #: `xla` or `inductor`, or empty if it was not compiled.
    compiler: str = ""
    #: Why it was not compiled although it asked for it, for people.
    reason: str = ""
    #: What stands in for its instances, for people. Empty if nothing does.
    stand_in: str = ""
    #: TrainingImage.
    image: str = ""
    #: The user's own hyperparameters. Values are text, without the quotes that the SDK puts around them.
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    channels: tuple[ChannelFacts, ...] = ()
    #: SHA-256 of its Python files. Empty if unknown.
    code: str = ""
    spot: bool = False
    #: The number of the attempt that its figures belong to, from 1.
    attempt: int = 1
    #: Start of Downloading, in ms since the epoch. None if the job never got so far.
    started_ms: int | None = None
    #: TrainingTimeInSeconds and BillableTimeInSeconds. None if the job has not ended.
    training_seconds: int | None = None
    billable_seconds: int | None = None
    log: TrainerLog = field(default_factory=TrainerLog)
    #: What its metric definitions have found in the log, in order.
    metrics: Mapping[str, tuple[Sample, ...]] = field(default_factory=dict)
    report: CompilerReport = field(default_factory=CompilerReport)
