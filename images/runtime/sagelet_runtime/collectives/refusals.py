"""Makes features that cannot work between workers raise an error. torch_xla would compute in each worker for itself."""

import os
import warnings
from collections.abc import Callable
from typing import Any

from sagelet_runtime.collectives.errors import NotAcrossProcesses

_DATA_PARALLEL = "train data-parallel with xm.optimizer_step(optimizer) or DistributedDataParallel"
_INSIDE = (
    "a collective inside a compiled program is not possible between workers on CPUs; call it outside of the function "
    "that torch.compile or torch_xla.compile gets, through torch_xla.core.xla_model or torch.distributed"
)
#: Collectives of torch_xla's C++ layer. xm's own functions, which used them, are replaced.
_NATIVE = (
    "_xla_all_reduce",
    "_xla_all_reduce_inplace",
    "_xla_all_gather",
    "_xla_all_gather_out",
    "_xla_all_gather_coalesced",
    "_xla_all_gather_coalesced_out",
    "_xla_reduce_scatter",
    "_xla_reduce_scatter_out",
    "_xla_reduce_scatter_coalesced",
    "_xla_reduce_scatter_coalesced_out",
    "_xla_all_to_all",
    "_xla_collective_permute",
    "_xla_spmd_all_reduce",
    "_xla_spmd_reduce_scatter",
)


def install(torch_xla: Any) -> None:
    """Patches the features. Raises NotAcrossProcesses at once if the environment asks for an impossible one."""
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr

    if os.environ.get("XLA_USE_SPMD", "").lower() in ("1", "true"):
        raise NotAcrossProcesses(_spmd())
    if int(os.environ.get("CPU_NUM_DEVICES") or 1) > 1:
        raise NotAcrossProcesses(
            "CPU_NUM_DEVICES must be 1 where several workers train together; start more workers instead"
        )
    xr.use_spmd = refusing(_spmd())
    for name in _NATIVE:
        if hasattr(torch_xla._XLAC, name):
            setattr(torch_xla._XLAC, name, refusing(_INSIDE))
    for name in ("send", "recv"):
        setattr(xm, name, refusing(f"xm.{name} has no channels between workers on CPUs; use xm.collective_permute"))
    _refuse_functional()
    _refuse_fsdp()


def _spmd() -> str:
    return f"SPMD (XLA_USE_SPMD, xr.use_spmd) does not span workers on CPUs; {_DATA_PARALLEL}"


def refusing(reason: str) -> Callable[..., Any]:
    def refuse(*_args: Any, **_settings: Any) -> Any:
        raise NotAcrossProcesses(reason)

    return refuse


def _refuse_fsdp() -> None:
    from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel
    from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer

    for kind in (XlaFullyShardedDataParallel, ZeroRedundancyOptimizer):
        reason = f"{kind.__name__} is not available between workers on CPUs; {_DATA_PARALLEL}"
        kind.__init__ = refusing(reason)


#: Keeps the libraries alive, because a collected library removes its kernels.
_libraries: list[Any] = []


def _refuse_functional() -> None:
    """Refuses the operators that DTensor, FSDP2 and Dynamo turn collectives into.

    torch 2.1 has none of the three for XLA.
    """
    import torch

    if not hasattr(torch.ops._c10d_functional, "all_reduce"):
        return
    library = torch.library.Library("_c10d_functional", "IMPL")
    _libraries.append(library)
    for name in (
        "all_reduce",
        "all_reduce_",
        "all_reduce_coalesced",
        "all_reduce_coalesced_",
        "all_gather_into_tensor",
        "all_gather_into_tensor_out",
        "all_gather_into_tensor_coalesced",
        "reduce_scatter_tensor",
        "reduce_scatter_tensor_coalesced",
        "all_to_all_single",
        "broadcast",
        "broadcast_",
    ):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Warning only once for all operators", UserWarning)
            library.impl(name, refusing(_INSIDE), "XLA", allow_override=True)
