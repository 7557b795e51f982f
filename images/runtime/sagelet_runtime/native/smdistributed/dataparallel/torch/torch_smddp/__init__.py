"""`import smdistributed.dataparallel.torch.torch_smddp` registers the backend `smddp` with torch.distributed.

The backend is NCCL where the process has a GPU and gloo elsewhere. The collectives are the same, without AWS's speed
on EFA.
"""

from datetime import timedelta

import torch
import torch.distributed as dist

BACKEND = "smddp"


def _make(store: dist.Store, rank: int, size: int, timeout: timedelta) -> dist.ProcessGroup:
    if torch.cuda.is_available():
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = timeout
        return dist.ProcessGroupNCCL(store, rank, size, options)
    return dist.ProcessGroupGloo(store, rank, size, timeout)


if not hasattr(dist.Backend, BACKEND.upper()):
    dist.Backend.register_backend(BACKEND, _make, devices=["cpu", "cuda"])
    if dist.is_available():
        where = "NCCL" if torch.cuda.is_available() else "gloo"
        print(f"sagelet: the backend smddp is {where} here", flush=True)
