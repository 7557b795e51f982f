"""Reads the most memory that the process, or its accelerator, held."""

import resource
import sys
from typing import Any

from sagelet_runtime.base.wire import JsonObject


def of_process() -> JsonObject:
    """Returns the maximum of resident memory. The kernel keeps it in KiB (on macOS in bytes)."""
    unit = 1 if sys.platform == "darwin" else 1024
    return {"peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, "kind": "rss"}


def of_xla_device(platform: str) -> JsonObject:
    """Returns the accelerator's memory. Empty if PJRT does not report it, as its CPU client does not."""
    if platform == "CPU":
        return of_process()
    import torch_xla.core.xla_model as xm

    try:
        told = xm.get_memory_info(xm.xla_device())
    except RuntimeError:
        return of_process()
    peak = told.get("peak_bytes_used", told.get("bytes_used", 0))
    return {"peak_bytes": int(peak), "kind": "device", "limit_bytes": int(told.get("bytes_limit", 0))}


def of_native(torch: Any) -> JsonObject:
    """Returns the memory of the GPU that a native job trains on."""
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return of_process()
    limit = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return {"peak_bytes": torch.cuda.max_memory_allocated(), "kind": "device", "limit_bytes": limit}
