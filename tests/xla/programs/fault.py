"""Two collectives that go well, and one at which rank 1 fails in the way that the first argument names."""

import os
import sys
import time

import torch
import torch_xla
import torch_xla.core.xla_model as xm

RANK = int(os.environ["RANK"])
value = torch.ones(1000, device=torch_xla.device())
xm.rendezvous("begin")
xm.all_reduce("sum", [value])
way = sys.argv[1]
if RANK == 1 and way == "raise":
    raise KeyError("rank 1 found no such column")
if RANK == 1 and way == "kill":
    os.kill(os.getpid(), 9)
if RANK == 1 and way == "stall":
    # Until the test ends it.
    time.sleep(3600)
xm.all_reduce("sum", [value])
print("went on")
