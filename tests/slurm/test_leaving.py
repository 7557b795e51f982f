"""How an allocation whose hosts have ended leaves Slurm: by itself, so that Slurm's accounts call it what it was."""

import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sagelet_engine.runtimes.slurm import runtime as slurm
from sagelet_engine.runtimes.slurm.runtime import SlurmRuntime
from support.harness import Harness, wait_for
from support.slurm_cluster import PATH, SlurmCluster
from support.slurm_jobs import slurm_runtime

pytestmark = pytest.mark.slurm

#: A node whose srun is over this many seconds after its task.
LATE_SRUN = '#!/bin/sh\n{srun} "$@"\ncode=$?\nsleep {seconds}\nexit $code\n'
Late = Callable[[int], Harness]


@pytest.fixture
def late(tmp_path: Path, slurm_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Late]:
    """The runtime, over nodes that take so many seconds to end an allocation whose hosts have ended."""
    made: list[Harness] = []

    def make(seconds: int) -> Harness:
        srun = tmp_path / "bin" / "srun"
        srun.parent.mkdir()
        srun.write_text(LATE_SRUN.format(srun=shutil.which("srun", path=PATH), seconds=seconds))
        srun.chmod(0o755)
        # Jobs have the PATH of the server.
        monkeypatch.setitem(slurm_cluster.environment, "PATH", f"{srun.parent}{os.pathsep}{PATH}")
        made.append(Harness("slurm", runtime, tmp_path))
        return made[0]

    def runtime() -> SlurmRuntime:
        return slurm_runtime(slurm_cluster, tmp_path / "slurm", uuid.uuid4().hex, (sys.executable,))

    yield make
    for harness in made:
        harness.clean_up()
    slurm_cluster.clear()


def leave(host: Harness, cluster: SlurmCluster, script: str) -> str:
    """Runs a host to its end and reaps it; what Slurm says of it then."""
    handle = host.start(script)
    host.end(handle)
    number = cluster.number("contract-test")
    host.runtime.reap(host.jobs[0])
    assert host.runtime.find(host.jobs[0]) == []
    return wait_for("the end of the allocation", lambda: ended_as(cluster, number))


def ended_as(cluster: SlurmCluster, number: str) -> str | None:
    (state,) = cluster.run("squeue", "--noheader", "--states=all", f"--jobs={number}", "--Format=State").split()
    return None if state in ("RUNNING", "COMPLETING") else state


@pytest.mark.parametrize(("script", "state"), [("true", "COMPLETED"), ("exit 3", "FAILED")])
def test_an_allocation_whose_hosts_have_ended_is_left_to_end(
    late: Late, slurm_cluster: SlurmCluster, script: str, state: str
) -> None:
    assert leave(late(2), slurm_cluster, script) == state


def test_one_that_does_not_end_is_cancelled(
    late: Late, slurm_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "LEAVE_S", 1.0)
    assert leave(late(600), slurm_cluster, "true") == "CANCELLED"
