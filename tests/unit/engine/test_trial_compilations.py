"""Where the programs of a tuning job's training jobs came from."""

import pytest

from sagelet_engine.reports.trial_compilations import Programs, TrialCompilations, counted, programs
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import Cache, Figures, WorkerReport


def report(*, compiled: bool = True, hits: int = 0, misses: int = 0, workers: int = 1) -> CompilerReport:
    total = Figures(cache=Cache(enabled=True, hits=hits, misses=misses))
    return CompilerReport("job", compiled=compiled, workers=(WorkerReport(),) * workers, total=total)


@pytest.mark.parametrize(
    ("found", "source"),
    [
        (None, Programs.UNKNOWN),
        (report(workers=0), Programs.UNKNOWN),
        (report(compiled=False), Programs.NATIVE),
        (report(hits=3), Programs.CACHED),
        (report(hits=3, misses=1), Programs.COMPILED),
        (report(misses=4), Programs.COMPILED),
        # A platform that cannot read programs back counts nothing.
        (report(), Programs.COMPILED),
    ],
)
def test_the_programs_of_one_job(found: CompilerReport | None, source: Programs) -> None:
    assert programs(found) is source


def test_in_words() -> None:
    some = counted([report(misses=1), report(hits=1), report(hits=2), None])
    assert some == TrialCompilations(compiled=1, cached=2, unknown=1)
    assert some.text == "1 compiled, 2 read all programs from the cache"
    assert counted([report(compiled=False), None]).text == ""
    assert counted([report(compiled=False), report()]).text == (
        "1 compiled, 0 read all programs from the cache, 1 native"
    )
