"""The compile report of a job: its workers' reports and their figures as one."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sagelet_engine.telemetry.compiler import merging
from sagelet_engine.telemetry.compiler.decoding import decode
from sagelet_engine.telemetry.compiler.worker import VERSION, Figures, WorkerReport


@dataclass(frozen=True)
class CompilerReport:
    #: The job's name.
    job: str = ""
    #: False: it trained natively, so there are no figures of a compiler.
    compiled: bool = False
    #: The workers' PJRT platform; empty: natively.
    platform: str = ""
    #: Why it trained natively although it asked for the compiler; empty: it did not.
    reason: str = ""
    #: Number of the attempt that it is of, from 1: an interrupted job starts anew.
    attempt: int = 1
    #: Whether all of the job's hosts are down: no figure changes any more.
    final: bool = False
    #: By rank.
    workers: tuple[WorkerReport, ...] = ()
    total: Figures = field(default_factory=Figures)
    #: What the doctor found; see docs/reference/doctor.md. JSON-ready.
    findings: tuple[dict[str, Any], ...] = ()
    version: int = VERSION

    @classmethod
    def of(
        cls, job: str, workers: Iterable[WorkerReport], attempt: int = 1, *, final: bool = False, reason: str = ""
    ) -> "CompilerReport":
        """`workers` in any order; `reason`: why they are not compiled."""
        ranked = tuple(sorted(workers, key=lambda worker: (worker.rank, worker.host)))
        platform = next((worker.platform for worker in ranked if worker.compiled), "")
        compiled = any(worker.compiled for worker in ranked)
        return cls(job, compiled, platform, reason, attempt, final, ranked, merging.total(ranked))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "CompilerReport":
        """The inverse of `to_json`."""
        return decode(cls, value)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
