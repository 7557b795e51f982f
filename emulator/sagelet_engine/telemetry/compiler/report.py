"""The compile report of a job: its workers' reports and their figures as one."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.telemetry.compiler import merging
from sagelet_engine.telemetry.compiler.decoding import decode
from sagelet_engine.telemetry.compiler.worker import VERSION, Figures, WorkerReport


class KeptFinding(TypedDict, total=False):
    """An entry of `findings` in compiler-report.json (docs/reference/doctor.md). What is not known is left out."""

    rule: str
    #: `error`, `warning` or `info`.
    severity: str
    seen: str
    file: str
    line: int
    count: int
    cost_seconds: float
    why: str
    instead: str
    #: The section of AWS's documents.
    source: str


@dataclass(frozen=True)
class OtherCompiler:
    """What the job's training takes natively or by another compiler: the figures of its last run."""

    #: `native`, `xla` or `inductor`.
    compiler: str = ""
    #: The name of that run's job.
    job: str = ""
    step_seconds: float = 0.0
    compile_seconds: float = 0.0
    #: The host's part of a step; see Figures.
    dispatch_seconds: float = 0.0
    #: Of a worker, for as many steps as this job did.
    seconds: float = 0.0


@dataclass(frozen=True)
class CompilerReport:
    #: The job's name.
    job: str = ""
    #: False if it trained natively. Then there are no figures of a compiler.
    compiled: bool = False
    #: The workers' PJRT platform, or empty if it trained natively.
    platform: str = ""
    #: The workers' PJRT plugin and its API; empty for torch_xla's built-in client and if it trained natively.
    client: str = ""
    #: `xla` or `inductor`, or empty if it trained natively.
    compiler: str = ""
    #: Why it trained natively although it asked for the compiler, or empty if it did not.
    reason: str = ""
    #: The package without which nothing of it is compiled, if none of its processes imported that.
    not_imported: str = ""
    #: Number of its attempt, from 1. An interrupted job starts again.
    attempt: int = 1
    #: True if all of the job's hosts are down, so that no figure changes any more.
    final: bool = False
    #: The workers' reports, by rank.
    workers: tuple[WorkerReport, ...] = ()
    total: Figures = field(default_factory=Figures)
    #: Natively and by the compilers that did not compile it, where an earlier run is known.
    others: tuple[OtherCompiler, ...] = ()
    #: What the doctor found; see docs/reference/doctor.md. JSON-ready.
    findings: tuple[KeptFinding, ...] = ()
    version: int = VERSION

    @classmethod
    def of(
        cls, job: str, workers: Iterable[WorkerReport], attempt: int = 1, *, final: bool = False, reason: str = ""
    ) -> "CompilerReport":
        """Makes a report of `workers` in any order. `reason`: why they are not compiled."""
        ranked = tuple(sorted(workers, key=lambda worker: (worker.rank, worker.host)))
        platform = next((worker.platform for worker in ranked if worker.compiled), "")
        compiled = any(worker.compiled for worker in ranked)
        compiler = next((worker.compiler or "xla" for worker in ranked if worker.compiled), "")
        client = next((worker.client for worker in ranked if worker.client), "")
        return cls(
            job,
            compiled,
            platform,
            client,
            compiler,
            reason,
            attempt=attempt,
            final=final,
            workers=ranked,
            total=merging.total(ranked),
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "CompilerReport":
        """The inverse of `to_json`."""
        return decode(cls, value)

    def to_json(self) -> JsonObject:
        return asdict(self)
