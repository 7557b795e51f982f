"""The slurm runtime over a cluster of this machine."""

import os
from pathlib import Path

from sagelet_engine.clock import SystemClock
from sagelet_engine.runtimes.process import StandIn
from sagelet_engine.runtimes.slurm import SlurmRuntime
from sagelet_engine.runtimes.slurm_commands import Slurm
from sagelet_engine.runtimes.slurm_queue import SlurmQueue
from sagelet_engine.runtimes.slurm_rules import SlurmRules
from sagelet_engine.runtimes.slurm_task import ProcessTask, Task
from support.slurm_cluster import SlurmCluster


def slurm_runtime(
    cluster: SlurmCluster,
    state_dir: Path,
    owner: str,
    train: tuple[str, ...],
    rules: SlurmRules | None = None,
    task: Task | None = None,
) -> SlurmRuntime:
    """As a server of the data directory `owner` makes it; `train` stands for the image's `train`."""
    slurm = Slurm({**os.environ, **cluster.environment})
    task = task or ProcessTask(StandIn(train, "/nowhere"))
    queue = SlurmQueue(slurm, state_dir, owner, train[0], rules or SlurmRules(), afterwards=task.afterwards)
    return SlurmRuntime(state_dir, queue, task, SystemClock())
