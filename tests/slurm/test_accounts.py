"""A server that was down for longer than Slurm's controller remembers jobs: the accounts have them.

The accounts are a file, written and read by Slurm itself (`jobcomp/filetxt`, `sacct --completion`): slurmdbd needs a
database's server beside it. Both are asked in the same words.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server import SageletProcess, until
from support.slurm_cluster import SlurmCluster
from support.slurm_server import SlurmJobs

pytestmark = pytest.mark.slurm

#: Heeds Slurm's signal, so that its own exit code says nothing of why it ended.
SCRIPT = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done"


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[SlurmCluster]:
    accounts = f"JobCompType=jobcomp/filetxt\nJobCompLoc={tmp_path}/jobs.txt\nMinJobAge=2"
    cluster = SlurmCluster(tmp_path / "cluster", extra=accounts)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


def test_jobs_that_slurm_has_forgotten_end_as_its_accounts_say(
    forgetful: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in forgetful.environment.items():
        monkeypatch.setenv(name, value)
    server = SageletProcess(tmp_path / "data", "--runtime", "slurm").start()
    jobs = SlurmJobs(server)
    late, cancelled = jobs.run(SCRIPT), jobs.run(SCRIPT)
    for name in (late, cancelled):
        jobs.training(name)
    server.kill()
    forgetful.update(f"JobId={forgetful.number(late)}", "EndTime=now")
    forgetful.run("scancel", forgetful.number(cancelled))
    until(lambda: forgetful.run("squeue", "--noheader", "--states=all").strip() == "", every=1)
    server.start()
    try:
        jobs = SlurmJobs(server)
        job = jobs.ended(late)
        assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")
        assert jobs.ended(cancelled)["TrainingJobStatus"] == "Failed"
        assert "was cancelled by somebody other than sagelet" in jobs.message(cancelled)
    finally:
        server.stop()
