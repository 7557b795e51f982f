"""How a job ended, in AWS's words."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from sagelet_engine.data.end_notes import end_notes, failure_text
from sagelet_engine.model import verdict
from sagelet_engine.model.job import SecondaryStatus, StopCause, Verdict
from sagelet_engine.model.lifecycle import advance, request_stop
from sagelet_engine.model.runtime import Observation
from sagelet_engine.model.training import TrainingJob, create
from support.world import key, request

ENDED = Observation(running=False, exit_code=0)


def job_of(cause: StopCause | None = None) -> TrainingJob:
    job = create(key("one"), "id", request("one"), {}, 1000)
    for step in (SecondaryStatus.DOWNLOADING, SecondaryStatus.TRAINING):
        job = advance(job, step, 2000)
    return job if cause is None else request_stop(job, cause, 3000)


def judged(tmp_path: Path, hosts: Mapping[str, Observation], cause: StopCause | None = None) -> Verdict:
    return verdict.judge(job_of(cause), hosts, {name: end_notes(tmp_path / name / "failure") for name in hosts})


def fail(tmp_path: Path, text: str, host: str = "algo-1") -> None:
    (tmp_path / host).mkdir(parents=True, exist_ok=True)
    (tmp_path / host / "failure").write_text(text, encoding="utf-8")


def test_exit_code_zero_everywhere_completes(tmp_path: Path) -> None:
    assert judged(tmp_path, {"algo-1": ENDED, "algo-2": ENDED}) == Verdict(SecondaryStatus.COMPLETED)


@pytest.mark.parametrize(
    ("host", "text", "reason"),
    [
        (Observation(False, 1), "why", "AlgorithmError: why, exit code: 1"),
        (Observation(False, 3), None, "AlgorithmError: , exit code: 3"),
        (Observation(False, 137, True), None,
         "AlgorithmError: OutOfMemory: Process killed by SIGKILL (signal 9), exit code: 137"),
        (Observation(False, 137, True), "why", "AlgorithmError: why, exit code: 137"),
        (Observation(False, 127, error="no such program"), None, "AlgorithmError: no such program, exit code: 127"),
        (ENDED, "it says so", "AlgorithmError: it says so, exit code: 0"),
    ],
)  # fmt: skip
def test_failure_reasons(tmp_path: Path, host: Observation, text: str | None, reason: str) -> None:
    if text is not None:
        fail(tmp_path, text)
    assert judged(tmp_path, {"algo-1": host}) == Verdict(SecondaryStatus.FAILED, reason)


def test_the_first_host_that_failed_speaks(tmp_path: Path) -> None:
    fail(tmp_path, "second", "algo-2")
    fail(tmp_path, "third", "algo-3")
    hosts = {"algo-1": ENDED, "algo-2": Observation(False, 1), "algo-3": Observation(False, 2)}
    assert judged(tmp_path, hosts).failure_reason == "AlgorithmError: second, exit code: 1"


def test_out_of_memory_of_a_child_does_not_fail_a_job_that_got_over_it(tmp_path: Path) -> None:
    assert judged(tmp_path, {"algo-1": Observation(False, 0, True)}).status is SecondaryStatus.COMPLETED


def test_a_host_without_an_exit_code_is_an_internal_error(tmp_path: Path) -> None:
    outcome = judged(tmp_path, {"algo-1": Observation(False, error="it was removed.")})
    assert outcome.failure_reason == "InternalServerError: We encountered an internal error. Please try again."
    assert verdict.with_cause("Training job failed", outcome) == "Training job failed (sagelet: algo-1: it was removed)"


@pytest.mark.parametrize(
    ("cause", "status"),
    [
        (StopCause.USER, SecondaryStatus.STOPPED),
        (StopCause.MAX_RUNTIME, SecondaryStatus.MAX_RUNTIME_EXCEEDED),
    ],
)
@pytest.mark.parametrize("host", [ENDED, Observation(False, 143), Observation(False, error="gone")])
def test_a_stopped_job_is_stopped_whatever_it_returned(
    tmp_path: Path, cause: StopCause, status: SecondaryStatus, host: Observation
) -> None:
    fail(tmp_path, "text")
    assert judged(tmp_path, {"algo-1": host}, cause) == Verdict(status)


def test_a_long_text_is_cut_and_the_exit_code_survives(tmp_path: Path) -> None:
    fail(tmp_path, "ü" * 5000)
    reason = judged(tmp_path, {"algo-1": Observation(False, 1)}).failure_reason
    assert reason is not None
    assert len(reason) == 1024
    assert reason.endswith("ü, exit code: 1")
    assert len(verdict.client_error("x" * 2000).failure_reason or "") == 1024
    assert len(verdict.with_cause("Training job failed", verdict.internal_error("x" * 2000))) == 1024


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "failure").write_bytes(b"a\xffb")
    assert failure_text(tmp_path / "failure") == "a\ufffdb"


def test_what_is_no_ordinary_file_is_no_failure_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the machine")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    (tmp_path / "parent").symlink_to(tmp_path)
    for name in ("absent", "secret/below", "link", "pipe", "directory"):
        assert failure_text(tmp_path / name) is None


def died(tmp_path: Path, host: str, note: str) -> None:
    """What the workers of a host say of their end."""
    directory = tmp_path / host / "sagelet" / "workers"
    directory.mkdir(parents=True)
    (directory / "failure.json").write_text(note)


def note(time_ms: int, *, killed: bool = False) -> str:
    return json.dumps({"rank": 0, "time_ms": time_ms, "killed": killed})


@pytest.mark.parametrize(
    ("first", "second", "speaks"),
    [
        (note(5000), note(4990), "second"),
        (note(4980), note(4990), "first"),
        # Peers see the connections of a killed worker close before its launcher sees its end.
        (note(5000), note(5400, killed=True), "second"),
        (note(5000, killed=True), note(4990), "first"),
        ("", note(6500), "first"),
        ("[" * 1024, note(5900), "second"),
        ('{"time_ms": 1e999, "killed": 0}', note(5900), "second"),
        ('{"time_ms": "1", "killed": 0}', note(5900), "first"),
    ],
)
def test_the_host_whose_worker_died_first_speaks(tmp_path: Path, first: str, second: str, speaks: str) -> None:
    """Both hosts' own ends tell the opposite, or nothing."""
    for host, text, says in (("algo-1", first, "first"), ("algo-2", second, "second")):
        died(tmp_path, host, text)
        fail(tmp_path, says, host)
    hosts = {
        "algo-1": Observation(False, 1, finished_ms=6000),
        "algo-2": Observation(False, 1, finished_ms=7000),
    }
    assert judged(tmp_path, hosts).failure_reason == f"AlgorithmError: {speaks}, exit code: 1"


def test_a_host_that_was_killed_as_a_whole_speaks_before_its_peers(tmp_path: Path) -> None:
    died(tmp_path, "algo-1", note(5000))
    fail(tmp_path, "connection closed by peer", "algo-1")
    hosts = {"algo-1": Observation(False, 1, finished_ms=5200), "algo-2": Observation(False, 137, finished_ms=5300)}
    assert judged(tmp_path, hosts).failure_reason == "AlgorithmError: , exit code: 137"


def test_no_link_of_the_container_is_followed_to_a_note(tmp_path: Path) -> None:
    died(tmp_path, "elsewhere", note(1))
    fail(tmp_path, "first", "algo-1")
    fail(tmp_path, "second", "algo-2")
    (tmp_path / "algo-2" / "sagelet").symlink_to(tmp_path / "elsewhere" / "sagelet")
    hosts = {host: Observation(False, 1, finished_ms=at) for host, at in (("algo-1", 6000), ("algo-2", 7000))}
    assert judged(tmp_path, hosts).failure_reason == "AlgorithmError: first, exit code: 1"
