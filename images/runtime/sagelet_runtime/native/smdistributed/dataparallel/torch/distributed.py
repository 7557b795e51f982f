"""The API of the library's first version: torch.distributed's names, and the local ranks."""

import os
from typing import Any

import torch.distributed as dist
from torch.distributed import *  # noqa: F403

from smdistributed.dataparallel.torch import torch_smddp


def init_process_group(*arguments: Any, **options: Any) -> None:
    """Joins all workers of the job. Does nothing if they are joined already."""
    if dist.is_initialized():
        return
    if "backend" not in options and not arguments:
        options["backend"] = torch_smddp.BACKEND
    dist.init_process_group(*arguments, **options)


def get_local_rank() -> int:
    """Returns this worker's number on its host."""
    return int(os.environ["LOCAL_RANK"])


def get_local_size() -> int:
    """Returns the number of workers of this host."""
    return int(os.environ["LOCAL_WORLD_SIZE"])
