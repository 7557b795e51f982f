"""Two servers of one user on one cluster, each with a data directory of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server import SageletProcess
from support.slurm_cluster import SlurmCluster
from support.slurm_server import WAITING, SlurmJobs

pytestmark = pytest.mark.slurm


@pytest.fixture
def pair(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[SageletProcess, SageletProcess]]:
    for name, value in slurm_cluster.environment.items():
        monkeypatch.setenv(name, value)
    servers = [SageletProcess(tmp_path / name, "--runtime", "slurm").start() for name in ("one", "two")]
    yield servers[0], servers[1]
    for server in servers:
        server.stop()
    slurm_cluster.clear()


def test_endpoints_of_one_cluster_do_not_meet(pair: tuple[SageletProcess, SageletProcess], tmp_path: Path) -> None:
    """One ends its job, dies and comes back; the job of the other goes on."""
    first, second = (SlurmJobs(server) for server in pair)
    go = tmp_path / "go"
    mine, theirs = first.run(WAITING, go), second.run(WAITING, go)
    first.training(mine)
    second.training(theirs)
    first.sagemaker.stop_training_job(TrainingJobName=mine)
    assert first.ended(mine)["TrainingJobStatus"] == "Stopped"
    pair[0].kill()
    pair[0].start()
    first = SlurmJobs(pair[0])
    listed = first.sagemaker.list_training_jobs()["TrainingJobSummaries"]
    assert [one["TrainingJobName"] for one in listed] == [mine]
    assert second.describe(theirs)["SecondaryStatus"] == "Training"
    go.touch()
    assert second.ended(theirs)["TrainingJobStatus"] == "Completed"
    assert second.lines(theirs) == ["ready", "done"]
