"""Makes the slurm runtime for a cluster on this machine."""

import os
from pathlib import Path

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.runtimes.process.runtime import StandIn
from sagelet_engine.runtimes.slurm.commands import Slurm
from sagelet_engine.runtimes.slurm.queue import SlurmQueue
from sagelet_engine.runtimes.slurm.rules import SlurmRules
from sagelet_engine.runtimes.slurm.runtime import SlurmRuntime
from sagelet_engine.runtimes.slurm.task import ProcessTask, Task
from support.slurm_cluster import SlurmCluster


def slurm_runtime(
    cluster: SlurmCluster,
    state_dir: Path,
    owner: str,
    train: tuple[str, ...],
    rules: SlurmRules | None = None,
    task: Task | None = None,
) -> SlurmRuntime:
    """Makes the runtime as a server of the data directory `owner` does. `train` replaces the image's `train`."""
    slurm = Slurm({**os.environ, **cluster.environment})
    task = task or ProcessTask(StandIn(train, "/nowhere"))
    queue = SlurmQueue(slurm, state_dir, owner, train[0], rules or SlurmRules(), afterwards=task.afterwards)
    return SlurmRuntime(state_dir, queue, task, SystemClock())
