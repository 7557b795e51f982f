"""Names of torch_xla 1.x that AWS's documents tell scripts to call and that 2.9 has no more.

Removed upstream: xrt_world_size, get_ordinal, parse_xla_device (pytorch/xla #8927).
"""

import warnings
from typing import Any


def install(_torch_xla: Any) -> None:
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr
    from torch_xla._internal import utils

    def xrt_world_size(defval: int = 1) -> int:  # noqa: ARG001 - part of the name's contract
        return int(xr.world_size())

    def get_ordinal(defval: int = 0) -> int:  # noqa: ARG001 - part of the name's contract
        return int(xr.global_ordinal())

    removed = {"xrt_world_size": xrt_world_size, "get_ordinal": get_ordinal, "parse_xla_device": utils.parse_xla_device}
    for name, function in removed.items():
        if not hasattr(xm, name):
            setattr(xm, name, function)
    # mark_step and xla_device still work; one warning a step would bury the script's own lines.
    warnings.filterwarnings("ignore", message=r"Use torch_xla\.(sync|device) instead", category=DeprecationWarning)
