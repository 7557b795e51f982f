"""How the trials of a tuning job got their programs: compiled, or read from the compile cache."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from sagelet_engine.telemetry.compiler.report import CompilerReport


class Programs(str, Enum):
    """Where a job's programs came from."""

    COMPILED = "compiled"
    #: Every program was in the cache already.
    CACHED = "cached"
    #: The job trained without a compiler.
    NATIVE = "native"
    #: No worker has reported as yet, or none ever will.
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class TrialCompilations:
    """Numbers of training jobs, by where their programs came from."""

    compiled: int = 0
    cached: int = 0
    native: int = 0
    unknown: int = 0

    @property
    def text(self) -> str:
        """Returns `2 compiled, 4 read all programs from the cache`. Empty if no job used a compiler."""
        if not self.compiled and not self.cached:
            return ""
        words = [f"{self.compiled} compiled", f"{self.cached} read all programs from the cache"]
        return ", ".join([*words, *([f"{self.native} native"] if self.native else [])])


def programs(report: CompilerReport | None) -> Programs:
    """Reads one job's compile report. A job that found some programs and compiled others counts as compiled."""
    if report is None or not report.workers:
        return Programs.UNKNOWN
    if not report.compiled:
        return Programs.NATIVE
    cache = report.total.cache
    return Programs.CACHED if cache.hits and not cache.misses else Programs.COMPILED


def counted(reports: Iterable[CompilerReport | None]) -> TrialCompilations:
    found = Counter(programs(report) for report in reports)
    return TrialCompilations(**{kind.value: found[kind] for kind in Programs})
