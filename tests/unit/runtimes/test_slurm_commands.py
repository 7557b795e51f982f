"""Slurm's commands as programs: what they print is read, what they say is handed on."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sagelet_engine.base.errors import RuntimeUnavailable, SettingsError
from sagelet_engine.model.cluster import Refused
from sagelet_engine.runtimes.slurm.commands import SEPARATOR, Slurm, gpus_in

Programs = Callable[..., Slurm]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """A Slurm of shell scripts, by name."""

    def make(**scripts: str) -> Slurm:
        for name, script in scripts.items():
            program = tmp_path / name
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return Slurm()

    return make


def line(*fields: str) -> str:
    return "".join(f"{field}{SEPARATOR}" for field in fields)


def test_jobs_are_read_with_times_in_seconds(programs: Programs) -> None:
    told = line("7", "RUNNING", "None", "1700000000", "NONE", "N/A", "n[1-2]", "sagelet:o:j")
    (job,) = programs(squeue=f"echo '{told}'").jobs()
    assert (job.number, job.state, job.start, job.end, job.preempted) == (7, "RUNNING", 1700000000, None, None)
    assert (job.nodes, job.comment) == ("n[1-2]", "sagelet:o:j")


def test_the_users_habits_do_not_reach_the_commands(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_STATES", "PENDING")
    monkeypatch.setenv("SBATCH_PARTITION", "elsewhere")
    slurm = programs(sbatch='[ -z "$SBATCH_PARTITION" ] && cat >/dev/null && echo "12;cluster"')
    assert slurm.submit(["--nodes=1"], "#!/bin/sh", hold=0) == 12
    assert slurm.calls == {"sbatch": 1}


@pytest.mark.parametrize(
    "said",
    [
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
        "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
    ],
)
def test_what_passes_is_no_refusal(programs: Programs, said: str) -> None:
    with pytest.raises(RuntimeUnavailable):
        programs(sbatch=f"cat >/dev/null; echo '{said}' >&2; exit 1").submit([], "", hold=0)


def test_a_refusal_is_in_slurms_words(programs: Programs) -> None:
    slurm = programs(sbatch="echo 'sbatch: error: invalid partition' >&2; cat >/dev/null; exit 1")
    with pytest.raises(Refused, match=r"^Slurm: invalid partition$"):
        slurm.submit([], "", hold=0)


def test_a_command_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="client programs"):
        Slurm({"PATH": "/nowhere"}).version()


def test_the_state_of_one_job(programs: Programs) -> None:
    assert programs(squeue="echo RUNNING").state(7) == "RUNNING"
    unknown = "slurm_load_jobs error: Invalid job id specified"
    assert programs(squeue=f"echo '{unknown}' >&2; exit 1").state(7) is None
    with pytest.raises(RuntimeUnavailable, match="no such option"):
        programs(squeue="echo 'squeue: error: no such option' >&2; exit 1").state(7)


@pytest.mark.parametrize(
    ("script", "state"),
    [
        ("echo 'CANCELLED by 0'", "CANCELLED"),
        # An earlier job had its number.
        ("echo FAILED; echo TIMEOUT", "TIMEOUT"),
        ("[ $1 = --completion ] || exit 1; echo PREEMPTED", "PREEMPTED"),
        ("exit 1", None),
        ("", None),
    ],
)
def test_the_accounts_are_asked_where_there_are_some(programs: Programs, script: str, state: str | None) -> None:
    assert programs(sacct=script).accounted(7) == state


@pytest.mark.parametrize(("script", "kept"), [("", True), ("exit 1", False), ("[ $1 = --completion ] || exit 1", True)])
def test_whether_there_are_accounts(programs: Programs, script: str, *, kept: bool) -> None:
    assert programs(sacct=script).keeps_accounts() is kept


@pytest.mark.parametrize(
    ("gres", "gpus"), [("(null)", 0), ("gpu:4", 4), ("gpu:a100:8(S:0-1),gpu:t4:2", 8), ("shard:8,gpu:1", 1)]
)
def test_gpus_of_a_node(gres: str, gpus: int) -> None:
    assert gpus_in(gres) == gpus


def test_a_server_without_slurm_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from sagelet_engine.base.clock import SystemClock
    from sagelet_engine.machine.runtimes import choose
    from sagelet_engine.settings import RuntimeChoice, Settings

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="has to be a client of the cluster"):
        choose(Settings(data=tmp_path, runtime=RuntimeChoice.SLURM), SystemClock())
