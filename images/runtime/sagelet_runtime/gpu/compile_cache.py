"""Reports what the compile cache did for this worker, and which plugin it used."""

import os

from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.gpu import pjrt_front
from sagelet_runtime.gpu import plugin as gpu

CPU_REASON = "XLA's built-in CPU client writes executables that it cannot read back"
NONE_REASON = "no cache was given to this job"


def client() -> str:
    """Returns `jax-cuda13-pjrt 0.12.0 (PJRT C API 0.116)`. Empty for torch_xla's built-in client."""
    front, label = os.environ.get(gpu.FRONT), os.environ.get(gpu.LABEL)
    if not front or not label or os.environ.get("PJRT_DEVICE") == "CPU":
        return ""
    status = pjrt_front.status(front)
    return f"{label} (PJRT C API {status.major}.{status.minor})" if status.minor else label


def figures() -> JsonObject:
    """Returns `{"enabled": false, "reason": "...", "hits": 0, "misses": 0}`, with counts since the process's start."""
    front = os.environ.get(gpu.FRONT)
    if os.environ.get("PJRT_DEVICE") == "CPU" or not front:
        reason = CPU_REASON if os.environ.get("PJRT_DEVICE") == "CPU" else NONE_REASON
        return {"enabled": False, "reason": reason, "hits": 0, "misses": 0}
    status = pjrt_front.status(front)
    reason = "" if status.enabled else status.reason.decode(errors="replace") or NONE_REASON
    return {"enabled": bool(status.enabled), "reason": reason, "hits": status.hits, "misses": status.misses}
