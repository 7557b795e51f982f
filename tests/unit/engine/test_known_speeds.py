"""How fast trainings were, natively and by each compiler: what is kept, and what is said of it."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from sagelet_engine.compile_cache.store import CacheStore
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.model.job import SecondaryStatus, Verdict
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.reports import known_speeds
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import Span, WorkerReport
from sagelet_runtime.launch.known_speeds import LIMIT
from support.channels import job_with

KEY = "ab" * 32
COMPLETED = Verdict(SecondaryStatus.COMPLETED, None)


def report(name: str, step: float, *, compiler: str | None = None, steps: int = 10, key: str = KEY) -> CompilerReport:
    """A job of one worker, whose steps begin 3 s after its Python."""
    worker = WorkerReport(
        training=key,
        compiled=compiler is not None,
        compiler="" if compiler == "xla" else compiler or "",
        steps=steps,
        steady_step_seconds=step,
        timeline=(Span(0, steps, 3.0, steps * step),),
    )
    return CompilerReport.of(name, [worker], final=True)


def job(name: str = "one", verdict: Verdict | None = COMPLETED, **changes: object) -> TrainingJob:
    made = job_with(**changes)
    return replace(made, verdict=verdict, key=replace(made.key, name=name))


@pytest.fixture
def store(tmp_path: Path) -> CacheStore:
    return CacheStore(tmp_path, 100_000)


def test_a_report_says_what_the_others_take(store: CacheStore) -> None:
    epochs = {"HyperParameters": {"epochs": '"2"', "rate": "x"}}
    known_speeds.keep(store, job("native", **epochs), report("native", 0.5), 1000)
    known_speeds.keep(store, job("inductor", **epochs), report("inductor", 0.1, compiler="inductor"), 2000)
    own = report("own", 0.2, compiler="xla", steps=100)
    own = replace(own, others=known_speeds.others(store, job("own"), own))
    assert [(one.compiler, one.job, one.step_seconds, one.seconds) for one in own.others] == [
        ("inductor", "inductor", 0.1, 13.0),
        ("native", "native", 0.5, 53.0),
    ]
    assert known_speeds.line(own) == (
        "sagelet: 100 steps took 23.0 s by XLA, from the start of Python; by earlier runs they take: by Inductor 13.0 "
        "s, 100 ms a step (inductor); natively 53.0 s, 500 ms a step (native)"
    )
    (entry,) = store.entries()
    kept = json.loads(store.body(entry.account, entry.image, entry.name) or b"")
    assert (kept["native"]["lengths"], kept["native"]["other_seconds"]) == ({"epochs": 2.0}, 3.0)
    assert (entry.name, entry.kind) == (f"{KEY}.speeds", "how fast a training was")


def test_the_last_run_of_a_compiler_counts(store: CacheStore) -> None:
    for name, step in (("first", 0.5), ("second", 0.7)):
        known_speeds.keep(store, job(name), report(name, step), 1000)
    own = report("own", 0.2, compiler="xla")
    assert [one.job for one in known_speeds.others(store, job("own"), own)] == ["second"]


def test_xla_with_other_settings_has_its_own_figures(store: CacheStore) -> None:
    once = {"Environment": {"SAGELET_XLA_TRACING": "once", "SAGELET_COMPILER": "auto"}}
    known_speeds.keep(store, job("traced-once", **once), report("traced-once", 0.1, compiler="xla"), 1000)
    own = report("own", 0.2, compiler="xla")
    own = replace(own, others=known_speeds.others(store, job("own"), own))
    assert [(one.compiler, one.step_seconds) for one in own.others] == [("xla SAGELET_XLA_TRACING=once", 0.1)]
    assert "by XLA with SAGELET_XLA_TRACING=once 4.0 s" in known_speeds.line(own)
    assert known_speeds.others(store, job("again", **once), own) == ()


def test_the_newest_runs_of_a_training_stay(store: CacheStore) -> None:
    for number in range(known_speeds.RUNS + 2):
        settings = {"Environment": {"SAGELET_XLA_CUT": str(number)}}
        known_speeds.keep(store, job(**settings), report("x", 0.5, compiler="xla"), 1000 + number)
    for long in ("0" * 500, "\u2026" * 100):
        known_speeds.keep(store, job(Environment={"SAGELET_XLA_CUT": long}), report("x", 0.5, compiler="xla"), 9999)
    (entry,) = store.entries()
    body = store.body(entry.account, entry.image, entry.name) or b""
    assert list(json.loads(body)) == [f"xla SAGELET_XLA_CUT={number}" for number in range(2, known_speeds.RUNS + 2)]
    assert len(body) < LIMIT


def test_a_full_disk_leaves_what_was_known(store: CacheStore, monkeypatch: pytest.MonkeyPatch) -> None:
    known_speeds.keep(store, job("first"), report("first", 0.5), 1000)

    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        known_speeds.keep(store, job("second"), report("second", 0.7), 2000)
    own = report("own", 0.2, compiler="xla")
    assert [one.job for one in known_speeds.others(store, job("own"), own)] == ["first"]


@pytest.mark.parametrize(
    ("verdict", "one"),
    [
        (Verdict(SecondaryStatus.FAILED), report("x", 0.5)),
        (None, report("x", 0.5)),
        (COMPLETED, report("x", 0.0)),
        (COMPLETED, report("x", 0.5, steps=4)),
        (COMPLETED, report("x", 0.5, key="")),
        (COMPLETED, report("x", 0.5, key="../../etc/passwd")),
    ],
    ids=["failed", "running", "no-step-time", "few-steps", "no-key", "hostile-key"],
)
def test_what_says_little_is_not_kept(store: CacheStore, verdict: Verdict | None, one: CompilerReport) -> None:
    known_speeds.keep(store, job(verdict=verdict), one, 1000)
    assert store.entries() == []
    assert known_speeds.others(store, job(), one) == ()


def test_a_native_job_s_log_has_no_line(store: CacheStore) -> None:
    known_speeds.keep(store, job("compiled"), report("compiled", 0.2, compiler="xla"), 1000)
    native = report("native", 0.5)
    assert known_speeds.line(replace(native, others=known_speeds.others(store, job(), native))) == ""


def test_without_a_cache_nothing_is_kept(tmp_path: Path) -> None:
    known_speeds.keep(CacheStore(tmp_path, 0), job(), report("x", 0.5), 1000)
    assert CacheStore(tmp_path, 0).entries() == []


def test_only_a_job_that_is_to_choose_gets_the_tables(
    store: CacheStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_speeds, "MOST", 2)
    for number in range(3):
        known_speeds.keep(store, job(), report("x", 0.5, key=f"{number}" * 64), 1000 * (number + 1))

    def laid_out(environment: dict[str, str]) -> list[str]:
        one = job(Environment=environment)
        directories = JobDirectories.of(tmp_path / environment.get("SAGELET_COMPILER", "none"), one)
        place = directories.host(one.hosts[0]).opt_ml / known_speeds.PLACE
        place.mkdir(parents=True)
        known_speeds.lay_out(store, one, directories)
        return sorted(path.name for path in place.iterdir())

    assert laid_out({}) == laid_out({"SAGELET_COMPILER": "xla"}) == []
    assert laid_out({"SAGELET_COMPILER": "auto"}) == ["1" * 64 + ".speeds", "2" * 64 + ".speeds"], "those used last"
