"""What sagelet takes of a cluster's controller does not grow with its queue."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server import until
from support.slurm_cluster import SlurmCluster
from support.slurm_load import SHORT, Queue, wait_until_held

pytestmark = pytest.mark.slurm

FEW, MANY = 5, 40


@pytest.fixture
def queue(slurm_cluster: SlurmCluster, tmp_path: Path) -> Iterator[Queue]:
    """One node is held, one takes jobs."""
    queue = Queue(slurm_cluster, tmp_path, 1, 1)
    yield queue
    queue.close()
    slurm_cluster.clear()


def test_waiting_jobs_have_neither_threads_nor_processes_nor_calls_of_their_own(
    queue: Queue, slurm_cluster: SlurmCluster
) -> None:
    wait_until_held(queue, 1)

    def window(queued: int, submitted: int) -> tuple[int, float, int]:
        queue.submit(submitted, SHORT)
        until(lambda: queue.commands.since()[0]["sbatch"] == queued + 1)
        figures = queue.watch(queued, 8)
        # One look a second for all of them, a slow machine makes fewer; and some at each that ends.
        assert figures.calls.get("squeue", 0) <= figures.seconds + 2 + 5 * (figures.ended + 1)
        # A submission and a look may meet.
        assert figures.most_at_once <= 2
        return figures.threads, figures.calls.get("squeue", 0) / figures.seconds, figures.ended

    few = window(FEW, FEW)
    many = window(MANY, MANY - FEW)
    # Those that run and end in a window have threads; those that wait have none.
    assert many[0] <= few[0] + 12
    # Each was submitted once.
    assert queue.commands.since()[0]["sbatch"] == MANY + 1
    names = slurm_cluster.run("squeue", "--noheader", "--states=all", "--Format=Comment:100").split()
    assert len(names) == len(set(names))
