"""How a host of an allocation ended, from its shim's note and from what Slurm says of the job."""

import pytest

from sagelet_engine.model.runtime import Observation
from sagelet_engine.runtimes.node.host_end import parsed
from sagelet_engine.runtimes.slurm.commands import SlurmJob
from sagelet_engine.runtimes.slurm.end import Ended, end_of


def ended(code: int | None = 0, heard: str = "") -> Ended:
    return Ended(*parsed({"exit_code": code, "error": None, "finished_ms": 7, "heard": heard}))


def job(state: str, preempted: int | None = None) -> SlurmJob:
    return SlurmJob(12, state, "None", 1, 2, preempted, "n[1-2]", "")


def end(written: Ended | None, state: str, *, preempted: int | None = None, asked: str = "") -> Observation:
    return end_of(written, job(state, preempted), state, asked, "the log")


@pytest.mark.parametrize(
    ("code", "heard", "asked", "own"),
    [
        (0, "", "", True),
        (3, "T", "T", True),
        (137, "TK", "TK", True),
        # The kernel may have killed it, for memory: Slurm knows.
        (137, "", "", False),
        (0, "S", "S", False),
        (143, "s", "", False),
        # Slurm had signalled all, and the shim was the last to know.
        (0, "", "S", False),
    ],
)
def test_what_needs_no_word_of_slurms(code: int, heard: str, asked: str, own: bool) -> None:
    assert ended(code, heard).is_own(asked) is own


@pytest.mark.parametrize(
    ("written", "state", "preempted"),
    [(None, "PREEMPTED", None), (ended(0, "S"), "COMPLETED", 5), (ended(143, "s"), "PREEMPTED", 5)],
)
def test_preempted(written: Ended | None, state: str, preempted: int | None) -> None:
    found = end(written, state, preempted=preempted)
    assert found.interrupted
    assert not found.time_over


@pytest.mark.parametrize(("written", "state"), [(None, "TIMEOUT"), (None, "DEADLINE"), (ended(0, "S"), "COMPLETED")])
def test_the_time_was_over(written: Ended | None, state: str) -> None:
    found = end(written, state)
    assert found.time_over
    assert not found.interrupted


@pytest.mark.parametrize("state", ["NODE_FAIL", "BOOT_FAIL", "CANCELLED"])
@pytest.mark.parametrize("written", [None, ended(143, "s"), ended(137, "Ss")])
def test_a_fault_of_slurms_leaves_no_exit_code(written: Ended | None, state: str) -> None:
    found = end(written, state)
    assert found.exit_code is None
    assert "Slurm's job 12" in (found.error or "")


@pytest.mark.parametrize(("state", "time_over"), [("TIMEOUT", True), ("COMPLETED", False)])
def test_one_that_ended_as_slurm_ended_it_and_heard_nothing(state: str, *, time_over: bool) -> None:
    assert end(ended(0), state, asked="S").time_over is time_over


def test_out_of_memory() -> None:
    found = end(ended(137), "OUT_OF_MEMORY")
    assert (found.out_of_memory, found.exit_code) == (True, 137)
    assert end(None, "OUT_OF_MEMORY").exit_code == 137


def test_ended_with_the_others_its_code_is_its_own() -> None:
    assert end(ended(143, "s"), "FAILED").exit_code == 143
    assert end(ended(3, "s"), "FAILED").exit_code == 3


def test_killed_as_it_did_not_end_with_the_others_it_is_not_the_cause() -> None:
    assert end(ended(137, "s"), "FAILED").exit_code == 143


def test_killed_as_it_was_asked_to_be_before_it_could_say_so() -> None:
    assert end(None, "FAILED", asked="TK").exit_code == 137


def test_without_a_word_the_log_has_it() -> None:
    assert "the log" in (end(None, "FAILED").error or "")
    assert "forgotten" in (end_of(None, None, None, "", "").error or "")
